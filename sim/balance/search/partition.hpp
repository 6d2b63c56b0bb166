// Partitions of router groups to nodes.
//
// Nodes of one kind (equal numbers of groups, the same slots) are interchangeable, so partitions differ only in which
// groups are together. Few groups on few nodes (8 on 2, 4 and 8: 35, 105 and 1 partitions) are enumerated, pruned by
// the bound of every node; otherwise they are searched by exchanging groups.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "balance/problem.hpp"
#include "balance/search/cell.hpp"

namespace rehearsal::balance::search {

using Groups = std::vector<std::uint32_t>;  // ascending

struct NodeKind {
  std::uint32_t groups = 0;
  std::vector<std::uint32_t> room;  // slots of its GPUs
  friend bool operator==(const NodeKind&, const NodeKind&) = default;
};

struct Partition {
  std::vector<Groups> groups;  // per node
  double bound = 0;            // the largest bound of its nodes
};

// The kinds of nodes in a shape, and the kind of each node.
struct Nodes {
  std::vector<NodeKind> kinds;
  std::vector<std::uint32_t> kind_of;
};
Nodes nodes_of(const Shape& shape);

// The cell of a node of this kind with these groups. Its expert i is the (i mod size)-th of its (i / size)-th
// group.
Cell cell_of(const Shape& shape, const Loads& weights, const NodeKind& kind, const Groups& groups);

struct Partitions {
  std::vector<Partition> list;  // by ascending bound; only those with a bound below the limit
  bool complete = false;        // contains all partitions below the limit
  double bound = 0;             // lower bound of the largest load of any partition
};

// `bound_of(kind, groups)` = cell_bound of that node; called once per set.
using BoundOf = std::function<double(std::uint32_t kind, const Groups& groups)>;
Partitions partitions_below(double limit, const Shape& shape, const Loads& weights, const Nodes& nodes,
                            const BoundOf& bound_of);

}  // namespace rehearsal::balance::search
