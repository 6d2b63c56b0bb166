// What a performed step has besides.
#include "report/run_report.hpp"

namespace rehearsal::report {
namespace {

using answer::Measured, answer::Verification;

// Of what was measured, in a result.
template <class Member>
auto in_measured(Member member) {
  return [member](const Result& r) -> decltype(auto) { return std::invoke(member, *r.measured); };
}

Shown<Result> iterations() {
  const auto spread = [](auto member) {
    return [member](const Result& r) -> decltype(auto) { return std::invoke(member, r.measured->iterations); };
  };
  using timeline::Spread;
  return Shown<Result>("The iterations that count.")
      .figure("measured", Unit::none, "measured", "how many", spread(&Spread::iterations))
      .figures(Unit::seconds, "median_s", spread(&Spread::median), "p10_s", spread(&Spread::p10), "p90_s",
               spread(&Spread::p90), "minimum_s", spread(&Spread::minimum))
      .figure("each_s", Unit::seconds, "each", "in order", [](auto& r) { return r.timeline.iteration_end; })
      .figure("predicted_s", Unit::seconds, "predicted", "", in_measured(&Measured::predicted))
      .figure("disturbed", Unit::none, "disturbed", "", [](auto& r) { return !r.timeline.disturbances.empty(); })
      .figure("disturbances", Unit::none, "disturbances", "what else the machine did",
              [](auto& r) { return r.timeline.disturbances; });
}

// Of one tier beyond the device; `rank[tier]` of each rank.
struct TierPeaks {
  std::vector<Bytes> predicted, measured;
};
std::optional<TierPeaks> beyond(const Result& r, Tier tier) {
  if (r.timeline.beyond_bytes.empty()) return std::nullopt;
  TierPeaks all;
  for (const auto& rank : r.measured->predicted_beyond) all.predicted.push_back(rank[index(tier)]);
  for (const auto& rank : r.timeline.beyond_bytes) all.measured.push_back(rank[index(tier)]);
  return all;
}
Shown<TierPeaks> held(const char* what) {
  return Shown<TierPeaks>(what)
      .figure("predicted_allocated", Unit::bytes, "predicted", "of each rank", &TierPeaks::predicted)
      .figure("measured", Unit::bytes, "measured", "of each rank", &TierPeaks::measured)
      .figure("equal", Unit::none, "equal", "to the byte", [](auto& b) { return b.predicted == b.measured; });
}

Shown<Result> memory() {
  const auto allocator = [](auto member) {
    return [member](const Result& r) -> std::optional<std::vector<Bytes>> {
      if (r.timeline.allocator_peak_bytes.empty()) return std::nullopt;
      return r.timeline.*member;
    };
  };
  using Disk = timeline::Timeline::Disk;
  return Shown<Result>()
      .figure("predicted_allocated", Unit::bytes, "predicted", "peak of each rank",
              in_measured(&Measured::predicted_allocated))
      .figure("measured", Unit::bytes, "measured", "of each rank", [](auto& r) { return r.timeline.peak_bytes; })
      .figure("equal", Unit::none, "equal", "to the byte",
              [](auto& r) { return r.measured->predicted_allocated == r.timeline.peak_bytes; })
      .group("host", held("On the hosts."), [](auto& r) { return beyond(r, Tier::host); })
      .or_left_out()
      .group("nvme", held("On disks."), [](auto& r) { return beyond(r, Tier::nvme); })
      .or_left_out()
      .group("disk",
             Shown<Disk>("Of all files.")
                 .figure("means", Unit::none, "by", "what carried bytes", &Disk::means)
                 .figure("bytes", Unit::bytes, "length", "", &Disk::length)
                 .figure("page_cache_bytes", Unit::bytes, "cached", "in the page cache at the end", &Disk::cached),
             [](auto& r) { return r.timeline.disk.means.empty() ? nullptr : &r.timeline.disk; })
      .or_left_out()
      .figure("allocator", Unit::bytes, "allocator", "rounded by the device's own allocator",
              allocator(&timeline::Timeline::allocator_peak_bytes))
      .or_left_out()
      .figure("allocator_allowance", Unit::bytes, "allowance", "by which it may count more",
              allocator(&timeline::Timeline::allocator_allowance))
      .or_left_out();
}

Shown<timeline::DeviceReport> device() {
  using timeline::DeviceReport;
  return Shown<DeviceReport>("What the devices' own profiler saw.")
      .figure("kernels", Unit::none, "kernels", "", &DeviceReport::kernels)
      .figure("kernel_s", Unit::seconds, "in kernels", "", &DeviceReport::kernel_time)
      .figure("copies", Unit::none, "copies", "", &DeviceReport::copies)
      .figure("copy_s", Unit::seconds, "in copies", "", &DeviceReport::copy_time)
      .figure("profiler", Unit::none, "profiler", "or why there is none",
              [](auto& d) { return d.unavailable.empty() ? std::string("CUPTI") : d.unavailable; })
      .figure("memory_taken_bytes", Unit::bytes, "taken", "of its memory", &DeviceReport::taken);
}

Shown<Verification> verification() {
  using V = Verification;
  return Shown<V>("Whether it trains what one rank alone trains.")
      .figure("steps", Unit::none, "steps", "", &V::steps)
      .figure("loss", Unit::none, "loss", "of each step", &V::loss)
      .figure("reference_loss", Unit::none, "serial", "", &V::reference_loss)
      .figure("gradient_norm", Unit::none, "gradient norm", "of each step", &V::gradient_norm)
      .figure("reference_gradient_norm", Unit::none, "serial", "", &V::reference_gradient_norm)
      .figure("max_relative_difference", Unit::none, "weights differ", "", &V::max_relative_difference)
      .figure("max_unexplained_difference", Unit::none, "unexplained", "by the rounding of gradients",
              &V::max_unexplained_difference)
      .figure("max_gathered_difference", Unit::none, "gradients differ", "", &V::max_gathered_difference)
      .figure("elements", Unit::none, "elements", "", &V::elements)
      .figure("ill_conditioned_elements", Unit::none, "ill-conditioned", "whose gradients are near zero",
              &V::ill_conditioned)
      .figures(Unit::none, "tolerance", &V::tolerance, "worst_tensor", &V::worst_tensor)
      .figure("replica_difference", Unit::none, "replicas differ", "", &V::replica_difference)
      .figure("ok", Unit::none, "verified", "", &V::ok)
      .figure("failures", Unit::none, "failures", "in sentences", &V::failures);
}

}  // namespace

Shown<Result> measured_answer() {
  return Shown<Result>()
      .group("iterations", iterations(), [](auto& r) { return r.measured ? &r : nullptr; })
      .group("memory", memory(), [](auto& r) { return r.measured && !r.timeline.peak_bytes.empty() ? &r : nullptr; })
      .rows("devices", device(),
            [](auto& r) { return r.measured && !r.timeline.devices.empty() ? &r.timeline.devices : nullptr; })
      .group("verify", verification(),
             [](auto& r) -> const Verification* {
               return r.measured && r.measured->verification ? &*r.measured->verification : nullptr;
             })
      .or_all_left_out();
}

}  // namespace rehearsal::report
