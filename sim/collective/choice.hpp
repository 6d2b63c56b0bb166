// Which algorithm a library of collectives runs, and how long it takes alone: the fastest registered one of the kind
// that the library has and that applies.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collective/closed_form.hpp"
#include "collective/registry.hpp"

namespace rehearsal::collective {

// What a choice depends on besides the wires.
struct Runtime {
  cluster::Interconnect links;  // without reducing switches if the topology has none
  cluster::Library library;
  Version version = kNewestNccl;
  const Registry* algorithms = &registry();
};

struct Choice {
  const Algorithm* algorithm = nullptr;  // null: nothing to do
  double seconds = 0;
};

// Among the ranks of one node; `wires.rate` as sold, of one rank's port. 0 s for one rank or nothing to move. Throws
// UserError where no algorithm applies.
Choice inside_node(CollectiveKind kind, std::uint32_t ranks, Bytes size, const Wires& wires, const Runtime& runtime);

// Across nodes; `wires.inside` is the time of the same collective inside one. `priced` turns the closed form of an
// algorithm into the time that is compared.
using Priced = std::function<double(const Algorithm&, double seconds)>;
Choice across_nodes(CollectiveKind kind, Shape shape, Bytes size, const Wires& wires, const Runtime& runtime,
                    const Priced& priced = {});

// Why the library does not run an algorithm.
enum class Refusal : std::uint8_t { none, not_in_library, too_new, not_here };
Refusal refusal(const Algorithm& algorithm, Shape shape, const Runtime& runtime);

// An algorithm compared with the chosen one; no price if it cannot run at all.
struct Candidate {
  const Algorithm* algorithm = nullptr;
  Refusal refusal = Refusal::none;
  double seconds = 0;
  std::optional<ClosedForm> form;
  double shared = 0;  // s of links that its messages share, inside and on the way out: a lower bound
  double share = 1;   // of wires.rate that it reaches
};
// "needs several nodes"; empty for those that may run.
std::string reason(const Candidate& candidate, Shape shape, const Runtime& runtime);

// Every registered algorithm of the kind, by the same prices. `wires` as the two above take them.
std::vector<Candidate> candidates(CollectiveKind kind, Shape shape, Bytes size, const Wires& wires,
                                  const Runtime& runtime);

// A lower bound for any implementation inside a node: the algorithm's bytes over a port at the rate sold. Seconds.
double on_the_wire(const Algorithm& algorithm, std::uint32_t ranks, Bytes size, Bandwidth port);

}  // namespace rehearsal::collective
