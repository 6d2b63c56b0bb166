// A timeline as a Chrome trace (JSON), which ui.perfetto.dev opens: one process per rank, one track per lane, arrows
// for messages, a counter for memory. Streamed: a trace of a hundred million events is never held in memory.
#pragma once
#include <functional>
#include <string_view>

#include "answer/predict.hpp"

namespace rehearsal::report {

using answer::Result;

using Sink = std::function<void(std::string_view)>;

void write_trace(const Result& run, const Sink& sink);

// Prediction and measurement in one trace: every lane of a rank has a track for each. Both have the same graph.
void write_comparison_trace(const Result& measured, const timeline::Timeline& predicted, const Sink& sink);

}  // namespace rehearsal::report
