#include <fmt/format.h>

#include "report/run_report.hpp"

namespace rehearsal::report {
namespace {

std::string cell(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }

std::string quote(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

}  // namespace

std::string run_csv(std::span<const Run> runs, std::span<const Summary> summaries) {
  std::string csv =
      "name,file,gpus,microbatches,iteration_s,samples_per_s,tokens_per_s,model_tflops_per_gpu,hardware_tflops_per_gpu,"
      "mfu,"
      "hfu,bubble_rate,allocated_bytes,reserved_bytes,device_bytes,fits";
  for (std::size_t c = 0; c < graph::kCategories; c++)
    csv += fmt::format(",{}_s", graph::name(static_cast<graph::Category>(c)));
  csv += '\n';
  for (std::size_t i = 0; i < runs.size(); i++) {
    const auto& s = summaries[i];
    csv += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", quote(runs[i].scenario.name),
                       quote(runs[i].scenario.file), s.gpus, s.microbatches, to_seconds(s.iteration),
                       cell(s.samples_per_s), cell(s.tokens_per_s), cell(s.model_tflops_per_gpu),
                       cell(s.hardware_tflops_per_gpu), cell(s.mfu), cell(s.hfu), s.bubble_rate, s.peak.allocated,
                       cell(s.peak.reserved), cell(s.peak.device), s.fits ? (*s.fits ? "true" : "false") : "");
    for (const Time part : s.breakdown) csv += fmt::format(",{}", to_seconds(part));
    csv += '\n';
  }
  return csv;
}

}  // namespace rehearsal::report
