// The program's own timeline file (sim/design/timeline-json.md): columns per rank, integer picoseconds, for replay and
// comparison.
#pragma once
#include <string>

#include "report/perfetto.hpp"

namespace rehearsal::report {

void write_timeline(const Result& run, const Sink& sink);

// The inputs of a prediction besides its timeline.
struct PredictionSource {
  std::string cluster;                  // its name
  std::string profile, profile_sha256;  // profile with measured times; empty = none
};
// A timeline file with the duration of every work alone and the work of every task: written before the run that it will
// be compared with.
void write_prediction(const Result& run, const PredictionSource& source, const Sink& sink);

}  // namespace rehearsal::report
