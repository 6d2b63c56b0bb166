// The graph of one iteration with parameter servers -> the graph of several, whose workers may be ahead of each other
// (sim/design/parameter-servers.md). Works, ranks and endpoints keep their numbers.
#pragma once
#include "lower/consecutive.hpp"
#include "plan/parallelism.hpp"

namespace rehearsal::lower {

// Ranks that compute passes; all others serve them.
bool is_worker(const graph::Program& program);

// A worker begins iteration i when what comes of iteration i - 1 - delay is there and, because it has room for two sets
// of gradients, when those of iteration i - 2 have left it; unbounded: with whatever is there.
Consecutive delayed(const graph::TaskGraph& one, const plan::DataParallel& data, std::uint32_t iterations);

}  // namespace rehearsal::lower
