// Graph of one iteration with parameter servers -> graph of several iterations, in which workers may run ahead of each
// other (sim/design/parameter-servers.md). Works, ranks and endpoints keep their numbers.
#pragma once
#include "lower/consecutive.hpp"
#include "plan/parallelism.hpp"

namespace rehearsal::lower {

// True for ranks that compute passes; all others are parameter servers.
bool is_worker(const graph::Program& program);

// A worker starts iteration i when the results of iteration i - 1 - delay have arrived and the gradients of iteration i
// - 2 have been sent, as it has memory for two sets; without a bound, it uses the parameters that have arrived.
Consecutive delayed(const graph::TaskGraph& one, const plan::DataParallel& data, std::uint32_t iterations);

}  // namespace rehearsal::lower
