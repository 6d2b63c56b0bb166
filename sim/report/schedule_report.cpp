#include "report/schedule_report.hpp"

#include "report/json.hpp"

namespace rehearsal::report {
Json to_json(const schedule::Evaluation& result) {
  const auto& r = result.replay;
  Json json{{"schedule", result.schedule.name},
            {"pipeline", result.problem.ranks},
            {"microbatches", result.problem.microbatches},
            {"chunks", result.problem.chunks},
            {"cost_s", to_seconds(r.cost)},
            {"makespan_s", to_seconds(r.makespan)},
            {"bubble_rate", r.bubble_rate()}};
  auto& busy = json["busy_s"] = Json::array();
  for (const Time t : r.busy) busy.push_back(to_seconds(t));
  json["in_flight_FW"] = r.in_flight_FW;
  json["in_flight_FB"] = r.in_flight_FB;
  auto& peak = json["peak_memory"] = Json::array();
  for (const double m : r.peak_memory) peak.push_back(number(m));
  json["actions"] = r.actions;
  json["sha256"] = result.sha256;
  if (result.order) json["order"] = *result.order;
  json["optimal"] = result.schedule.optimal;
  json["lower_bound_s"] = to_seconds(result.lower_bound);
  if (result.schedule.asynchrony) {
    const auto late = result.schedule.asynchrony(result.problem);
    json["weight_versions"] = late.weight_versions;
    json["staleness"] = late.staleness;
    json["steady_state_s"] = to_seconds(late.steady_state);
  }
  return json;
}

}  // namespace rehearsal::report
