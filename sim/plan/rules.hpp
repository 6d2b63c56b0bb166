// What must divide, and what one degree asks of another. Whoever reads scenarios reports all of it with its places; a
// plan is made of nothing that breaks a rule.
#pragma once
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "models/experts.hpp"
#include "models/transformer.hpp"
#include "plan/parallelism.hpp"

namespace rehearsal::plan {

struct Violation {
  std::string key;   // of a scenario: "parallelism.tensor"
  std::string rule;  // with the nearest values that keep it
};

std::vector<Violation> broken_by_degrees(const models::Transformer& model, const models::Training& training,
                                      const models::ExpertSettings& experts, const Parallelism& parallelism);
// Of the tokens that a GPU has at once: of sequences whose pieces (schedule.pieces) go through one after the other, of
// one of them.
std::vector<Violation> broken_by_sequence(const models::Transformer& model, const models::Training& training,
                                       const models::ExpertSettings& experts, const Parallelism& parallelism,
                                       const Batch& batch, std::int64_t pieces);
// Of gradients that servers add up.
std::vector<Violation> broken_by_servers(const models::Training& training, const models::Framework& framework,
                                      const Parallelism& parallelism, const DataParallel& data);

// Of states that leave the device. `copies` of the model are trained, each replica of the others.
std::vector<Violation> broken_by_offload(const models::Transformer& model, const models::Training& training,
                                      const models::Framework& framework, const Parallelism& parallelism,
                                      const cluster::Host& host, std::int64_t copies = 1);

}  // namespace rehearsal::plan
