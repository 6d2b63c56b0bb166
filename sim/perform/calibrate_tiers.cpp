#include "perform/calibrate_tiers.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "calibrate/tiers.hpp"

namespace rehearsal::perform {
namespace {

cost::Quantiles spread_of(const calibrate::Spread& s) { return {s.p10, s.p50, s.p90}; }

cost::DiskTimes measured_disk(const calibrate::DiskProbe& probe) {
  cost::DiskTimes disk{probe.means, probe.page_cache, {}};
  for (const auto& t : probe.times) disk.samples.push_back({t.size, spread_of(t.write), spread_of(t.read)});
  return disk;
}

// GB/s = bytes per nanosecond.
double rate(Bytes size, Time time) { return double(size.count()) / to_seconds(time) / 1e9; }

std::string disk_lines(const char* name, const cost::DiskTimes& disk) {
  std::string text = fmt::format("\n{:<24}{:>12}{:>12}{:>16}   {}{}\n", name, "write", "read", "GB/s", disk.means,
                                 disk.page_cache ? "; the page cache answered" : "");
  for (const auto& s : disk.samples)
    text += fmt::format("{:<24}{:>12}{:>12}{:>16}\n", show(s.size), show(s.write.p50), show(s.read.p50),
                        fmt::format("{:.2f}, {:.2f}", rate(s.size, s.write.p50), rate(s.size, s.read.p50)));
  return text;
}

Json disk_json(const std::optional<cost::DiskTimes>& disk) {
  if (!disk) return nullptr;
  Json times = Json::array();
  for (const auto& s : disk->samples)
    times.push_back({{"bytes", s.size.count()},
                     {"write_s", to_seconds(s.write.p50)},
                     {"read_s", to_seconds(s.read.p50)},
                     {"write_bytes_per_s", rate(s.size, s.write.p50) * 1e9},
                     {"read_bytes_per_s", rate(s.size, s.read.p50) * 1e9}});
  return {{"means", disk->means}, {"page_cache", disk->page_cache}, {"times", times}};
}

}  // namespace

MeasuredTiers measure_tiers(const cli::Calibration& options, unsigned threads,
                            const std::function<void(const std::string&)>& say) {
  const calibrate::TierSettings settings{threads, options.tier_directory, options.quick};
  MeasuredTiers measured;
  auto& times = measured.times;
  times.threads = threads;
  say("the disk");  // first: what it lacks is said before the rest is waited for
  try {
    times.direct_disk = measured_disk(calibrate::probe_disk(settings, true));
    times.cached_disk = measured_disk(calibrate::probe_disk(settings, false));
  } catch (const MachineError& error) {
    if (!options.tier_directory.empty()) throw;
    times.direct_disk.reset(), measured.no_disk = error.what();
  }
  say("copies in memory and an optimizer on the host");
  for (const auto& c : calibrate::time_heap_copies(settings)) times.copies.push_back({c.size, spread_of(c.time)});
  for (const bool stored : {false, true}) {
    const auto adam = calibrate::time_host_adam(settings, stored);
    times.adam[stored ? Precision::bf16 : Precision::fp32] = {adam.parameters, adam.each, spread_of(adam.time)};
  }
  return measured;
}

std::string tiers_text(const MeasuredTiers& measured) {
  const auto& t = measured.times;
  std::string text =
      fmt::format("\n{:<24}{:>12}{:>16}   {} threads at once\n", "copy in memory", "time", "GB/s of each", t.threads);
  for (const auto& c : t.copies)
    text += fmt::format("{:<24}{:>12}{:>16.2f}\n", show(c.size), show(c.time.p50), rate(c.size, c.time.p50));
  text += fmt::format("\n{:<24}{:>12}{:>16}   {} threads together, {} parameters\n", "AdamW on the host", "ns each",
                      "GB/s", t.threads, t.adam.empty() ? 0 : t.adam.begin()->second.parameters);
  for (const auto& [precision, a] : t.adam)
    text += fmt::format("{:<24}{:>12.3f}{:>16.2f}   {} bytes each\n", fmt::format("parameters in {}", name(precision)),
                        to_seconds(a.time.p50) / double(a.parameters) * 1e9, rate(a.each * a.parameters, a.time.p50),
                        a.each.count());
  if (t.direct_disk) text += disk_lines("disk", *t.direct_disk);
  if (t.cached_disk) text += disk_lines("disk, page cache", *t.cached_disk);
  if (!measured.no_disk.empty()) text += fmt::format("\nNo disk was measured: {}\n", measured.no_disk);
  return text;
}

Json tiers_json(const MeasuredTiers& measured) {
  const auto& t = measured.times;
  Json copies = Json::array(), adam = Json::object();
  for (const auto& c : t.copies)
    copies.push_back({{"bytes", c.size.count()},
                      {"seconds", to_seconds(c.time.p50)},
                      {"bytes_per_s", rate(c.size, c.time.p50) * 1e9}});
  for (const auto& [precision, a] : t.adam)
    adam[name(precision)] = {{"parameters", a.parameters},
                             {"bytes_each", a.each.count()},
                             {"seconds_each", to_seconds(a.time.p50) / double(a.parameters)}};
  return {{"threads", t.threads},
          {"copies", copies},
          {"adam", adam},
          {"direct_disk", disk_json(t.direct_disk)},
          {"cached_disk", disk_json(t.cached_disk)},
          {"no_disk", measured.no_disk.empty() ? Json(nullptr) : Json(measured.no_disk)}};
}

}  // namespace rehearsal::perform
