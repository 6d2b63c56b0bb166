#include "gpu/gpu_rank.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "dispatch/performable.hpp"
#include "dispatch/traffic.hpp"

namespace rehearsal::gpu {

using dispatch::Act;
using graph::EndpointKind;
using graph::Lane;

GpuRank::GpuRank(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options, Device& device,
                 std::size_t part, Fabric& fabric, std::size_t depth)
    : graph_(graph),
      id_(rank),
      program_(graph.program_of(graph.ranks()[rank.index()])),
      options_(options),
      device_(device),
      fabric_(fabric),
      real_(options.compute == backend::Compute::real),
      queues_(dispatch::queues(program_)),
      lanes_(dispatch::issue_lists(program_)),
      heads_(lanes_.size(), 0),
      message_(program_.size(), nullptr),
      dummies_(device.make_pool()) {
  if (real_) {
    if (const auto why = dispatch::why_not_real(graph, rank)) throw UserError(*why);
    for (const graph::Buffer& buffer : program_.buffers)
      if (buffer.tier != Tier::device)
        throw UserError(
            "states that leave the memory of a GPU (training.offload) are performed on processors alone so far; use "
            "--backend loopback or mpi");
    other_ = dispatch::staging_copies(graph, program_);
  } else {
    if (const auto why = dispatch::why_not_over_wires(graph, rank)) throw UserError(*why);
    INVARIANT(options.durations.size() == graph.works().size(),
              fmt::format("{} durations for {} works", options.durations.size(), graph.works().size()));
  }
  const PoolId outbox_pool = device_.make_pool();
  for (std::size_t e = 0; e < program_.endpoints.size(); ++e)
    if (program_.endpoints[e] == EndpointKind::send)
      outboxes_.try_emplace(graph::EndpointId(e), device_, outbox_pool, depth);
  home_ = device_.make_stream(part);
  for (const dispatch::Queue& queue : queues_.queues)
    streams_.push_back(queue.lane == Lane::compute ? home_ : device_.make_stream(part));
  for (std::size_t i = 0; i < program_.size(); ++i) {
    acts_.push_back(dispatch::act_of(graph, program_, LocalTask(i), real_));
    started_.push_back(device_.make_event()), ended_.push_back(device_.make_event());
  }
  if (real_)
    worker_ = std::make_unique<GpuWorker>(graph, rank, options, device, home_);
  else
    prepare_dummies();
}

GpuRank::~GpuRank() {
  try {
    for (auto& [endpoint, outbox] : outboxes_) outbox.clear(home_);
    for (const auto& list : {dummy_in_, dummy_out_})
      for (const Address block : list)
        if (block) device_.free(block, home_);
  } catch (...) {  // the device's failure is reported elsewhere
  }
}

Bytes GpuRank::message_size(LocalTask message) const { return dispatch::message_size(graph_, id_, message); }

// Timed compute has no buffers: messages and collectives use dummy memory of the right size.
void GpuRank::prepare_dummies() {
  dummy_in_.assign(queues_.queues.size(), nullptr), dummy_out_.assign(queues_.queues.size(), nullptr);
  for (std::size_t q = 0; q < queues_.queues.size(); ++q) {
    Bytes in, out;
    for (const LocalTask task : queues_.queues[q].tasks) {
      if (acts_[task.index()] == Act::send) in = std::max(in, message_size(task));
      if (acts_[task.index()] != Act::collective) continue;
      const auto lengths = dispatch::timed_lengths(graph_, id_, task);
      in = std::max(in, Bytes(static_cast<std::int64_t>(lengths.in)));
      out = std::max(out, Bytes(static_cast<std::int64_t>(lengths.out)));
    }
    const auto block = [&](Bytes size) {
      if (size == Bytes{}) return Address{};
      const Address at = device_.allocate(dummies_, size, home_);
      device_.fill(at, std::byte{0}, size, home_);
      return at;
    };
    dummy_in_[q] = block(in), dummy_out_[q] = block(out);
  }
}

void GpuRank::begin(int step, EventId base) {
  step_ = step;
  std::ranges::fill(heads_, 0);
  for (auto& [endpoint, outbox] : outboxes_) outbox.begin_iteration();
  device_.wait(home_, base);
  for (const StreamId stream : streams_)
    if (stream != home_) device_.wait(stream, base);
  if (worker_) worker_->begin_iteration();
}

void GpuRank::enter(LocalTask task) {
  const StreamId mine = stream(task);
  for (const LocalTask before : program_.dependencies[task.index()])
    if (stream(before) != mine) device_.wait(mine, ended_[before.index()]);
  if (worker_) worker_->enter(task, mine);
  device_.record(started_[task.index()], mine);
}

// Frees precede the end event, so the measured time includes them: one node of a graph, or nothing. After the event no
// stream would wait for them: work queued after a stream's last event never rejoins the others, which a recording
// forbids, and memory passes to another stream only where an event follows its free.
void GpuRank::leave(LocalTask task) {
  if (worker_) worker_->leave(task, stream(task));
  device_.record(ended_[task.index()], stream(task));
}

void GpuRank::issue(LocalTask task) {
  enter(task);
  act(task);
  leave(task);
}

void GpuRank::act(LocalTask task) {
  switch (acts_[task.index()]) {
    case Act::send:
      return send(task);
    case Act::receive: {
      Address& message = message_[task.index()];
      message = fabric_.receive(id_, endpoint(task), message_size(task), stream(task));
      if (!real_) fabric_.release(id_, endpoint(task), message, stream(task));
      return;
    }
    case Act::hand_out: {
      const auto [from, size] = worker_->payload(task);
      const LocalTask send = other_[task.index()];
      Address& message = message_[send.index()];
      message = outboxes_.at(endpoint(send)).acquire(size, stream(task));
      return device_.copy(message, from, size, Direction::within_device, stream(task));
    }
    case Act::take_in:
      return take_in(task);
    case Act::collective:
      INVARIANT(false, "collectives are queued with all their members");
      return;
    case Act::beside:
      INVARIANT(false, "graphs whose states leave the device are refused");
      return;
    case Act::compute:
      if (skips(task)) return;
      if (!real_) {
        if (duration(task) > Time{}) device_.spin(duration(task), stream(task));
      } else if (std::holds_alternative<Kernel>(work(task))) {
        INVARIANT(stream(task) == home_, "kernels run on the compute lane");
        worker_->perform(task);
      }
  }
}

void GpuRank::send(LocalTask task) {
  const StreamId mine = stream(task);
  if (real_) {
    const Address message = message_[task.index()];
    fabric_.send(id_, endpoint(task), message, message_size(task), mine);
    return outboxes_.at(endpoint(task)).release(message, mine);
  }
  fabric_.send(id_, endpoint(task), dummy_in_[queues_.of[task.index()]], message_size(task), mine);
}

void GpuRank::take_in(LocalTask task) {
  const LocalTask receive = other_[task.index()];
  const auto [into, size] = worker_->payload(task);
  device_.copy(into, message_[receive.index()], size, Direction::within_device, stream(task));
  fabric_.release(id_, endpoint(receive), message_[receive.index()], stream(task));
}

std::optional<Fabric::Member> GpuRank::begin_collective(LocalTask task) {
  enter(task);
  if (skips(task)) return std::nullopt;
  Fabric::Member member{.rank = id_, .endpoint = endpoint(task), .stream = stream(task)};
  if (real_) {
    const auto operands = worker_->operands(task);
    member.in = operands.in, member.out = operands.out;
  } else {
    member.in = dummy_in_[queues_.of[task.index()]], member.out = dummy_out_[queues_.of[task.index()]];
    member.blocks = dispatch::timed_lengths(graph_, id_, task).blocks;
  }
  return member;
}

Fabric::Operation GpuRank::operation(LocalTask task) const {
  const auto* by = dispatch::execution(graph_, options_, id_, task);
  if (real_) {
    const auto& collective = std::get<graph::Collective>(work(task));
    return {collective.kind, collective.precision, worker_->operands(task).part, by};
  }
  const auto lengths = dispatch::timed_lengths(graph_, id_, task);
  return {lengths.kind, lengths.precision, lengths.part, by};
}

void GpuRank::end_collective(LocalTask task) { leave(task); }

void GpuRank::end() {
  for (std::size_t q = 0; q < streams_.size(); ++q)
    if (streams_[q] != home_ && !queues_.queues[q].tasks.empty())
      device_.wait(home_, ended_[queues_.queues[q].tasks.back().index()]);
  if (worker_) worker_->end_iteration();
}

void GpuRank::look(dispatch::Progress& progress) {
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const auto& tasks = lanes_[l].tasks;
    while (heads_[l] < tasks.size() && device_.reached(ended_[tasks[heads_[l]].index()])) {
      ++heads_[l], ++progress.moves;
      // The watchdog allows for the known duration of the task that runs.
      if (!real_ && heads_[l] < tasks.size())
        progress.busy_until =
            std::max(progress.busy_until.load(), (dispatch::now() + duration(tasks[heads_[l]])).count());
    }
    progress.heads[l] = static_cast<std::uint32_t>(heads_[l]);
  }
}

timeline::Spans GpuRank::spans(EventId base, Time base_at) const {
  timeline::Spans spans;
  for (std::size_t i = 0; i < program_.size(); ++i) {
    const Time end = base_at + device_.between(base, ended_[i]);
    spans.end.push_back(end);
    // A receive's span is the instant of arrival.
    spans.start.push_back(acts_[i] == Act::receive ? end : std::min(end, base_at + device_.between(base, started_[i])));
  }
  return spans;
}

void GpuRank::collect() {
  if (worker_) worker_->collect();
}

}  // namespace rehearsal::gpu
