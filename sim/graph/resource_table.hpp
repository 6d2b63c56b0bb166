// The resources that works of a task graph load: for every rank, group and channel, in each of the ways in which a work
// may load the machine (footprint.hpp). With symmetry a resource represents its class, and `parts` is the load that all
// members of a class of ranks put on one resource (lower/classes.hpp).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/csr.hpp"
#include "graph/footprint.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::graph {

struct Load {
  std::uint32_t resource;
  std::int64_t parts;  // times the weight of a Share, or its hold
  friend bool operator==(const Load&, const Load&) = default;
};

class ResourceTable {
 public:
  // A resource of the graph, in capacity units; `origin`: the resource of the machine (cluster::Resources) that it is,
  // or represents.
  struct Resource {
    Wide capacity;
    std::uint32_t origin;
    std::uint32_t count = 1;  // number of real ones that it represents
    friend bool operator==(const Resource&, const Resource&) = default;
  };

  std::vector<Resource> resources;
  std::vector<std::uint32_t>
      of_machine;  // for each resource of the machine: the one above that it is, or that represents it

  // Loads of a rank: processors and memory; of a coarse task that contains collectives of its tensor group, also its
  // own share in these.
  std::span<const Load> of_rank(RankId rank, Way way) const { return rows_[row(rank.index(), way)]; }
  std::span<const Load> of_group(GroupId group, Way way) const { return rows_[row(first_group_ + group.index(), way)]; }
  std::span<const Load> of_send(RankId rank, EndpointId endpoint, Way way) const {
    return rows_[row(first_send_[rank.index()] + endpoint.index(), way)];
  }

  // Rows come in this order: kWays of each rank; of each group; of each endpoint of each rank (empty but for sends).
  void begin_groups() { first_group_ = rows_.rows() / kWays; }
  void begin_endpoints() { first_send_.push_back(rows_.rows() / kWays); }
  void add(std::span<const Load> loads) { rows_.push_row(loads); }
  friend bool operator==(const ResourceTable&, const ResourceTable&) = default;

 private:
  static std::size_t row(std::size_t actor, Way way) { return actor * kWays + static_cast<std::size_t>(way); }

  Csr<Load> rows_;
  std::size_t first_group_ = 0;
  std::vector<std::size_t> first_send_;  // by rank
};

}  // namespace rehearsal::graph
