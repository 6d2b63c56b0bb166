// The programs of the ranks of a graph: one per pipeline rank, or per class of its ranks with equal messages, and, on a
// machine with faults, one per way in which its works can be slow.
#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "graph/builder.hpp"
#include "lower/job_actors.hpp"

namespace rehearsal::lower {

// Equal for passes that a schedule does not tell apart, so that a step has the same jitter at every detail.
std::uint64_t jitter_key(const graph::Coordinates& at);

class Programs {
 public:
  // `of_programs`: of each pipeline rank, with all works under sound conditions. `conditions`: null if all are alike;
  // `health`: null if nothing is faulty. `jitters`: of each rank; ranks with equal numbers have equal times; empty
  // without jitter.
  Programs(std::vector<graph::Program> of_programs, const JobActors& actors, const Conditions* conditions,
           const cluster::Health* health, std::vector<std::uint32_t> jitters, graph::GraphBuilder& builder);

  ProgramId of(std::uint32_t rank);

 private:
  // What determines the times of a rank: its stage, its kernels, the links of its tensor group and of each endpoint,
  // and its jitter number.
  using Key =
      std::tuple<std::uint32_t, graph::Condition, graph::Condition, std::vector<graph::Condition>, std::uint32_t>;

  graph::Program variant(const Key& key);
  WorkId under(WorkId work, const graph::Condition& kernels, const graph::Condition& links);

  std::vector<graph::Program> of_programs_;
  const JobActors& actors_;
  const Conditions* conditions_;
  const cluster::Health* health_;
  std::vector<std::uint32_t> jitters_;
  graph::GraphBuilder& builder_;
  std::vector<ProgramId> sound_;
  std::vector<std::vector<graph::Condition>> endpoints_;  // of each rank
  std::map<Key, ProgramId> known_;
  std::map<std::tuple<WorkId, graph::Condition, graph::Condition>, WorkId> works_;
};

}  // namespace rehearsal::lower
