// Which ranks may stand for each other: the coarsest equitable partition of everything that runs (ranks, groups,
// channels: actors) together with everything that is shared (resources).
//
// Two actors share a class if they do the same work, wait for equivalent actors in the same roles, and load equivalent
// resources; two resources do if every class of actors puts the same total load on both. Members of a class then start
// and end together, by induction over the instants of a run: which work is ready, how much of it is left and what every
// resource carries depend on the class alone. So a graph with one rank of each class, on one resource of each class
// that carries the load of its whole class, has the same times to the picosecond (sim/design/sharing.md). Waiting
// compares sets, resources compare sums.
#pragma once
#include <cstdint>
#include <vector>

#include "base/csr.hpp"
#include "graph/footprint.hpp"

namespace rehearsal::lower {

struct ActorLink {
  std::uint32_t role;   // purpose of the link: equal numbers are equivalent
  std::uint32_t actor;  // the one that is waited for
};
struct ActorLoad {
  graph::Way way;
  std::uint32_t resource;
  std::int64_t parts;
};

// Input of the partition. Actors, or resources, of different colours never share a class.
struct Actors {
  std::vector<std::uint64_t> colour;
  Csr<ActorLink> links;  // a row for each actor
  Csr<ActorLoad> loads;
  std::vector<std::uint64_t> resource_colour;
};

struct Classes {
  std::vector<std::uint32_t> of_actor, of_resource;        // class of each
  std::vector<std::uint32_t> first_actor, first_resource;  // lowest-numbered member of each class
  std::uint32_t rounds = 0;
};

// Colour refinement until nothing divides any more. Classes are numbered by their first members.
Classes equitable_classes(const Actors& actors);

}  // namespace rehearsal::lower
