// Rules of divisibility, and between degrees of parallelism. The reader of scenarios reports all violations with their
// locations; a plan is made only without violations.
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
// Rules on the tokens that a GPU processes at once: whole sequences, or one of their pieces (schedule.pieces), which go
// through one after the other.
std::vector<Violation> broken_by_sequence(const models::Transformer& model, const models::Training& training,
                                          const models::ExpertSettings& experts, const Parallelism& parallelism,
                                          const Batch& batch, std::int64_t pieces);
// Of these, how shards are gathered and reduced.
std::vector<Violation> broken_by_shards(const models::Training& training, const Parallelism& parallelism);
// Rules on gradients that servers add up.
std::vector<Violation> broken_by_servers(const models::Training& training, const models::Framework& framework,
                                         const Parallelism& parallelism, const DataParallel& data);

// Rules on states that leave the device. `copies` of the model are trained, each a replica of the others.
std::vector<Violation> broken_by_offload(const models::Transformer& model, const models::Training& training,
                                         const models::Framework& framework, const Parallelism& parallelism,
                                         const cluster::Host& host, std::int64_t copies = 1);

}  // namespace rehearsal::plan
