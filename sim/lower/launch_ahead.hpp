// What a tower in front of a model waits for its launches.
#pragma once
#include "graph/builder.hpp"
#include "lower/parts.hpp"

namespace rehearsal::lower {

// The host, which has launched the layers of a stage before the GPU is through with them, launches the tower meanwhile
// that comes next: a tower waits for what is left of all launches of a pass beyond all kernels of the stage, not for
// its own beyond its own. `stage` has the embedding, with the tower, and then layers; where the host has to wait inside
// of those, it is never ahead.
void launch_ahead(const StageParts& stage, std::vector<Part>& parts, graph::GraphBuilder& builder);

}  // namespace rehearsal::lower
