#include "report/measured_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/quantity_text.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

// "of every rank as predicted, to the byte (1.50 GiB ...)", or a rank that was not. `words`: of the sum or the maximum.
std::string beside(const answer::Result& run, const std::vector<Bytes>& measured, const std::vector<Bytes>& predicted,
                   const std::string& words) {
  std::size_t wrong = 0, first = 0;
  for (std::size_t r = measured.size(); r-- > 0;)
    if (measured[r] != predicted[r]) ++wrong, first = r;
  if (wrong == 0) return fmt::format("of every rank as predicted, to the byte ({})", words);
  return fmt::format("rank {} held {} at its peak, {} predicted; {} of {} ranks differ",
                     run.graph().ranks()[first].job_rank, show(measured[first]), show(predicted[first]), wrong,
                     measured.size());
}

// Of each rank, on one tier.
std::vector<Bytes> on(Tier tier, const std::vector<std::vector<Bytes>>& ranks) {
  std::vector<Bytes> all;
  for (const auto& rank : ranks) all.push_back(rank[index(tier)]);
  return all;
}

}  // namespace

void measured_facts(const answer::Result& run, std::vector<Fact>& facts) {
  const auto& m = *run.measured;
  const auto& timeline = run.timeline;
  if (m.iterations.median > Time{})
    facts.push_back({"Predicted",
                     {show(m.predicted), to_seconds(m.predicted), "/iterations/predicted_s"},
                     predicted_error(m.predicted / m.iterations.median - 1) + " than measured"});
  if (const auto clocks = clocks_note(timeline); !clocks.empty()) facts.push_back({"Clocks", {clocks}});
  if (m.collectives) facts.push_back({"Collectives", {collectives_note(*m.collectives)}});
  if (const auto links = links_note(m.links); !links.empty()) facts.push_back({"Links", {links}});
  if (const auto& peaks = timeline.peak_bytes; !peaks.empty())
    facts.push_back(
        {"High water",
         {beside(run, peaks, m.predicted_allocated, "worst " + show(*std::max_element(peaks.begin(), peaks.end())))}});
  for (const Tier tier : {Tier::host, Tier::nvme}) {
    const auto measured = on(tier, timeline.beyond_bytes), predicted = on(tier, m.predicted_beyond);
    const auto all = std::accumulate(measured.begin(), measured.end(), Bytes{});
    if (all > Bytes{} || measured != predicted)
      facts.push_back(
          {tier == Tier::host ? "On the host" : "On disks", {beside(run, measured, predicted, show(all) + " in all")}});
  }
  if (const auto& disk = timeline.disk; !disk.means.empty())
    facts.push_back({"Disks",
                     {fmt::format("files by {}; {} of {} in the page cache at the end", disk.means, show(disk.cached),
                                  show(disk.length))}});
  for (const auto& device : timeline.devices)  // reported by the devices themselves
    facts.push_back(
        {"Profiler",
         {device.unavailable.empty()
              ? fmt::format("{} kernels of {} and {} copies of {} in one more iteration; {} of memory taken",
                            device.kernels, show(device.kernel_time), device.copies, show(device.copy_time),
                            show(device.taken))
              : "none: " + device.unavailable}});
}

std::string iterations_note(const timeline::Spread& s) {
  if (s.iterations < 2) return "one iteration, no spread known";
  return fmt::format("median of {}; p10 .. p90: {} .. {}", s.iterations, show(s.p10), show(s.p90));
}

std::string collectives_note(backend::Collectives how) {
  return how == backend::Collectives::own ? "own: the steps of the algorithms that were predicted"
                                          : "library: as the transport's own library performs them";
}

std::string clocks_note(const timeline::Timeline& timeline) {
  if (timeline.clock_error <= Time{}) return "";
  return fmt::format("those of two hosts may be {} apart; differences below that say nothing",
                     show(timeline.clock_error));
}

std::string links_note(const std::vector<answer::Measured::Link>& links) {
  double least = 1e300, most = -1e300;
  std::size_t used = 0;
  for (const auto& link : links) {
    if (link.predicted <= 0) continue;
    const double more = link.counted / link.predicted - 1;
    ++used, least = std::min(least, more), most = std::max(most, more);
  }
  if (used == 0) return "";
  const auto& first = links.front();
  return fmt::format("{} carried {} in a step, {} predicted; on all {} that are used {} to {} of the prediction",
                     first.name, show(bytes(first.counted)), show(bytes(first.predicted)), used,
                     show_amount(least, Unit::error), show_amount(most, Unit::error));
}

std::string predicted_error(double error) {
  return fmt::format("{:.1f} % {}", std::abs(error) * 100, error < 0 ? "shorter" : "longer");
}

std::string disturbance_text(const timeline::Timeline& timeline, int width, const Paint& paint) {
  return notes(kDisturbed, timeline.disturbances, width, paint);
}

}  // namespace rehearsal::report
