// The placement problem: the experts of each MoE layer with their loads, and GPUs with slots for replicas.
//
// A layer has E experts; expert e received weights[layer][e] >= 0 tokens (any unit). `replicas` >= E copies of them
// occupy slots 0..replicas-1; GPU g owns the slots from g*replicas/gpus (rounded down) to (g+1)*replicas/gpus, node n
// the GPUs from n*gpus/nodes on. The c copies of an expert share its load evenly: each receives weight/c. The experts
// form `groups` router groups of E/groups neighbours; a hierarchical placement keeps all copies of a group on one node,
// so that a token that the router limits to few groups is sent to few nodes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::balance {

enum class Policy : std::uint8_t { automatic, hierarchical, global };
std::string_view name(Policy policy);

using Loads = std::vector<double>;  // one number per expert of a layer

struct Problem {
  std::vector<Loads> weights;  // per layer; all layers have the same number of experts
  std::uint32_t replicas = 0, groups = 1, nodes = 1, gpus = 1;
  Policy policy = Policy::automatic;

  std::uint32_t layers() const { return static_cast<std::uint32_t>(weights.size()); }
  std::uint32_t experts() const { return weights.empty() ? 0 : static_cast<std::uint32_t>(weights.front().size()); }
};

// A violated rule. `key` = the field at fault.
struct Fault {
  std::string_view key;
  std::string rule;
};

// The layout of slots under the chosen policy: a global placement is a hierarchical one with one node and one group.
struct Shape {
  bool hierarchical = false;
  std::uint32_t experts = 0, replicas = 0, groups = 1, nodes = 1, gpus = 1;

  std::uint32_t first_slot(std::uint32_t gpu) const { return cut(replicas, gpu, gpus); }
  std::uint32_t slots(std::uint32_t gpu) const { return first_slot(gpu + 1) - first_slot(gpu); }
  std::uint32_t first_gpu(std::uint32_t node) const { return cut(gpus, node, nodes); }
  std::uint32_t first_group(std::uint32_t node) const { return cut(groups, node, nodes); }
  std::uint32_t group_size() const { return experts / groups; }
  // Equal slots per GPU, equal GPUs and groups per node: required by EPLB.
  bool even() const { return replicas % gpus == 0 && gpus % nodes == 0 && groups % nodes == 0; }

 private:
  static std::uint32_t cut(std::uint32_t whole, std::uint32_t part, std::uint32_t parts) {
    return static_cast<std::uint32_t>(std::uint64_t(whole) * part / parts);
  }
};

// `automatic` is hierarchical if the nodes divide the groups, otherwise global (as EPLB does silently).
Shape shape_of(const Problem& problem);

// All violated rules that apply to every method. With `even`, also those of EPLB: equal slots per GPU and
// equal groups per node.
std::vector<Fault> faults(const Problem& problem, bool even);

// Throws UserError with all faults.
void check(const Problem& problem, bool even);

}  // namespace rehearsal::balance
