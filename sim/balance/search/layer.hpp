// The search for one layer: a partition of groups to nodes, and a filling of each node.
//
// A node is searched as a cell of its own. A cell occurs in many partitions, so its results are stored by its set of
// groups. Effort goes, chunk by chunk, to the most promising partition, and there to the node with the
// worst load.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "balance/problem.hpp"
#include "balance/search/cell.hpp"
#include "balance/search/partition.hpp"

namespace rehearsal::balance::search {

class LayerSearch {
 public:
  // `known` = the slots of a placement to improve on; may be empty.
  LayerSearch(const Shape& shape, const Loads& weights, std::span<const std::int32_t> known);

  // Continues the search. Returns the steps left over: none unless the layer is finished.
  std::int64_t run(std::int64_t steps);
  bool finished() const { return finished_; }

  double worst() const { return worst_; }   // load of the heaviest GPU
  double bound() const;                     // no placement has a smaller one
  std::vector<std::int32_t> slots() const;  // the best placement

 private:
  struct Node {
    Cell cell;
    double bound = 0;
    std::optional<Filling> filling;
    std::int64_t spent = 0;
    std::uint32_t rounds = 0;
    bool optimal = false;
  };

  Node& node(std::uint32_t kind, const Groups& groups);
  Node& node(const Partition& p, std::size_t n) { return node(nodes_.kind_of[n], p.groups[n]); }
  double value(const Partition& p);
  double promise(const Partition& p);
  void open_next(std::int64_t& steps);
  void work_on(const Partition& p, std::int64_t& steps, std::int64_t chunk);
  void take(const Partition& p);

  Shape shape_;
  const Loads& weights_;
  Nodes nodes_;
  std::vector<std::int32_t> known_;
  double worst_ = 0;
  std::map<std::pair<std::uint32_t, Groups>, Node> cells_;
  Partitions partitions_;
  std::size_t opened_ = 0;                             // partitions whose nodes have been filled
  std::optional<std::size_t> best_;                    // index in partitions_.list; none: the known placement
  std::vector<std::vector<std::uint32_t>> best_fill_;  // per node of the best
  bool finished_ = false;
};

}  // namespace rehearsal::balance::search
