// How much a task of a graph stands for.
#pragma once
#include <cstdint>

namespace rehearsal::graph {

enum class Detail : std::uint8_t { stage, layer, operators };

}  // namespace rehearsal::graph
