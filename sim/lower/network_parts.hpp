// The parts of a network as it is performed, with the life of every value: where it is allocated and where it dies.
// What the backward needs is kept; what recomputation brings back dies in the forward and is born again.
#pragma once
#include <vector>

#include "graph/builder.hpp"
#include "models/network.hpp"
#include "models/transformer.hpp"

namespace rehearsal::lower {

struct PerformedStep {
  WorkId work;
  graph::Pass pass;
  bool tensor_collective = false;
  std::vector<models::Operand> operands;
  std::vector<std::uint16_t> allocates, frees;  // values; the input and the output gradient are allocated elsewhere,
                                                // the output and the input gradient are freed elsewhere
};

struct PerformedPart {
  const models::NetworkPart* part = nullptr;
  std::vector<PerformedStep> forward;
  std::vector<PerformedStep> input_gradient;  // after what it recomputes first
  std::vector<PerformedStep> weight_gradient;
  Bytes kept;         // between the forward and the input gradient, the input included
  Bytes weight_hold;  // between the input gradient and the weight gradient, its output gradient included
};

// `part` outlives the result.
PerformedPart performed_part(const models::NetworkPart& part, models::Recompute recompute,
                             const GroupShape& tensor_group, graph::GraphBuilder& builder);

// Where a tensor lies: segment of the part, and offset in it.
struct Place {
  std::size_t segment;
  std::int64_t offset;
};
Place place_of(const models::NetworkPart& part, std::uint16_t tensor);

}  // namespace rehearsal::lower
