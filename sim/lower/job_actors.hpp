// All ranks, groups and channels of a job, numbered as actors in this order, and the hardware resources that each of
// them uses.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/faults.hpp"
#include "cluster/resources.hpp"
#include "graph/condition.hpp"
#include "lower/classes.hpp"
#include "lower/rank_program.hpp"
#include "plan/plan.hpp"

namespace rehearsal::lower {

struct JobActors {
  struct Group {
    Axes axes;
    std::size_t end;                   // of Ends::groups
    std::vector<std::uint32_t> ranks;  // ascending by place
  };
  struct Channel {
    std::uint32_t from, to;  // ranks
    graph::EndpointId send, receive;
  };

  // One program for each pipeline rank, whose replicas speak to their like. `mirrored`: the model is trained in two
  // directions, ranks p and P-1-p hold the same parts of its two copies. `of_stages` outlives it.
  JobActors(const plan::RankLayout& rank_layout, const std::vector<Ends>& of_stages, bool mirrored);
  // The program of each rank, and who speaks to whom.
  JobActors(const plan::RankLayout& rank_layout, const std::vector<Ends>& of_programs, std::vector<std::uint32_t> program,
       std::vector<Channel> between);
  // Workers and the servers that they push to, which form no groups.
  JobActors(const std::vector<Ends>& of_programs, std::vector<std::uint32_t> program, std::vector<Channel> between)
      : ends(of_programs), programs(std::move(program)), channels(std::move(between)) {}

  const std::vector<Ends>& ends;        // of each program
  std::vector<std::uint32_t> programs;  // the program of each rank
  std::vector<Group> groups;
  std::vector<Channel> channels;

  graph::EndpointId endpoint(const Group& group, std::uint32_t rank) const {
    return *ends[programs[rank]].groups[group.end];
  }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(programs.size()); }
  std::uint32_t size() const { return ranks() + static_cast<std::uint32_t>(groups.size() + channels.size()); }
  std::uint32_t group(std::size_t g) const { return ranks() + static_cast<std::uint32_t>(g); }
  std::uint32_t channel(std::size_t c) const { return group(groups.size()) + static_cast<std::uint32_t>(c); }

 private:
  void add_all_groups(const plan::RankLayout& rank_layout, bool mirrored);
  // Of those of the ranks that have the endpoint, which stages without layers need not.
  void add_group(Axes axes, std::size_t end, std::vector<std::uint32_t> ranks);
  void add_groups(const plan::RankLayout& rank_layout, Axes axes, std::size_t end);
  void add_mirrored_groups(const plan::Mesh& mesh, Axes axes, std::size_t end);
};

// A row of loads for each actor, on resources that are numbered as they are met. The groups of a rank whose
// collectives coarse tasks hold inside (kInside) are on its row too: its own part in them.
Csr<ActorLoad> loads(const JobActors& actors, const plan::RankLayout& rank_layout, const plan::Job& job,
                     cluster::Resources& resources);

// Under which conditions a actors runs where GPUs are of several kinds or something is wrong.
struct Conditions {
  std::vector<graph::Condition> of;      // of each actor: kernels of ranks, links of groups and channels
  std::vector<graph::Condition> inside;  // of each rank: links of its tensor group, whose collectives coarse tasks hold
};
// `in_step`: tasks hold collectives of tensor groups, so that all of a group go at the pace of the slowest. Throws
// UserError where such a group has GPUs of several kinds, and where a link that a fault names is on nobody's way.
Conditions conditions(const JobActors& actors, const plan::Plan& plan, bool in_step);

// Who waits for whom, and what must be alike from the start. `conditions`: null where nothing is wrong. `own_times`: of
// each rank, a number below 2^20 that those with other times have otherwise; may be empty.
Actors loaded_actors(const JobActors& actors, Csr<ActorLoad> loads, const std::vector<cluster::Resource>& resources,
              const Conditions* conditions = nullptr, const std::vector<std::uint32_t>& own_times = {});

}  // namespace rehearsal::lower
