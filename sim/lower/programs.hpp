// The programs of the ranks of a graph: one for each pipeline rank, or for those of it
// that send and receive alike, and, on a machine with faults, one for each way in
// which its works can be slow.
#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "graph/builder.hpp"
#include "lower/job_actors.hpp"

namespace rehearsal::lower {

// Passes that a schedule knows apart, so that a step jitters alike at every detail.
std::uint64_t jitter_key(const graph::Coordinates& at);

class Programs {
 public:
  // `of_programs`: of each pipeline rank, with all works under sound conditions. `conditions`: null where all is alike;
  // `health`: null where nothing is wrong. `jitters`: of each rank, those of one number have the same times; empty
  // without jitter.
  Programs(std::vector<graph::Program> of_programs, const JobActors& actors, const Conditions* conditions,
           const cluster::Health* health, std::vector<std::uint32_t> jitters, graph::GraphBuilder& builder);

  ProgramId of(std::uint32_t rank);

 private:
  // What decides the times of a rank: its stage, its kernels, the links of its tensor group and of each endpoint, whose
  // jitter.
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
