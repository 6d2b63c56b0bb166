// The program of one pipeline rank: its part of the schedule as tasks with messages, buffers and the end of the step.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "graph/builder.hpp"
#include "lower/lowering.hpp"
#include "lower/stage_transfers.hpp"
#include "lower/vocabulary.hpp"

namespace rehearsal::lower {

// The open endpoints of a program, by which ranks are joined.
struct Ends {
  // Keyed by the other end: a pipeline rank, and which of its ranks (P2POp).
  struct Peer {
    std::uint32_t pipeline_rank = 0;
    MessageKind kind = MessageKind::activation;
    std::uint32_t number = 0;
    friend auto operator<=>(const Peer&, const Peer&) = default;
  };
  std::map<Peer, graph::EndpointId> sends, receives;
  // Along the axes (plan::Plan::group); then more along the pipeline, whose meetings have an order of their own.
  static constexpr std::size_t kVocabularySums = kAxes, kVocabularyOut = kAxes + 1;
  std::array<std::optional<graph::EndpointId>, kAxes + 2> groups;

  // With parameter servers. A worker's endpoints to and from each server, starting with the server of its own number,
  // so that servers are not all asked in the same order; a server's endpoints, turn after turn. `pushed`: parameters of
  // each bucket.
  std::vector<graph::EndpointId> out, in;
  std::vector<double> pushed;

  std::uint32_t group(Axis axis, graph::ProgramBuilder& program) { return group(index(axis), program); }
  std::uint32_t group(std::size_t which, graph::ProgramBuilder& program) {
    auto& end = groups[which];
    if (!end) end = program.endpoint(graph::EndpointKind::group);
    return end->value;
  }
};

// What a rank program needs to know of the whole pipeline.
struct Pipeline {
  const Parts& parts;
  const plan::Plan* plan;  // of this pipeline rank; null for a given pipeline
  const schedule::Schedule& schedule;
  const schedule::Problem& problem;
  const StageTransfers& transfers;
  const VocabularyWorks& vocabulary;
  bool blocking_sends;
  Detail detail;
};

struct LoweredRank {
  graph::Program program;
  Ends ends;
};

LoweredRank lower_rank(const Pipeline& pipeline, const RankClass& role, graph::GraphBuilder& builder);

}  // namespace rehearsal::lower
