// Which router groups share a node.
//
// Nodes of one kind (as many groups, the same slots) are interchangeable, so partitions are told apart only by which
// groups are together. Few groups on few nodes (8 on 2, 4 and 8: 35, 105 and 1 partitions) are enumerated, pruned by
// the bound of every node; more are searched by exchanging groups.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "balance/problem.hpp"
#include "balance/search/cell.hpp"

namespace rehearsal::balance::search {

using Groups = std::vector<std::uint32_t>;  // in rising order

struct NodeKind {
  std::uint32_t groups = 0;
  std::vector<std::uint32_t> room;  // slots of its GPUs
  friend bool operator==(const NodeKind&, const NodeKind&) = default;
};

struct Partition {
  std::vector<Groups> groups;  // per node
  double bound = 0;            // the largest bound of its nodes
};

// The kinds of the nodes of a shape, and which node is of which.
struct Nodes {
  std::vector<NodeKind> kinds;
  std::vector<std::uint32_t> kind_of;
};
Nodes nodes_of(const Shape& shape);

// The cell of a node of this kind that holds these groups. Its expert i is the (i mod size)-th of its (i / size)-th
// group.
Cell cell_of(const Shape& shape, const Loads& weights, const NodeKind& kind, const Groups& groups);

struct Partitions {
  std::vector<Partition> list;  // by rising bound; only those whose bound is below the limit
  bool complete = false;        // nothing below the limit is missing
  double bound = 0;             // no partition has a smaller largest load
};

// `bound_of(kind, groups)` = cell_bound of that node; it is asked once for each set.
using BoundOf = std::function<double(std::uint32_t kind, const Groups& groups)>;
Partitions partitions_below(double limit, const Shape& shape, const Loads& weights, const Nodes& nodes,
                            const BoundOf& bound_of);

}  // namespace rehearsal::balance::search
