#include "report/performed_alone.hpp"

#include <fmt/format.h>

#include "base/quantity_text.hpp"
#include "report/measured_text.hpp"

namespace rehearsal::report {
namespace {

double error(const PerformedAlone& p) { return p.predicted / to_seconds(timeline::spread(p.timeline).median) - 1; }

}  // namespace

Shown<PerformedAlone> performed_alone() {
  using timeline::Spread;
  return Shown<PerformedAlone>("As a backend performed it.")
      .figure("backend", [](auto& p) { return p.timeline.backend; })
      .figure("collectives", Unit::none, "by their own steps, or the library's",
              [](auto& p) { return p.collectives ? std::optional(backend::name(*p.collectives)) : std::nullopt; })
      .or_left_out()
      .also(Shown<Spread>()
                .figure("iterations", "iterations", "how many", &Spread::iterations)
                .figures(Unit::seconds, "median_s", &Spread::median, "p10_s", &Spread::p10, "p90_s", &Spread::p90),
            [](auto& p) { return timeline::spread(p.timeline); })
      .figure("error", Unit::share, "error", "predicted over measured, minus 1", error)
      .figure("disturbances", [](auto& p) { return p.timeline.disturbances; });
}

std::string performed_note(const PerformedAlone& performed, const page::Paint& paint) {
  const auto spread = timeline::spread(performed.timeline);
  return fmt::format("{} over {}, {}; predicted {}", paint.bold(show(spread.median)), performed.timeline.backend,
                     iterations_note(spread), predicted_error(error(performed)));
}

}  // namespace rehearsal::report
