// One collective on a machine, step by step: who sends what, over which links, for how long (`rehearse collective`).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/communication.hpp"

namespace rehearsal::cost {

struct CollectiveQuestion {
  CollectiveKind kind = CollectiveKind::all_reduce;
  const collective::Algorithm* algorithm = nullptr;  // null: NCCL's choice
  std::uint32_t ranks = 2;
  std::optional<std::int64_t> per_node;  // none: as many as a node has
  Bytes size;                            // in the sense of nccl-tests: the whole array
};

// The kind or registered algorithm that a name of the command means. Throws UserError with the nearest one.
CollectiveQuestion named_collective(const std::string& name);

// Places rank r on GPU r x stride. If nodes are not full, their other GPUs do the same among themselves, like the
// groups of a training run; nothing else runs. A machine of unknown size gets as many nodes as the ranks need. Throws
// UserError if they do not fit.
GroupShape place(const CollectiveQuestion& question, cluster::ClusterSpec& spec, bool sized);

// One direction of one link, with what the whole collective sends over it.
struct LinkLoad {
  cluster::Device from, to;
  Bandwidth rate;
  double bytes;
};

// A set of equal links.
struct LinkKind {
  cluster::DeviceKind from, to;
  Bandwidth rate;
  std::int64_t links = 0;
  double most = 0, total = 0;  // bytes
};

struct OneCollective {
  CollectiveQuestion question;
  GroupShape group;
  std::int64_t per_node = 1;
  const collective::Algorithm* algorithm = nullptr;
  bool chosen = true;  // NCCL would run it
  std::string why;
  double seconds = 0;
  collective::ClosedForm form;
  double shared = 0;                 // s of links that its messages share (collective::Candidate)
  double share = 1;                  // of wires.rate that the algorithm reaches
  std::optional<double> correction;  // of the closed form (inside a node) or of its part inside the nodes, by curves
  Quote quote;
  std::vector<std::vector<collective::Transfer>> steps;  // none above kMostListed ranks
  std::vector<LinkLoad> links;

  double part_bytes() const;
  double algorithm_bandwidth() const { return double(question.size.count()) / seconds; }
  double bus_factor() const;  // nccl-tests' (doc/PERFORMANCE.md): busbw = algbw x this
  double bus_bandwidth() const { return algorithm_bandwidth() * bus_factor(); }
  std::vector<LinkKind> link_kinds() const;
};

inline constexpr std::uint32_t kMostListed = 256;  // ranks

OneCollective step_by_step(const CommunicationModel& model, const CollectiveQuestion& question,
                           const GroupShape& group);

}  // namespace rehearsal::cost
