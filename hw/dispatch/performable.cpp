#include "dispatch/performable.hpp"

#include <fmt/format.h>

#include <vector>

#include "base/error.hpp"

namespace rehearsal::dispatch {
namespace {

using graph::EndpointKind;
using graph::Program;

std::optional<EndpointKind> kind_of(const Program& program, std::size_t task) {
  const std::uint32_t endpoint = program.endpoint[task];
  if (endpoint == graph::kNoEndpoint) return std::nullopt;
  return program.endpoints[endpoint];
}

bool goes_beside(const graph::Work& work) {
  return std::holds_alternative<graph::Copy>(work) || std::holds_alternative<graph::HostStep>(work);
}

// Kernels compute, staging_copies copy, and a wait of zero length joins dependencies; no other work can be performed.
bool has_code(const graph::Work& work) {
  if (goes_beside(work)) return true;
  if (const auto* wait = std::get_if<graph::FixedDelay>(&work)) return wait->duration == Time{};
  return std::holds_alternative<Kernel>(work) || std::holds_alternative<graph::StagingCopy>(work);
}

}  // namespace

Act act_of(const graph::TaskGraph& graph, const Program& program, LocalTask task, bool real) {
  if (const auto kind = kind_of(program, task.index())) {
    switch (*kind) {
      case EndpointKind::send:
        return Act::send;
      case EndpointKind::receive:
        return Act::receive;
      case EndpointKind::group:
        return Act::collective;
    }
  }
  const auto& work = graph.work(program.work[task.index()]);
  if (real && goes_beside(work)) return Act::beside;
  const auto* staging_copy = std::get_if<graph::StagingCopy>(&work);
  if (!staging_copy || !real) return Act::compute;
  return staging_copy->incoming ? Act::take_in : Act::hand_out;
}

std::vector<LocalTask> staging_copies(const graph::TaskGraph& graph, const Program& program) {
  std::vector<LocalTask> other(program.size(), kNoTask);
  std::vector<std::uint32_t> used(program.endpoints.size(), 0);
  auto staging_copy = [&](std::size_t task) {
    return std::get_if<graph::StagingCopy>(&graph.work(program.work[task]));
  };
  auto join = [&](std::size_t a, std::size_t b) {
    INVARIANT(other[a] == kNoTask && other[b] == kNoTask, "a handover carries one message");
    other[a] = LocalTask(b), other[b] = LocalTask(a);
  };
  for (std::size_t i = 0; i < program.size(); ++i) {
    const auto kind = kind_of(program, i);
    const auto* copy = staging_copy(i);
    for (LocalTask before : program.dependencies[i]) {
      const std::size_t b = before.index();
      if (kind == EndpointKind::send && staging_copy(b) && !staging_copy(b)->incoming) join(i, b);
      if (copy && copy->incoming && kind_of(program, b) == EndpointKind::receive) join(i, b);
    }
  }
  // Bytes are posted and taken in staging_copy order, so that must be the order of each channel's messages.
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (!staging_copy(i) || other[i] == kNoTask) continue;
    const std::size_t message = other[i].index();
    INVARIANT(program.sequence[message] == used[program.endpoint[message]]++,
              "handovers keep to the order of their channel");
  }
  return other;
}

std::optional<std::string> why_not_real(const graph::TaskGraph& graph, RankId id) {
  constexpr const char* kInstead = "cannot be computed for real; use --compute timed";
  const graph::Rank& rank = graph.ranks()[id.index()];
  if (rank.multiplicity != 1)
    return fmt::format("rank {} stands for {} ranks, which {} or simulate.symmetry: off", id.value, rank.multiplicity,
                       kInstead);
  const Program& program = graph.program_of(rank);
  const auto other = staging_copies(graph, program);
  auto refused = [&](std::size_t task, const char* why) {
    return fmt::format("{} of rank {} ({}) {}{}", graph.label(id, LocalTask(task)), id.value,
                       describe(graph.work(program.work[task])), why, kInstead);
  };
  auto is_handover = [&](std::size_t task) {
    return std::holds_alternative<graph::StagingCopy>(graph.work(program.work[task]));
  };
  // A missing kernel is the better explanation: a message without a staging copy follows from it.
  for (std::size_t i = 0; i < program.size(); ++i)
    if (!kind_of(program, i) && !has_code(graph.work(program.work[i]))) return refused(i, "");
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (kind_of(program, i) == EndpointKind::group) {
      if (!std::holds_alternative<graph::Collective>(graph.work(program.work[i])))
        return refused(i, "is no collective and ");
    } else if ((kind_of(program, i) || is_handover(i)) && other[i] == kNoTask) {
      return refused(i, "has no other half, message or handover, and ");
    }
  }
  return std::nullopt;
}

std::optional<std::string> why_not_real(const graph::TaskGraph& graph) {
  for (std::size_t r = 0; r < graph.ranks().size(); ++r)
    if (auto why = why_not_real(graph, RankId(r))) return why;
  return std::nullopt;
}

std::optional<std::string> why_not_over_wires(const graph::TaskGraph& graph, RankId id) {
  const Program& program = graph.program_of(graph.ranks()[id.index()]);
  for (std::size_t i = 0; i < program.size(); ++i) {
    const auto* tokens = std::get_if<graph::Dispatch>(&graph.work(program.work[i]));
    if (tokens && tokens->two_hop && tokens->group.ranks > 1)
      return fmt::format(
          "{} of rank {}: tokens that reach experts in two hops are forwarded by kernels of DeepEP or HybridEP, which "
          "are not performed over wires; leave experts.dispatch out and set framework.dispatcher to nccl, or use "
          "--backend loopback",
          graph.label(id, LocalTask(i)), id.value);
  }
  return std::nullopt;
}

}  // namespace rehearsal::dispatch
