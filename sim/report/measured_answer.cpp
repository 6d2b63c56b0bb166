// What a performed step has besides.
#include <optional>

#include "report/run_report.hpp"

namespace rehearsal::report {
namespace {

using answer::Verification;

Shown<Result> iterations() {
  using timeline::Spread;
  return Shown<Result>("The iterations that count.")
      .also(Shown<Spread>()
                .figure("measured", "measured", "how many", &Spread::iterations)
                .figures(Unit::seconds, "median_s", &Spread::median, "p10_s", &Spread::p10, "p90_s", &Spread::p90,
                         "minimum_s", &Spread::minimum),
            [](auto& r) -> const Spread& { return r.measured->iterations; })
      .figure("each_s", Unit::seconds, "each", "in order", [](auto& r) { return r.timeline.iteration_end; })
      .figure("predicted_s", Unit::seconds, "predicted", "", [](auto& r) { return r.measured->predicted; })
      .figure("clock_error_s", Unit::seconds, "clocks", "of several hosts: by how much two may be apart",
              [](auto& r) {
                return r.timeline.clock_error > Time{} ? std::optional(r.timeline.clock_error) : std::nullopt;
              })
      .or_left_out()
      .figure("disturbed", "disturbed", "", [](auto& r) { return !r.timeline.disturbances.empty(); })
      .figure("disturbances", "disturbances", "what else the machine did",
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
      .figure("equal", "equal", "to the byte", [](auto& b) { return b.predicted == b.measured; });
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
              [](auto& r) { return r.measured->predicted_allocated; })
      .figure("measured", Unit::bytes, "measured", "of each rank", [](auto& r) { return r.timeline.peak_bytes; })
      .figure("equal", "equal", "to the byte",
              [](auto& r) { return r.measured->predicted_allocated == r.timeline.peak_bytes; })
      .group("host", held("On the hosts."), [](auto& r) { return beyond(r, Tier::host); })
      .or_left_out()
      .group("nvme", held("On disks."), [](auto& r) { return beyond(r, Tier::nvme); })
      .or_left_out()
      .group("disk",
             Shown<Disk>("Of all files.")
                 .figure("means", "by", "what carried bytes", &Disk::means)
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
      .figure("kernels", "kernels", "", &DeviceReport::kernels)
      .figure("kernel_s", Unit::seconds, "in kernels", "", &DeviceReport::kernel_time)
      .figure("copies", "copies", "", &DeviceReport::copies)
      .figure("copy_s", Unit::seconds, "in copies", "", &DeviceReport::copy_time)
      .figure("profiler", "profiler", "or why there is none",
              [](auto& d) { return d.unavailable.empty() ? std::string("CUPTI") : d.unavailable; })
      .figure("memory_taken_bytes", Unit::bytes, "taken", "of its memory", &DeviceReport::taken);
}

Shown<Verification> verification() {
  using V = Verification;
  return Shown<V>("Whether it trains what one rank alone trains.")
      .figure("steps", "steps", "", &V::steps)
      .figure("loss", "loss", "of each step", &V::loss)
      .figure("reference_loss", "serial", "", &V::reference_loss)
      .figure("gradient_norm", "gradient norm", "of each step", &V::gradient_norm)
      .figure("reference_gradient_norm", "serial", "", &V::reference_gradient_norm)
      .figure("max_relative_difference", "weights differ", "", &V::max_relative_difference)
      .figure("max_unexplained_difference", "unexplained", "by the rounding of gradients",
              &V::max_unexplained_difference)
      .figure("max_gathered_difference", "gradients differ", "", &V::max_gathered_difference)
      .figure("elements", "elements", "", &V::elements)
      .figure("ill_conditioned_elements", "ill-conditioned", "whose gradients are near zero", &V::ill_conditioned)
      .figures(Unit::none, "tolerance", &V::tolerance, "worst_tensor", &V::worst_tensor)
      .figure("replica_difference", "replicas differ", "", &V::replica_difference)
      .figure("ok", "verified", "", &V::ok)
      .figure("failures", "failures", "in sentences", &V::failures);
}

}  // namespace

Shown<answer::Measured::Link> counted_link() {
  using Link = answer::Measured::Link;
  return Shown<Link>("Over hosts of this machine: what passed each link in an iteration, the most first.")
      .figure("name", "link", "one way", &Link::name)
      .figure("predicted_bytes", Unit::bytes, "predicted", "", &Link::predicted)
      .figure("counted_bytes", Unit::bytes, "counted",
              "by the kernel, with headers, answers and what started the ranks", &Link::counted)
      .figure("counted_more", Unit::error, "more", "counted / predicted - 1",
              [](auto& l) { return l.predicted > 0 ? std::optional(l.counted / l.predicted - 1) : std::nullopt; });
}

Shown<Result> measured_answer() {
  return Shown<Result>()
      .group("iterations", iterations(), [](auto& r) { return r.measured ? &r : nullptr; })
      .group("memory", memory(), [](auto& r) { return r.measured && !r.timeline.peak_bytes.empty() ? &r : nullptr; })
      .rows("devices", device(),
            [](auto& r) { return r.measured && !r.timeline.devices.empty() ? &r.timeline.devices : nullptr; })
      .rows("link_bytes", counted_link(),
            [](auto& r) { return r.measured && !r.measured->links.empty() ? &r.measured->links : nullptr; })
      .group("verify", verification(),
             [](auto& r) -> const Verification* {
               return r.measured && r.measured->verification ? &*r.measured->verification : nullptr;
             })
      .figure("collectives", "collectives",
              "own: by the steps of the algorithms that were predicted; library: by MPI, NCCL, or one thread for all",
              [](auto& r) -> std::optional<std::string> {
                if (!r.measured || !r.measured->collectives) return std::nullopt;
                return backend::name(*r.measured->collectives);
              })
      .or_all_left_out();
}

}  // namespace rehearsal::report
