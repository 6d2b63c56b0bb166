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
    std::size_t end;                   // index into Ends::groups
    std::vector<std::uint32_t> ranks;  // ascending by place
  };
  struct Channel {
    std::uint32_t from, to;  // ranks
    graph::EndpointId send, receive;
  };

  // One program per pipeline rank; its replicas communicate with their counterparts. `mirrored`: the model is trained
  // in two directions, and ranks p and P-1-p hold the same parts of its two copies. `of_stages` must outlive this
  // object.
  JobActors(const plan::RankLayout& rank_layout, const std::vector<Ends>& of_stages, bool mirrored);
  // The program of each rank, and the channels between ranks.
  JobActors(const plan::RankLayout& rank_layout, const std::vector<Ends>& of_programs,
            std::vector<std::uint32_t> program, std::vector<Channel> between);
  // Workers and the parameter servers that they push to, which form no groups.
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
  // Includes only ranks that have the endpoint: stages without layers may lack it.
  void add_group(Axes axes, std::size_t end, std::vector<std::uint32_t> ranks);
  void add_groups(const plan::RankLayout& rank_layout, Axes axes, std::size_t end);
  void add_mirrored_groups(const plan::Mesh& mesh, Axes axes, std::size_t end);
};

// A row of loads for each actor, on resources numbered by first use. Coarse tasks contain collectives (kInside); a
// rank's own share in their load is on the rank's row too.
Csr<ActorLoad> loads(const JobActors& actors, const plan::RankLayout& rank_layout, const plan::Job& job,
                     cluster::Resources& resources);

// Conditions under which the actors run, if GPUs are of several kinds or something is faulty.
struct Conditions {
  std::vector<graph::Condition> of;      // of each actor: kernels of ranks, links of groups and channels
  std::vector<graph::Condition> inside;  // of each rank: links of its tensor group, used inside coarse tasks
};
// `in_step`: tasks contain collectives of tensor groups, so a whole group runs at the pace of its slowest rank. Throws
// UserError if such a group has GPUs of several kinds, or if no traffic uses a link that a fault names.
Conditions conditions(const JobActors& actors, const plan::Plan& plan, bool in_step);

// Which actor waits for which, and the initial colours. `conditions`: null if nothing is faulty. `own_times`: a number
// below 2^20 for each rank, different for ranks with different times; may be empty.
Actors loaded_actors(const JobActors& actors, Csr<ActorLoad> loads, const std::vector<cluster::Resource>& resources,
                     const Conditions* conditions = nullptr, const std::vector<std::uint32_t>& own_times = {});

}  // namespace rehearsal::lower
