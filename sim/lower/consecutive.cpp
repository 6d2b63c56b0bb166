#include "lower/consecutive.hpp"

#include <optional>

#include "base/error.hpp"
#include "graph/builder.hpp"
#include "graph/repeat.hpp"

namespace rehearsal::lower {
namespace {

using graph::Coordinates;
using graph::EndpointId;
using graph::EndpointKind;
using graph::Lane;
using graph::Pass;

constexpr double kStateBytes = 8;  // sum of squares and an infinity flag, 4 bytes each

struct Works {
  WorkId receive, nothing;
  std::optional<WorkId> to_previous, to_next;  // messages
};

// Position of the receive of the full state that is validated before `task`: ahead of receives that are posted early
// for this task or later ones. Receives are in order, and the sender of a later message may itself wait for this state.
std::size_t received_before(const graph::Program& one, std::size_t task) {
  std::vector<bool> needed(task);  // by a computation before the task
  std::size_t place = task;
  for (std::size_t i = task; i-- > 0;) {
    if (one.lane[i] == Lane::compute) needed[i] = true;
    if (needed[i])
      for (const auto on : one.dependencies[i]) needed[on.index()] = true;
    if (one.lane[i] != Lane::receive) continue;
    if (needed[i]) break;
    place = i;
  }
  return place;
}

// Copies one program several times over.
class Copier {
 public:
  Copier(const graph::Program& one, const Works& works, LocalTask validate_before)
      : one_(one),
        works_(works),
        validate_before_(validate_before.index()),
        receive_before_(received_before(one, validate_before.index())),
        program_(one.name),
        copies_(one, program_) {
    ends_ = state_ends(program_, works.to_previous.has_value(), works.to_next.has_value());
  }

  void add(std::uint32_t iterations) {
    for (std::uint32_t k = 0; k < iterations; k++) iteration(k, k + 1 == iterations);
  }

  graph::Program finish() && { return std::move(program_).finish(); }
  const StateEnds& ends() const { return ends_; }
  const std::vector<LocalTask>& at() const { return copies_.at(); }

 private:
  void iteration(std::uint32_t k, bool last) {
    copies_.begin();
    bool stepped = false;
    for (std::size_t i = 0; i < one_.size(); i++) {
      if (k > 0 && i == receive_before_) receive_state();
      if (k > 0 && i == validate_before_) validate();
      auto after = copies_.dependencies(i);
      // The first computation of an iteration waits for what the previous one left on other lanes: the all-gather of
      // parameters that a sharded optimizer updated.
      if (one_.lane[i] == Lane::compute && unfinished_) after.push_back(*unfinished_), unfinished_.reset();
      // A gather without dependencies also waits: for the previous optimizer step, whose parameters it gathers.
      if (one_.coordinates[i].pass == Pass::parameter_gather && after.empty() && stepped_) after.push_back(*stepped_);
      if (one_.coordinates[i].pass == Pass::optimizer && !stepped) combine(after), stepped = true;
      copies_.add(i, one_.work[i], after);
    }
    if (!stepped) combine({});  // given pipelines have no optimizer: an empty step
    const auto latest = [&](Pass pass) -> std::optional<LocalTask> {
      for (std::size_t i = one_.size(); i-- > 0;)
        if (one_.coordinates[i].pass == pass) return at()[k * one_.size() + i];
      return std::nullopt;
    };
    if (!last) unfinished_ = latest(Pass::parameter_gather), stepped_ = latest(Pass::optimizer);
  }

  LocalTask add(WorkId work, Lane lane, const std::optional<EndpointId>& end, std::vector<LocalTask> after = {}) {
    const Coordinates here{Pass::optimizer, 0, graph::kNoLayer, graph::kNoMicrobatch};
    return program_.add({work, lane, here, end ? end->value : graph::kNoEndpoint}, after);
  }

  // Adds this rank's contribution to the partial state and sends it on. `after`: its gradients are complete.
  void combine(std::vector<LocalTask> after) {
    if (ends_.partial_in) after.push_back(add(works_.receive, Lane::receive, ends_.partial_in));
    const LocalTask combined = add(works_.nothing, Lane::compute, {}, after);
    if (ends_.partial_out) add(*works_.to_next, Lane::send, ends_.partial_out, {combined});
  }

  // Receives the full state of the previous iteration; validate() sends it on. The last rank knows it since combine().
  void receive_state() {
    if (ends_.full_in) state_ = add(works_.receive, Lane::receive, ends_.full_in);
  }
  void validate() {
    std::vector<LocalTask> after;
    if (state_) after.push_back(*state_);
    const LocalTask validated = add(works_.nothing, Lane::compute, {}, after);
    if (ends_.full_out) add(*works_.to_previous, Lane::send, ends_.full_out, {validated});
  }

