#include "lower/validated.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "graph/builder.hpp"
#include "graph/repeat.hpp"
#include "lower/consecutive.hpp"

namespace rehearsal::lower {
namespace {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::EndpointId;
using graph::EndpointKind;
using graph::Lane;
using graph::Pass;

constexpr std::int64_t kStateElements = 2;  // sum of squares and an infinity flag
const Bytes kState(kStateElements * 4);

const Kernel* kernel_of(const graph::TaskGraph& graph, const graph::Program& program, std::size_t task) {
  return std::get_if<Kernel>(&graph.work(program.work[task]));
}

// The task before which the previous iteration's step is validated: the last forward before the first backward (ahead
// of its receives), and before any loss is added up. No gradient of the next step has begun by then, and rank r has
// sent rank r + 1 all that it runs before its own validation.
std::size_t place_of_validation(const graph::TaskGraph& graph, const graph::Program& program) {
  std::optional<std::size_t> place;
  std::pair<std::uint32_t, std::uint32_t> last{graph::kNoMicrobatch, graph::kNoMicrobatch};
  for (std::size_t i = 0; i < program.size(); ++i) {
    const auto& at = program.coordinates[i];
    if (at.pass == Pass::input_gradient || at.pass == Pass::backward || at.pass == Pass::weight_gradient) break;
    if (at.pass != Pass::forward) continue;
    if (const std::pair pass{std::uint32_t{at.stage}, at.microbatch}; pass != last) last = pass, place = i;
    const auto* kernel = kernel_of(graph, program, i);
    if (kernel && (kernel->kind == KernelKind::cross_entropy || kernel->kind == KernelKind::squared_error)) break;
  }
  INVARIANT(place, "a pipeline rank begins with a forward");
  return *place;
}

// The program of a pipeline rank, with the endpoints that carry the state.
class Validated {
 public:
  Validated(const graph::TaskGraph& one, const graph::Program& program, const models::Optimizer::TakesBack& kernels,
            graph::GraphBuilder& works, std::optional<graph::Work> to_previous, std::optional<graph::Work> to_next,
            bool rolled_back)
      : one_(one),
        program_(program),
        kernels_(kernels),
        works_(works),
        rolled_back_(rolled_back),
        place_(place_of_validation(one, program)),
        into_(program.name),
        copies_(program, into_) {
    for (const auto& segment : program.segments) into_.segment(segment);
    if (to_previous) to_previous_ = works.intern(*to_previous);
    if (to_next) to_next_ = works.intern(*to_next);
    ends_ = state_ends(into_, to_previous.has_value(), to_next.has_value());
    for (std::size_t i = 0; i < program.size(); ++i) {
      const auto* kernel = kernel_of(one, program, i);
      if (kernel && kernel->kind == kernels_.step) steps_.push_back(i);
    }
    INVARIANT(!steps_.empty(), "there is a step to be taken back");
  }

  // Messages before the validation, by endpoint: those that a rank sends, or those that its passes receive.
  using Sent = std::map<std::uint32_t, std::uint32_t>;  // endpoint -> messages before the validation
  Sent before_validation(EndpointKind kind) const {
    Sent sent;
    for (std::size_t i = 0; i < place_; ++i)
      if (program_.endpoint[i] != graph::kNoEndpoint && program_.endpoints[program_.endpoint[i]] == kind)
        ++sent[program_.endpoint[i]];
    return sent;
  }

  // `arrives`: before_validation of the senders, by this rank's endpoint.
  graph::Program make(std::uint32_t iterations, const Sent& arrives) && {
    for (std::uint32_t k = 0; k < iterations; ++k) {
      copies_.begin();
      if (k > 0 && rolled_back_) {
        for (std::size_t i = 0; i < place_; ++i) copy(i);
        validate(alive());
        drain(arrives);
        copies_.begin();
      }
      for (std::size_t i = 0; i < program_.size(); ++i) {
        if (k > 0 && !rolled_back_ && i == place_) validate({});
        if (i == steps_.front()) combine();
        copy(i);
      }
    }
    validate({});
    return std::move(into_).finish();
  }

