// Which ranks may stand for each other: the coarsest equitable partition of everything that runs (ranks, groups,
// channels: actors) together with everything that is shared (resources).
//
// Two actors stay together if they do the same, wait for alike actors in the same roles, and load alike resources; two
// resources if every class of actors loads them with the same sum. Then members of a class start and end together, by
// induction over the instants of a run: what is ready, what is left and what every resource carries are functions of
// the class. So a graph with one rank of each class, on one resource of each class that carries what the whole class
// loads it with, has the same times to the picosecond (sim/design/sharing.md). Waiting needs sets, resources need sums.
#pragma once
#include <cstdint>
#include <vector>

#include "base/csr.hpp"
#include "graph/footprint.hpp"

namespace rehearsal::lower {

struct ActorLink {
  std::uint32_t role;   // as what: the same number means the same
  std::uint32_t actor;  // whom it waits for
};
struct ActorLoad {
  graph::Way way;
  std::uint32_t resource;
  std::int64_t parts;
};

// What is to be divided. Colours: what two of them must have in common from the start.
struct Actors {
  std::vector<std::uint64_t> colour;
  Csr<ActorLink> links;  // a row for each actor
  Csr<ActorLoad> loads;
  std::vector<std::uint64_t> resource_colour;
};

struct Classes {
  std::vector<std::uint32_t> of_actor, of_resource;        // the class of each
  std::vector<std::uint32_t> first_actor, first_resource;  // the member of least number, by class
  std::uint32_t rounds = 0;
};

// Colour refinement until nothing divides any more. Classes are numbered by their first members.
Classes equitable_classes(const Actors& actors);

}  // namespace rehearsal::lower
