#include "report/run_report.hpp"

#include "report/json.hpp"

namespace rehearsal::report {
namespace {

Json memory(const MemoryFigures& figures) {
  return {{"allocated", number(figures.allocated)},
          {"reserved", number(figures.reserved)},
          {"device", number(figures.device)}};
}

Json breakdown(const timeline::Breakdown& parts) {
  Json json;
  for (std::size_t c = 0; c < parts.size(); c++)
    json[graph::name(static_cast<graph::Category>(c))] = to_seconds(parts[c]);
  // Part of the schema although nothing produces them yet.
  json["expert_comm"] = 0.;
  json["offload"] = 0.;
  return json;
}

Json ranks(const Summary& summary, bool abstract) {
  Json list = Json::array();
  for (const auto& rank : summary.ranks) {
    Json bytes;
    for (std::size_t c = 0; c < rank.memory.size(); c++) {
      const double value = double(rank.memory[c].count()) / (abstract ? scenario::kMemoryUnit : 1.);
      bytes[graph::name(static_cast<graph::MemoryCategory>(c))] = number(value);
    }
    list.push_back({{"rank", rank.rank},
                    {"count", rank.count},
                    {"stages", rank.stages},
                    {"node", rank.node},
                    {"busy_s", to_seconds(rank.busy)},
                    {"peak_memory_bytes", memory(rank.peak)},
                    {"memory_bytes", bytes}});
  }
  return list;
}

Json object(const Run& run, const Summary& s, const std::string& version) {
  Json path = Json::array();
  for (const auto& segment : s.critical_path)
    path.push_back({{"rank", segment.rank},
                    {"what", segment.what},
                    {"start_s", to_seconds(segment.start)},
                    {"end_s", to_seconds(segment.end)},
                    {"tasks", segment.tasks}});
  const auto& band = run.scenario.error_band;
  return {{"rehearsal",
           {{"version", version},
            {"backend", run.timeline.backend},
            {"fidelity", timeline::name(run.timeline.fidelity)},
            {"engine", run.timeline.engine}}},
          {"scenario", {{"name", run.scenario.name}, {"file", run.scenario.file}, {"digest", run.scenario.digest}}},
          {"iteration_s", to_seconds(s.iteration)},
          {"samples_per_s", maybe(s.samples_per_s)},
          {"tokens_per_s", maybe(s.tokens_per_s)},
          {"model_tflops_per_gpu", maybe(s.model_tflops_per_gpu)},
          {"hardware_tflops_per_gpu", maybe(s.hardware_tflops_per_gpu)},
          {"mfu", maybe(s.mfu)},
          {"hfu", maybe(s.hfu)},
          {"bubble_rate", s.bubble_rate},
          {"peak_memory_bytes", memory(s.peak)},
          {"fits", maybe(s.fits)},
          {"gpus", s.gpus},
          {"microbatches", s.microbatches},
          {"breakdown_s", breakdown(s.breakdown)},
          {"ranks", ranks(s, run.scenario.abstract.has_value())},
          {"error_band",
           {{"low_s", band.low ? Json(*band.low * to_seconds(s.iteration)) : Json(nullptr)},
            {"high_s", band.high ? Json(*band.high * to_seconds(s.iteration)) : Json(nullptr)},
            {"basis", band.basis}}},
          {"critical_path", path},
          {"assumptions", std::vector<std::string>(run.assumptions.begin(), run.assumptions.end())},
          {"warnings", std::vector<std::string>(run.warnings.begin(), run.warnings.end())}};
}

}  // namespace

std::string run_json(std::span<const Run> runs, std::span<const Summary> summaries, const std::string& version) {
  Json json = Json::array();
  for (std::size_t i = 0; i < runs.size(); i++) json.push_back(object(runs[i], summaries[i], version));
  return (runs.size() == 1 ? json[0] : json).dump(2) + "\n";
}

}  // namespace rehearsal::report