  const StateEnds& ends() const { return ends_; }

 private:
  LocalTask copy(std::size_t i) {
    WorkId work = program_.work[i];
    if (std::binary_search(steps_.begin(), steps_.end(), i)) work = as(i, kernels_.keep);
    return copies_.add(i, work, copies_.dependencies(i));
  }
  WorkId as(std::size_t step, KernelKind kind) {
    Kernel kernel = *kernel_of(one_, program_, step);
    kernel.kind = kind;
    return works_.intern(kernel);
  }
  Coordinates here(std::size_t step) const { return program_.coordinates[step]; }
  LocalTask add(graph::Work work, Lane lane, std::vector<LocalTask> after, const std::vector<BufferUse>& uses,
                std::optional<EndpointId> end = {}) {
    return into_.add({works_.intern(work), lane, here(steps_.front()), end ? end->value : graph::kNoEndpoint}, after,
                     uses);
  }
  // After all tasks of the compute lane; the step itself waits for collectives.
  std::vector<LocalTask> done() const {
    std::vector<LocalTask> after;
    if (const auto last = into_.last(Lane::compute)) after.push_back(*last);
    return after;
  }

  // --- the state: 8 bytes that travel up the ranks and back down. What they say is decided beforehand.
  void receive(EndpointId from) {
    const auto arrived = add(graph::Receive{}, Lane::receive, {}, {}, from);
    state_ = into_.buffer({kState, graph::MemoryCategory::buffers});
    add(graph::StagingCopy{kState, true}, Lane::compute, {arrived},
        {{*state_, Access::allocate}, {*state_, Access::write}});
  }
  void send(EndpointId to, WorkId message) {
    const auto handed =
        add(graph::StagingCopy{kState, false}, Lane::compute, {}, {{*state_, Access::read}, {*state_, Access::free}});
    state_.reset();
    into_.add({message, Lane::send, here(steps_.front()), to.value}, std::vector{handed});
  }
  void combine() {
    if (ends_.partial_in)
      receive(*ends_.partial_in);
    else if (ends_.partial_out) {
      state_ = into_.buffer({kState, graph::MemoryCategory::buffers});
      add(Kernel{.kind = KernelKind::clear, .dims = {kStateElements}}, Lane::compute, {},
          {{*state_, Access::allocate}, {*state_, Access::write}});
    }
    if (ends_.partial_out) send(*ends_.partial_out, *to_next_);
  }
  // `lost`: buffers of passes that will run again.
  void validate(const std::vector<BufferUse>& lost) {
    if (ends_.full_in) receive(*ends_.full_in);  // the last rank has had it since combine()
    if (ends_.full_out)
      send(*ends_.full_out, *to_previous_);
    else if (state_)
      add(graph::FixedDelay{}, Lane::compute, done(), {{*state_, Access::free}}), state_.reset();
    if (!lost.empty()) add(graph::FixedDelay{}, Lane::compute, done(), lost);
    for (const std::size_t step : steps_) {
      const auto& uses = program_.uses[step];  // residents, which keep their numbers
      const auto again = [&](KernelKind kind) { into_.add({as(step, kind), Lane::compute, here(step)}, {}, uses); };
      if (rolled_back_) {
        again(kernels_.undo);
        again(kernels_.step);  // and clears the gradient
        continue;
      }
      const auto* kernel = kernel_of(one_, program_, step);
      const std::vector<BufferUse> gradient{{uses.front().id(), Access::write}};
      into_.add(
          {works_.intern(Kernel{.kind = KernelKind::clear, .dims = {kernel->dims[0]}, .precision = kernel->precision}),
           Lane::compute, here(step)},
          {}, gradient);
    }
  }

