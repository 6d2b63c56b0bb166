// A timeline as a Chrome trace (JSON), which ui.perfetto.dev opens: one process per rank, one track per lane, arrows
// for messages, a counter for memory. Streams: a trace of a hundred million events never stands in memory.
#pragma once
#include <functional>
#include <string_view>

#include "report/summary.hpp"

namespace rehearsal::report {

using Sink = std::function<void(std::string_view)>;

void write_trace(const Run& run, const Sink& sink);

// Our own timeline file (sim/design/timeline-json.md): columns per rank, integer picoseconds, for replay and
// comparison.
void write_timeline(const Run& run, const std::string& version, const Sink& sink);

}  // namespace rehearsal::report
