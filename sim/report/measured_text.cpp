#include "report/measured_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quantity_text.hpp"
#include "page/grid.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

std::string memory_text(const answer::Result& run) {
  const auto& measured = run.timeline.peak_bytes;
  const auto& predicted = run.measured->predicted_allocated;
  if (measured.empty()) return "";
  if (predicted == measured)
    return fmt::format("  High water   of every rank as predicted, to the byte (worst {})\n",
                       show(*std::max_element(measured.begin(), measured.end())));
  std::string text;
  std::size_t wrong = 0;
  for (std::size_t r = 0; r < measured.size(); r++) {
    if (measured[r] == predicted[r]) continue;
    if (wrong++ == 0)
      text = fmt::format("  High water   rank {} held {} at its peak, {} predicted", run.graph().ranks()[r].job_rank,
                         show(measured[r]), show(predicted[r]));
  }
  return fmt::format("{}; {} of {} ranks differ\n", text, wrong, measured.size());
}

// The tiers beyond the device that held anything.
std::string tiers_text(const answer::Result& run) {
  const auto& measured = run.timeline.beyond_bytes;
  const auto& predicted = run.measured->predicted_beyond;
  std::string text;
  for (const Tier tier : {Tier::host, Tier::nvme}) {
    Bytes all;
    std::size_t wrong = measured.size();
    for (std::size_t r = 0; r < measured.size(); r++) {
      all += measured[r][index(tier)];
      if (wrong == measured.size() && measured[r][index(tier)] != predicted[r][index(tier)]) wrong = r;
    }
    if (all == Bytes{} && wrong == measured.size()) continue;
    text += fmt::format("  {:<13}", tier == Tier::host ? "On the host" : "On disks");
    if (wrong == measured.size())
      text += fmt::format("of every rank as predicted, to the byte ({} in all)\n", show(all));
    else
      text += fmt::format("rank {} held {} at its peak, {} predicted\n", run.graph().ranks()[wrong].job_rank,
                          show(measured[wrong][index(tier)]), show(predicted[wrong][index(tier)]));
  }
  const auto& disk = run.timeline.disk;
  if (!disk.means.empty())
    text += fmt::format("  Disks        files by {}; {} of {} in the page cache at the end\n", disk.means,
                        show(disk.cached), show(disk.length));
  return text;
}

// Reported by the devices themselves.
std::string devices_text(const answer::Result& run) {
  std::string text;
  for (const auto& device : run.timeline.devices)
    text +=
        device.unavailable.empty()
            ? fmt::format(
                  "  Profiler     {} kernels of {} and {} copies of {} in one more iteration; {} of memory taken\n",
                  device.kernels, show(device.kernel_time), device.copies, show(device.copy_time), show(device.taken))
            : fmt::format("  Profiler     none: {}\n", device.unavailable);
  return text;
}

std::string verification_text(const answer::Verification& v, int width, const Paint& paint) {
  std::string text = "\n" + paint.bold(v.ok ? "Verified: trains what one rank alone trains" : "NOT VERIFIED") + "\n";
  std::vector<std::vector<std::string>> rows{{"step", "loss", "serial", "gradient norm", "serial"}};
  const auto cell = [](const std::vector<double>& values, std::size_t i) {
    return i < values.size() ? fmt::format("{:.8g}", values[i]) : std::string("-");
  };
  const auto steps = static_cast<std::uint32_t>(std::max(v.loss.size(), v.reference_loss.size()));
  const ElidedRows fold = elided_rows(steps, 12);
  for (std::uint32_t i = 0; i < steps; i++) {
    if (fold.hidden && i == fold.first) {
      rows.push_back({"...", "", "", "", ""});
      i += fold.hidden;
    }
    rows.push_back({std::to_string(i + 1), cell(v.loss, i), cell(v.reference_loss, i), cell(v.gradient_norm, i),
                    cell(v.reference_gradient_norm, i)});
  }
  text += table(rows, paint, width);
  text += fmt::format("  weights differ by at most {:.2g} relative ({}); allowed are {:g}\n", v.max_relative_difference,
                      v.worst_tensor, v.tolerance);
  if (v.ill_conditioned > 0)
    text += fmt::format(
        "  of them {:.2g} are more than rounded gradients explain; {} of {} elements have gradients so near zero that\n"
        "  AdamW turns their rounding into steps: these are judged by their gradients, which differ by {:.2g}\n",
        v.max_unexplained_difference, v.ill_conditioned, v.elements, v.max_gathered_difference);
  return text + notes("What differs", v.failures, width, paint);
}

}  // namespace

std::string iterations_note(const timeline::Spread& s) {
  if (s.iterations < 2) return "one iteration, no spread known";
  return fmt::format("median of {}; p10 .. p90: {} .. {}", s.iterations, show(s.p10), show(s.p90));
}

std::string predicted_error(double error) {
  return fmt::format("{:.1f} % {}", std::abs(error) * 100, error < 0 ? "shorter" : "longer");
}

std::string disturbance_text(const timeline::Timeline& timeline, int width, const Paint& paint) {
  return notes(kDisturbed, timeline.disturbances, width, paint);
}

std::string measured_text(const answer::Result& run, int width, const Paint& paint) {
  const answer::Measured& m = *run.measured;
  std::string text;
  if (m.iterations.median > Time{})
    text += fmt::format("  Predicted    {:<16} {}\n", show(m.predicted),
                        predicted_error(m.predicted / m.iterations.median - 1) + " than measured");
  text += memory_text(run);
  text += tiers_text(run);
  text += devices_text(run);
  text += disturbance_text(run.timeline, width, paint);
  if (m.verification) text += verification_text(*m.verification, width, paint);
  return text;
}

}  // namespace rehearsal::report
