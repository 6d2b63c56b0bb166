#include <fmt/format.h>

#include <algorithm>

#include "page/layout.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

std::string cell(double value) { return fmt::format("{}", value); }
std::string cell(const std::optional<double>& value) { return value ? cell(*value) : ""; }

}  // namespace

std::string run_csv(std::span<const Result> answers) {
  std::vector<std::string> header = {"name",
                                     "file",
                                     "gpus",
                                     "microbatches",
                                     "iteration_s",
                                     "samples_per_s",
                                     "tokens_per_s",
                                     "model_tflops_per_gpu",
                                     "hardware_tflops_per_gpu",
                                     "mfu",
                                     "hfu",
                                     "bubble_rate",
                                     "allocated_bytes",
                                     "reserved_bytes",
                                     "device_bytes",
                                     "fits"};
  for (std::size_t c = 0; c < graph::kCategories; c++)
    header.push_back(fmt::format("{}_s", graph::name(static_cast<graph::Category>(c))));
  const auto& axes = answer::AxisBytes::parts();
  for (const auto& axis : axes) header.push_back(fmt::format("{}_bytes_per_gpu", axis.name));
  header.insert(header.end(), {"data_closed_form_bytes", "busiest_link", "busiest_link_share"});
  for (std::size_t c = 0; c < graph::kMemoryCategories; c++)  // of the rank with the highest peak, at that time
    header.push_back(fmt::format("{}_memory_bytes", graph::name(static_cast<graph::MemoryCategory>(c))));
  std::string csv = csv_line(header);
  for (const auto& answer : answers) {
    const auto& s = answer.summary;
    std::vector<std::string> row = {s.name,
                                    s.file,
                                    std::to_string(s.gpus),
                                    std::to_string(s.microbatches),
                                    cell(to_seconds(s.iteration)),
                                    cell(s.samples_per_s),
                                    cell(s.tokens_per_s),
                                    cell(s.model_tflops_per_gpu),
                                    cell(s.hardware_tflops_per_gpu),
                                    cell(s.mfu),
                                    cell(s.hfu),
                                    cell(s.bubble_rate),
                                    cell(s.peak.allocated),
                                    cell(s.peak.reserved),
                                    cell(s.peak.device),
                                    s.fits ? (*s.fits ? "true" : "false") : ""};
    for (const Time part : s.breakdown) row.push_back(cell(to_seconds(part)));
    const auto& traffic = s.traffic;
    for (const auto& axis : axes) row.push_back(cell(traffic.per_gpu.*axis.bytes));
    row.push_back(traffic.data_parallel ? cell(traffic.data_parallel->closed_form_bytes) : "");
    row.push_back(traffic.links.empty() ? "" : traffic.links[0].name);
    row.push_back(traffic.links.empty() ? "" : cell(traffic.links[0].busy_share));
    const auto fullest = std::max_element(s.ranks.begin(), s.ranks.end(), [](const auto& a, const auto& b) {
      return a.peak.allocated < b.peak.allocated;
    });
    const double unit = s.abstract ? scenario::kMemoryUnit : 1;
    for (std::size_t c = 0; c < graph::kMemoryCategories; c++)
      row.push_back(fullest == s.ranks.end() ? "" : cell(double(fullest->memory[c].count()) / unit));
    csv += csv_line(row);
  }
  return csv;
}

}  // namespace rehearsal::report