  const graph::Program& one_;
  Works works_;
  std::size_t validate_before_, receive_before_;
  graph::ProgramBuilder program_;
  graph::Repeat copies_;
  StateEnds ends_;
  std::optional<LocalTask> state_;                 // received and not yet validated
  std::optional<LocalTask> unfinished_, stepped_;  // last tasks of the previous iteration
};

}  // namespace

std::vector<std::vector<RankId>> by_pipeline_rank(const graph::TaskGraph& graph, std::uint32_t pipeline) {
  std::vector<std::vector<RankId>> ranks(pipeline);
  for (std::size_t r = 0; r < graph.ranks().size(); r++)
    ranks[graph.ranks()[r].place[Axis::pipeline]].push_back(RankId(r));
  for (const auto& replicas : ranks)
    INVARIANT(replicas.size() == ranks.front().size() && !replicas.empty(), "as many replicas of every pipeline rank");
  return ranks;
}

std::vector<graph::Work> state_messages(const graph::TaskGraph& one, std::uint32_t pipeline) {
  const auto ranks = by_pipeline_rank(one, pipeline);
  std::vector<graph::Work> messages;
  for (std::size_t p = 0; p + 1 < pipeline; p++) {
    const auto& rank = one.ranks()[ranks[p].front().index()];
    const auto& program = one.program_of(rank);
    std::optional<graph::Work> found;
    for (std::size_t e = 0; e < program.endpoints.size() && !found; e++) {
      if (program.endpoints[e] != EndpointKind::send || rank.attachments[e].peer != ranks[p + 1].front()) continue;
      found = one.work(program.work[program.endpoint_tasks[e].front().index()]);
    }
    INVARIANT(found, "neighbours in the pipeline exchange messages");
    if (auto* message = std::get_if<graph::Message>(&*found))
      message->size = bytes(kStateBytes), message->gathered = Bytes{}, message->gather = {};
    messages.push_back(*found);
  }
  return messages;
}

StateEnds state_ends(graph::ProgramBuilder& program, bool has_previous, bool has_next) {
  StateEnds ends;
  if (has_previous)
    ends.partial_in = program.endpoint(EndpointKind::receive), ends.full_out = program.endpoint(EndpointKind::send);
  if (has_next)
    ends.partial_out = program.endpoint(EndpointKind::send), ends.full_in = program.endpoint(EndpointKind::receive);
  return ends;
}

graph::GraphBuilder with_works(const graph::TaskGraph& one) {
  graph::GraphBuilder builder;
  for (std::size_t w = 0; w < one.works().size(); w++) builder.intern(one.works()[w], one.conditions()[w]);
  return builder;
}

graph::TaskGraph rejoined(const graph::TaskGraph& one, const std::vector<std::vector<RankId>>& ranks,
                          std::vector<graph::Program> programs, std::span<const StateEnds> ends,
                          graph::GraphBuilder builder) {
  std::vector<ProgramId> ids;
  for (auto& program : programs) ids.push_back(builder.add(std::move(program)));
  for (const auto& rank : one.ranks()) {
    const auto p = rank.place[Axis::pipeline];
    INVARIANT(rank.program == one.ranks()[ranks[p].front().index()].program, "replicas share a program");
    builder.add_rank(ids[p], rank.multiplicity, rank.job_rank, rank.node, rank.place);
  }
  for (std::size_t n = 0; n < one.ranks().size(); n++) {
    const auto& rank = one.ranks()[n];
    const auto& kinds = one.program_of(rank).endpoints;
    for (std::size_t e = 0; e < kinds.size(); e++)
      if (kinds[e] == EndpointKind::send)
        builder.connect(RankId(n), EndpointId(e), rank.attachments[e].peer, rank.attachments[e].peer_endpoint);
  }
  for (std::size_t p = 0; p + 1 < ranks.size(); p++)
    for (std::size_t i = 0; i < ranks[p].size(); i++) {
      builder.connect(ranks[p][i], *ends[p].partial_out, ranks[p + 1][i], *ends[p + 1].partial_in);
      builder.connect(ranks[p + 1][i], *ends[p + 1].full_out, ranks[p][i], *ends[p].full_in);
    }
  for (const auto& group : one.groups()) builder.add_group(group.axes, group.members);
  return std::move(builder).finish();
}

Consecutive consecutive(const graph::TaskGraph& one, std::uint32_t pipeline, std::uint32_t iterations,
                        std::span<const graph::Work> messages, std::span<const LocalTask> validate_before) {
  const auto ranks = by_pipeline_rank(one, pipeline);
  INVARIANT(messages.size() + 1 == pipeline, "one message between two ranks");
  auto builder = with_works(one);
  const WorkId receive = builder.intern(graph::Receive{}), nothing = builder.intern(graph::FixedDelay{});
  std::vector<WorkId> message_ids;
  for (const auto& message : messages) message_ids.push_back(builder.intern(message));

  Consecutive result;
  std::vector<StateEnds> ends;
  std::vector<graph::Program> programs;
  for (std::uint32_t p = 0; p < pipeline; p++) {
    Works works{receive, nothing, {}, {}};
    if (p > 0) works.to_previous = message_ids[p - 1];
    if (p + 1 < pipeline) works.to_next = message_ids[p];
    Copier copier(one.program_of(one.ranks()[ranks[p].front().index()]), works, validate_before[p]);
    copier.add(iterations);
    ends.push_back(copier.ends());
    result.at.push_back(copier.at());
    programs.push_back(std::move(copier).finish());
  }
  result.graph = rejoined(one, ranks, std::move(programs), ends, std::move(builder));
  return result;
}

}  // namespace rehearsal::lower
