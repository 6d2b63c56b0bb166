#include "report/run_report.hpp"

#include "report/job_report.hpp"

namespace rehearsal::report {
namespace {

Json memory(const answer::MemoryFigures& figures) {
  return {{"allocated", number(figures.allocated)},
          {"reserved", number(figures.reserved)},
          {"device", number(figures.device)}};
}

Json breakdown(const timeline::Breakdown& parts) {
  Json json;
  for (std::size_t c = 0; c < parts.size(); c++)
    json[graph::name(static_cast<graph::Category>(c))] = to_seconds(parts[c]);
  return json;
}

Json categories(const timeline::MemoryByCategory& memory, double unit = 1) {
  Json bytes;
  for (std::size_t c = 0; c < memory.size(); c++)
    bytes[graph::name(static_cast<graph::MemoryCategory>(c))] = number(double(memory[c].count()) / unit);
  return bytes;
}

Json ranks(const answer::Summary& summary) {
  Json list = Json::array();
  for (const auto& rank : summary.ranks) {
    list.push_back({{"rank", rank.rank},
                    {"count", rank.count},
                    {"stages", rank.stages},
                    {"node", rank.node},
                    {"busy_s", to_seconds(rank.busy)},
                    {"peak_memory_bytes", memory(rank.peak)},
                    {"memory_bytes", categories(rank.memory, summary.abstract ? scenario::kMemoryUnit : 1.)},
                    {"allocator_retries", rank.allocator_retries}});
  }
  return list;
}

// The device per GPU; other tiers per node, since its GPUs share them.
Json tiers(const answer::Summary& s) {
  if (s.abstract) return nullptr;
  Json json = {{name(Tier::device),
                {{"peak_bytes", number(s.peak.device)},
                 {"capacity_bytes", number(s.capacity)},
                 {"fits", s.fits_device},
                 {"narrow", s.fits_device ? Json(s.narrow()) : Json()}}}};
  for (const auto& t : s.tiers)
    json[name(t.tier)] = {{"peak_bytes", number(t.per_node)},
                          {"peak_per_gpu_bytes", number(t.per_gpu)},
                          {"capacity_bytes", number(t.capacity)},
                          {"fits", t.fits},
                          {"memory_bytes", categories(t.at_peak)}};
  return json;
}

Json efficiency(const answer::OffloadEfficiency& e) {
  return {{"simulated", e.simulated},
          {"closed_form",
           {{"parameters", number(e.parameters)},
            {"optimizer", number(e.optimizer)},
            {"activations", number(e.activations)},
            {"together", e.together}}}};
}

Json served(const answer::Served& s) {
  return {{"count", s.servers},
          {"steps_per_s", s.steps_per_s},
          {"staleness",
           {{"mean", s.staleness_mean},
            {"max", s.staleness_max},
            {"unit", "steps of all workers"},
            {"update", s.by_worker ? "one worker's gradients" : "the sum of all workers' gradients"}}},
          {"versions", s.versions},
          {"updates_per_sample", s.updates_per_sample}};
}

Json axes(const answer::AxisBytes& bytes) {
  Json json;
  for (const auto& [name, part] : answer::AxisBytes::parts()) json[name] = number(bytes.*part);
  return json;
}

Json stage_edges(const answer::LoweredJob& question) {
  const auto volume = [](const lower::StageTransfers::Volume& v) {
    return Json{{"messages", v.messages}, {"bytes", v.bytes}, {"nic_bytes", v.out_of_domains}};
  };
  Json all = Json::array();
  for (const auto& e : question.edges)
    all.push_back({{"from", e.from},
                   {"to", e.to},
                   {"values", e.values},
                   {"forward", volume(e.forward)},
                   {"backward", volume(e.backward)},
                   {"transfer_s", to_seconds(e.transfer)}});
  return all;
}

Json traffic(const answer::TrafficSummary& traffic) {
  Json links = Json::array();
  for (const auto& link : traffic.links)
    links.push_back(
        {{"name", link.name}, {"count", link.count}, {"bytes", number(link.bytes)}, {"busy_share", link.busy_share}});
  Json json = {{"per_gpu_bytes", axes(traffic.per_gpu)},
               {"all_gpus_bytes", axes(traffic.all_gpus)},
               {"data_parallel", nullptr},
               {"links", links}};
  if (const auto& data = traffic.data_parallel)
    json["data_parallel"] = {{"bytes", number(data->bytes)},
                             {"closed_form_bytes", number(data->closed_form_bytes)},
                             {"form", data->form},
                             {"parameters", number(data->parameters)}};
  return json;
}

Json seconds_of(const std::vector<Time>& times) {
  Json list = Json::array();
  for (const Time t : times) list.push_back(to_seconds(t));
  return list;
}

Json verification(const answer::Verification& v) {
  return {{"steps", v.steps},
          {"loss", v.loss},
          {"reference_loss", v.reference_loss},
          {"gradient_norm", v.gradient_norm},
          {"reference_gradient_norm", v.reference_gradient_norm},
          {"max_relative_difference", v.max_relative_difference},
          {"max_unexplained_difference", v.max_unexplained_difference},
          {"max_gathered_difference", v.max_gathered_difference},
          {"elements", v.elements},
          {"ill_conditioned_elements", v.ill_conditioned},
          {"tolerance", v.tolerance},
          {"worst_tensor", v.worst_tensor},
          {"replica_difference", v.replica_difference},
          {"ok", v.ok},
          {"failures", v.failures}};
}

// The additional fields of a performed run.
void add_measured(Json& json, const Result& run) {
  const answer::Measured& m = *run.measured;
  json["iterations"] = {
      {"measured", m.iterations.iterations},           {"median_s", to_seconds(m.iterations.median)},
      {"p10_s", to_seconds(m.iterations.p10)},         {"p90_s", to_seconds(m.iterations.p90)},
      {"minimum_s", to_seconds(m.iterations.minimum)}, {"each_s", seconds_of(run.timeline.iteration_end)},
      {"predicted_s", to_seconds(m.predicted)},        {"disturbed", !run.timeline.disturbances.empty()},
      {"disturbances", run.timeline.disturbances}};
  const auto& peaks = run.timeline.peak_bytes;
  if (!peaks.empty()) {
    const auto counts = [](const std::vector<Bytes>& list) {
      Json numbers = Json::array();
      for (const Bytes b : list) numbers.push_back(b.count());
      return numbers;
    };
    json["memory"] = {{"predicted_allocated", counts(m.predicted_allocated)},
                      {"measured", counts(peaks)},
                      {"equal", m.predicted_allocated == peaks}};
    const auto& beyond = run.timeline.beyond_bytes;
    for (const Tier tier : {Tier::host, Tier::nvme}) {
      if (beyond.empty()) continue;
      const auto of = [&](const std::vector<std::vector<Bytes>>& ranks) {
        std::vector<Bytes> list;
        for (const auto& rank : ranks) list.push_back(rank[index(tier)]);
        return list;
      };
      const auto predicted = of(m.predicted_beyond), held = of(beyond);
      json["memory"][name(tier)] = {
          {"predicted_allocated", counts(predicted)}, {"measured", counts(held)}, {"equal", predicted == held}};
    }
    if (const auto& disk = run.timeline.disk; !disk.means.empty())
      json["memory"]["disk"] = {
          {"means", disk.means}, {"bytes", disk.length.count()}, {"page_cache_bytes", disk.cached.count()}};
    // Rounded by the device's own allocator.
    if (!run.timeline.allocator_peak_bytes.empty()) {
      json["memory"]["allocator"] = counts(run.timeline.allocator_peak_bytes);
      json["memory"]["allocator_allowance"] = counts(run.timeline.allocator_allowance);
    }
  }
  for (const auto& device : run.timeline.devices)
    json["devices"].push_back({{"kernels", device.kernels},
                               {"kernel_s", to_seconds(device.kernel_time)},
                               {"copies", device.copies},
                               {"copy_s", to_seconds(device.copy_time)},
                               {"profiler", device.unavailable.empty() ? "CUPTI" : device.unavailable},
                               {"memory_taken_bytes", device.taken.count()}});
  if (m.verification) json["verify"] = verification(*m.verification);
}

Json error_band(const Result& run) {
  const auto& s = run.summary;
  if (run.measured)
    return {{"low_s", nullptr}, {"high_s", nullptr}, {"comparable", nullptr}, {"basis", "measured, not predicted"}};
  const auto& band = s.error_band;
  return {{"low_s", band.low ? Json(*band.low * to_seconds(s.iteration)) : Json(nullptr)},
          {"high_s", band.high ? Json(*band.high * to_seconds(s.iteration)) : Json(nullptr)},
          {"comparable", band.low ? Json(band.comparable) : Json(nullptr)},
          {"basis", band.basis}};
}

Json faulted(const answer::Faulted& f, Time iteration) {
  Json each = Json::array();
  for (const auto& [fault, cost] : f.each) each.push_back({{"fault", fault}, {"cost_s", to_seconds(cost)}});
  Json waits = Json::array();
  for (const auto& w : f.waits)
    waits.push_back({{"for_rank", w.awaited},
                     {"node", w.node},
                     {"group", name(w.axes)},
                     {"gpus", w.gpus},
                     {"mean_s", to_seconds(w.mean)},
                     {"most_s", to_seconds(w.most)}});
  return {{"without_s", to_seconds(f.without)},
          {"cost_s", to_seconds(iteration - f.without)},
          {"anomaly", f.anomaly},
          {"each", each},
          {"waits", waits}};
}

}  // namespace

Json to_json(const Result& run, const std::string& version) {
  const auto& s = run.summary;
  Json path = Json::array();
  for (const auto& segment : s.critical_path)
    path.push_back({{"rank", segment.rank},
                    {"what", segment.what},
                    {"start_s", to_seconds(segment.start)},
                    {"end_s", to_seconds(segment.end)},
                    {"tasks", segment.tasks}});
  Json other_framework = Json::array();
  for (const auto& other : run.other_framework)
    other_framework.push_back({{"software", other.framework},
                               {"iteration_s", to_seconds(other.iteration)},
                               {"iteration_change", other.iteration / s.iteration - 1},
                               {"contention", other.contention}});
  Json contended = Json::array();
  for (const auto& r : s.contended)
    contended.push_back(
        {{"resource", r.name}, {"count", r.count}, {"slowed_s", to_seconds(r.slowed)}, {"busy_share", r.busy}});
  Json json = {
      {"rehearsal",
       {{"version", version}, {"backend", s.backend}, {"fidelity", timeline::name(s.fidelity)}, {"engine", s.engine}}},
      {"scenario", {{"name", s.name}, {"file", s.file}, {"digest", s.digest}}},
      {"iteration_s", to_seconds(s.iteration)},
      {"samples_per_s", s.samples_per_s},
      {"tokens_per_s", s.tokens_per_s},
      {"model_tflops_per_gpu", s.model_tflops_per_gpu},
      {"hardware_tflops_per_gpu", s.hardware_tflops_per_gpu},
      {"mfu", s.mfu},
      {"hfu", s.hfu},
      {"bubble_rate", s.bubble_rate},
      {"useful", s.useful ? Json{{"overflow_rate", s.useful->overflow_rate},
                                 {"skipped_step_s", to_seconds(s.useful->skipped)},
                                 {"step_s", to_seconds(s.useful->step)}}
                          : Json()},
      {"peak_memory_bytes", memory(s.peak)},
      {"fits", s.fits},
      {"tiers", tiers(s)},
      {"offload_efficiency", s.offload_efficiency ? efficiency(*s.offload_efficiency) : Json()},
      {"gpus", s.gpus},
      {"microbatches", s.microbatches},
      {"breakdown_s", breakdown(s.breakdown)},
      {"contention_s", s.contention ? Json(to_seconds(*s.contention)) : Json()},
      {"contention", contended},
      {"faults", run.faulted ? faulted(*run.faulted, s.iteration) : Json()},
      {"servers", s.served ? served(*s.served) : Json()},
      {"ranks", ranks(s)},
      {"traffic", traffic(s.traffic)},
      {"stage_edges", run.lowered ? stage_edges(*run.lowered) : Json()},
      {"error_band", error_band(run)},
      {"software", s.abstract ? Json() : Json(s.framework)},
      {"software_named", s.abstract ? Json() : Json(s.framework_named)},
      {"other_software", other_framework},
      {"critical_path", path},
      {"assumptions", run.assumptions},
      {"warnings", run.warnings}};
  if (s.job) json["job"] = job_json(*s.job);
  if (run.measured) add_measured(json, run);
  return json;
}

std::string run_json(std::span<const Result> answers, const std::string& version) {
  Json json = Json::array();
  for (const auto& answer : answers) json.push_back(to_json(answer, version));
  return (answers.size() == 1 ? json.items().front() : json).dump(2) + "\n";
}

}  // namespace rehearsal::report
