#include "report/figures.hpp"

#include <algorithm>

#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "timeline/breakdown.hpp"

namespace rehearsal::report {

Json Figures::json(Figure f) const {
  const auto& value = (*this)[f];
  const auto kind = text_of(f).kind;
  return !value                            ? Json()
         : kind == FigureText::Kind::yes   ? Json(*value == 1)
         : kind == FigureText::Kind::whole ? number(*value)
                                           : Json(*value);
}

Figures figures(const answer::Result& prediction) {
  const auto& s = prediction.summary;
  const auto& scenario = prediction.scenario();
  Figures f;
  f[Figure::iteration] = to_seconds(s.iteration);
  f[Figure::samples_rate] = s.samples_per_s;
  f[Figure::token_rate] = s.tokens_per_s;
  f[Figure::mfu] = s.mfu;
  f[Figure::bubble] = s.bubble_rate;
  f[Figure::exposed] = to_seconds(timeline::exposed_communication(s.breakdown));
  f[Figure::allocated] = s.peak.allocated, f[Figure::reserved] = s.peak.reserved, f[Figure::device] = s.peak.device;
  f[Figure::states] = answer::model_states(s);
  f[Figure::capacity] = s.capacity;
  if (s.fits) f[Figure::fits] = *s.fits;
  f[Figure::gpus] = double(s.gpus);
  // Variants may differ in batch and in their share of skipped steps.
  f[Figure::item_time] = to_seconds(s.useful ? s.useful->step : s.iteration) /
                         double(s.abstract ? scenario.microbatches() : scenario.batch.global);
  if (s.tokens_per_s && s.gpus > 0) f[Figure::gpu_token_rate] = *s.tokens_per_s / double(s.gpus);
  if (s.job) {
    const auto& job = s.job->expected;
    f[Figure::days] = job.days, f[Figure::gpu_hours] = job.gpu_hours, f[Figure::job_cost] = job.cost;
    f[Figure::energy] = job.energy_mwh, f[Figure::goodput] = job.goodput;
  }
  if (s.abstract) {
    std::size_t stages = 0;
    for (const auto& rank : s.ranks) stages = std::max(stages, rank.stages.size());
    f[Figure::stages_held] = double(stages);
    const auto held = schedule::replay(scenario.schedule.schedule(), prediction.lowered->problem).in_flight_FB;
    f[Figure::in_flight] = double(*std::max_element(held.begin(), held.end()));
  }
  return f;
}

}  // namespace rehearsal::report
