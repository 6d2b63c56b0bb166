#include "report/performed_alone.hpp"

#include <fmt/format.h>

#include "base/quantity_text.hpp"
#include "report/measured_text.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {
namespace {

double error(const PerformedAlone& p) { return p.predicted / to_seconds(timeline::spread(p.timeline).median) - 1; }

// "over mpi, median of 3; predicted 2.3 % shorter"
std::string words(const PerformedAlone& p, const timeline::Spread& spread) {
  return fmt::format("over {}, {}; predicted {}", p.timeline.backend, iterations_note(spread),
                     predicted_error(error(p)));
}

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
      .figure("clock_error_s", Unit::seconds, "clocks", "of several hosts: by how much two may be apart",
              [](auto& p) {
                return p.timeline.clock_error > Time{} ? std::optional(p.timeline.clock_error) : std::nullopt;
              })
      .or_left_out()
      .rows("link_bytes", counted_link(), [](auto& p) { return p.links.empty() ? nullptr : &p.links; })
      .or_left_out()
      .figure("disturbances", [](auto& p) { return p.timeline.disturbances; });
}

std::string performed_lines(const PerformedAlone& p, int label, const page::Paint& paint) {
  std::string text;
  const auto line = [&](const char* name, const std::string& words) {
    if (!words.empty()) text += fmt::format("  {:<{}}{}\n", name, label, words);
  };
  const auto spread = timeline::spread(p.timeline);
  line("Measured", paint.bold(show(spread.median)) + " " + words(p, spread));
  if (p.collectives) line("Performed", collectives_note(*p.collectives));
  line("Links", links_note(p.links));
  line("Clocks", clocks_note(p.timeline));
  return text;
}

std::vector<page::Fact> performed_facts(const PerformedAlone& p) {
  const auto spread = timeline::spread(p.timeline);
  return {{"measured", {show(spread.median), to_seconds(spread.median), "/measured/median_s"}, words(p, spread)}};
}

}  // namespace rehearsal::report
