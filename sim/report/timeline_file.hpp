// Our own timeline file (sim/design/timeline-json.md): columns per rank, integer picoseconds, for replay and
// comparison.
#pragma once
#include <string>

#include "report/perfetto.hpp"

namespace rehearsal::report {

void write_timeline(const Result& run, const std::string& version, const Sink& sink);

// What a prediction was made of, beyond its timeline.
struct PredictionSource {
  std::string cluster;                  // its name
  std::string profile, profile_sha256;  // measured times that prices came from; empty = none
};
// A timeline file that also says how long every work takes alone and which work every task is: written before a run
// that it will be compared with.
void write_prediction(const Result& run, const PredictionSource& source, const std::string& version, const Sink& sink);

}  // namespace rehearsal::report