  // --- passes that ran on weights that were taken back
  std::vector<BufferUse> alive() const {
    std::vector<std::uint32_t> alive;
    for (std::size_t i = 0; i < place_; ++i)
      for (const auto& use : program_.uses[i]) {
        if (use.how() == Access::allocate) alive.push_back(use.id().value);
        if (use.how() == Access::free) std::erase(alive, use.id().value);
      }
    std::vector<BufferUse> uses;
    for (const auto id : alive) uses.emplace_back(copies_.buffer(BufferId(id)), Access::free);
    return uses;
  }
  // Receives messages for passes that do not run: per endpoint, those that were sent but not taken by a pass.
  void drain(const Sent& arrives) {
    const auto taken = before_validation(EndpointKind::receive);
    for (const auto& [endpoint, sent] : arrives) {
      const auto found = taken.find(endpoint);
      const std::uint32_t own = found == taken.end() ? 0 : found->second;
      INVARIANT(own <= sent, "nobody waits, before its validation, for what comes after that of another");
      const auto first = program_.endpoint_tasks[endpoint].front().index();
      for (std::uint32_t n = own; n < sent; ++n) {
        const auto arrived = into_.add({program_.work[first], Lane::receive, program_.coordinates[first], endpoint});
        for (std::size_t i = first; i < program_.size(); ++i) {
          const auto* staging_copy = std::get_if<graph::StagingCopy>(&one_.work(program_.work[i]));
          const auto& after = program_.dependencies[i];
          if (!staging_copy || !staging_copy->incoming ||
              std::find(after.begin(), after.end(), LocalTask(first)) == after.end())
            continue;
          const BufferId dropped = into_.buffer({staging_copy->size, graph::MemoryCategory::activations});
          into_.add(
              {program_.work[i], Lane::compute, program_.coordinates[i]}, std::vector{arrived},
              std::vector<BufferUse>{{dropped, Access::allocate}, {dropped, Access::write}, {dropped, Access::free}});
          break;
        }
      }
    }
  }

  const graph::TaskGraph& one_;
  const graph::Program& program_;
  const models::Optimizer::TakesBack& kernels_;
  graph::GraphBuilder& works_;
  bool rolled_back_;
  std::size_t place_;
  graph::ProgramBuilder into_;
  graph::Repeat copies_;
  std::optional<WorkId> to_previous_, to_next_;  // messages
  StateEnds ends_;
  std::vector<std::size_t> steps_;  // of the optimizer, segment by segment
  std::optional<BufferId> state_;
};

}  // namespace

graph::TaskGraph validated(const graph::TaskGraph& one, const models::Optimizer::TakesBack& kernels,
                           std::uint32_t pipeline, std::uint32_t iterations, bool rolled_back) {
  const auto ranks = by_pipeline_rank(one, pipeline);
  const auto messages = state_messages(one, pipeline);
  auto builder = with_works(one);
  std::vector<Validated> parts;
  parts.reserve(pipeline);
  for (std::uint32_t p = 0; p < pipeline; ++p) {
    const auto& program = one.program_of(one.ranks()[ranks[p].front().index()]);
    for (const auto& segment : program.segments)
      if (segment.shards > 1 || segment.host_step)
        throw UserError(
            "steps of sharded states, or of the host, are taken back with what was gathered of them, which cannot be "
            "performed yet; set parallelism.zero to 0 and leave training.offload out");
    parts.emplace_back(one, program, kernels, builder, p > 0 ? std::optional(messages[p - 1]) : std::nullopt,
                       p + 1 < pipeline ? std::optional(messages[p]) : std::nullopt, rolled_back);
  }
  // The messages sent, by the endpoint of the receiver.
  std::vector<Validated::Sent> arrives(pipeline);
  for (std::uint32_t p = 0; p < pipeline; ++p) {
    const auto& rank = one.ranks()[ranks[p].front().index()];
    for (const auto& [endpoint, sent] : parts[p].before_validation(EndpointKind::send)) {
      const auto& to = rank.attachments[endpoint];
      arrives[one.ranks()[to.peer.index()].place[Axis::pipeline]][to.peer_endpoint.value] += sent;
    }
  }
  std::vector<graph::Program> programs;
  std::vector<StateEnds> ends;
  for (std::uint32_t p = 0; p < pipeline; ++p) {
    ends.push_back(parts[p].ends());
    programs.push_back(std::move(parts[p]).make(iterations, arrives[p]));
  }
  return rejoined(one, ranks, std::move(programs), ends, std::move(builder));
}

}  // namespace rehearsal::lower
