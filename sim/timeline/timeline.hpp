// When everything happened, rehearsed or performed: one span per task of a graph. Reports are drawn from this alone.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::timeline {

enum class Fidelity : std::uint8_t { simulated, exact, timed, emulated, unsupported };
const char* name(Fidelity fidelity);

struct Timeline {
  // Indexed by TaskId; time 0 = start of the iteration, or the end of the one before where iterations overlap (then
  // some times are negative). A collective's span begins when its last member is ready; a
  // send's ends when the data has arrived; a receive is the instant of arrival.
  std::vector<Time> start, end;
  std::vector<Time> iteration_end;  // one per measured iteration, from its own start; the spans are those of the last
  Fidelity fidelity = Fidelity::simulated;
  std::string backend;  // "sim", "loopback"
  std::string engine;   // which evaluator: "replay", "events", "threads"

  // Of the iteration that the spans belong to.
  Time makespan() const { return iteration_end.empty() ? Time{} : iteration_end.back(); }
};

}  // namespace rehearsal::timeline
