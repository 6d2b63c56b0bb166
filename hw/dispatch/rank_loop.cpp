#include "dispatch/rank_loop.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "dispatch/issue.hpp"
#include "dispatch/performable.hpp"
#include "dispatch/region.hpp"
#include "dispatch/results.hpp"
#include "dispatch/traffic.hpp"
#include "dispatch/watchdog.hpp"

namespace rehearsal::dispatch {
namespace {

using graph::EndpointId;
using graph::Lane;

constexpr Time kNever{INT64_MAX};
// Longest sleep before a rank checks whether the run was stopped.
const Time kSlice = seconds(20e-3);
// Polling interval for tasks that run beside compute.
const Time kGlance = seconds(50e-6);

}  // namespace

struct RankLoop::Impl {
  enum class State : std::uint8_t { idle, busy, meeting, beside };
  struct LaneState {
    Lane lane = Lane::compute;
    std::vector<LocalTask> tasks;
    std::size_t next = 0;  // the head
    State state = State::idle;
    bool skip = false;             // the head is skipped by fault injection
    Time last_start, until;        // on the clock
    Time wire;                     // lanes of sends: when the wire is free for the next message
    std::vector<std::byte> dummy;  // operands of timed collectives over a wire
    Blocks blocks;                 // of the one that is performed
  };

  const graph::TaskGraph& graph;
  const RankId rank;
  const graph::Program& program;
  const backend::RunOptions& options;
  Transport& transport;
  Worker* const worker;
  Progress& progress;
  const bool real;

  std::vector<Act> acts;         // by task
  std::vector<LocalTask> other;  // staging_copies()
  std::vector<std::byte> staged;
  std::vector<LaneState> lanes;
  std::vector<std::byte> dummy;  // messages of timed compute over a wire

  // Of the current iteration, by task.
  int step = 0;
  Time origin;
  std::vector<Time> ended;  // on the clock; kNever: not yet; the end of a send may lie in the future
  std::vector<std::optional<Transport::Posted>> posted;
  timeline::Spans spans;
  std::size_t left = 0;

  Impl(const graph::TaskGraph& g, RankId r, const backend::RunOptions& o, Transport& t, Worker* w, Progress& p)
      : graph(g),
        rank(r),
        program(g.program_of(g.ranks()[r.index()])),
        options(o),
        transport(t),
        worker(w),
        progress(p),
        real(o.compute == backend::Compute::real) {
    if (real) {
      if (const auto why = why_not_real(graph, rank)) throw UserError(*why);
      INVARIANT(worker, "real compute needs a worker");
      other = staging_copies(graph, program);
    } else {
      if (const auto why = transport.has_wire() ? why_not_over_wires(graph, rank) : std::nullopt) throw UserError(*why);
      INVARIANT(options.durations.size() == graph.works().size(),
                fmt::format("{} durations for {} works", options.durations.size(), graph.works().size()));
    }
    for (std::size_t i = 0; i < program.size(); ++i) acts.push_back(act_of(graph, program, LocalTask(i), real));
    for (auto& list : issue_lists(program)) {
      LaneState state;
      state.lane = list.lane;
      state.tasks = std::move(list.tasks);
      lanes.push_back(std::move(state));
    }
    if (!real && transport.has_wire()) make_dummies();
    progress.heads = std::vector<std::atomic<std::uint32_t>>(lanes.size());
  }

  const graph::Work& work(LocalTask task) const { return graph.work(program.work[task.index()]); }
  EndpointId endpoint(LocalTask task) const { return EndpointId(program.endpoint[task.index()]); }
  std::size_t message_bytes(LocalTask message) const {
    return static_cast<std::size_t>(message_size(graph, rank, message).count());
  }

  void make_dummies() {
    std::size_t bytes = 0;
    for (LaneState& lane : lanes) {
      std::size_t operands = 0;
      for (LocalTask task : lane.tasks) {
        if (acts[task.index()] == Act::send || acts[task.index()] == Act::receive)
          bytes = std::max(bytes, message_bytes(task));
        if (acts[task.index()] != Act::collective) continue;
        const Lengths lengths = timed_lengths(graph, rank, task);
        operands = std::max(operands, lengths.in + lengths.out);
      }
      lane.dummy.resize(operands);
    }
    dummy.resize(bytes);
  }

  // --- the loop -----------------------------------------------------------------------------------------------------

  timeline::Spans iterate(int which, const std::atomic<bool>& stop) {
    step = which;
    const std::size_t n = program.size();
    ended.assign(n, kNever);
    posted.assign(real ? n : 0, std::nullopt);
    spans.start.assign(n, Time{});
    spans.end.assign(n, Time{});
    left = n;
    if (worker) {
      progress.computing = true;
      worker->begin_step(step);
      progress.computing = false;
    }
    origin = transport.agree_on_start();
    sleep_until(origin);
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      lanes[l].state = State::idle;
      lanes[l].last_start = lanes[l].wire = origin;
      set_head(lanes[l], 0);
    }
    while (left > 0) {
      if (stop) throw Stopped{};
      bool moved = false;
      for (LaneState& lane : lanes) moved |= finish(lane);
      while (LaneState* lane = next_ready()) {
        start(*lane);
        moved = true;
      }
      if (!moved) transport.wait(deadline());
    }
    ++progress.iterations;
    return std::move(spans);
  }

  void set_head(LaneState& lane, std::size_t next) {
    lane.next = next;
    progress.heads[static_cast<std::size_t>(&lane - lanes.data())] = static_cast<std::uint32_t>(next);
    lane.skip = next < lane.tasks.size() && skips(lane.tasks[next]);
  }
  bool skips(LocalTask task) const {
    return options.fault_injection.skip && options.fault_injection.skip(rank, task, step);
  }

  // Ends the task of a lane if it is over.
  bool finish(LaneState& lane) {
    if (lane.state == State::idle) return false;
    const LocalTask task = lane.tasks[lane.next];
    if (lane.state == State::meeting) {
      const auto meeting = transport.joined(endpoint(task));
      if (!meeting) return false;
      begins(lane, task, meeting->together);
      if (real || transport.has_wire()) {
        end(lane, task, meeting->done);
        return true;
      }
      busy(lane, meeting->together + duration(task));
    }
    const Time now = dispatch::now();
    if (lane.state == State::beside) {
      const auto done = worker->ended(task);
      if (done) end(lane, task, std::max(*done, lane.last_start));
      return done.has_value();
    }
    if (now < lane.until) return false;
    // A send ends when its data is there, however late its sender wakes up.
    end(lane, task, acts[task.index()] == Act::send ? lane.until : now);
    return true;
  }

  // Ready heads in id order, but compute comes last, because it blocks the thread.
  LaneState* next_ready() {
    LaneState* best = nullptr;
    for (LaneState& lane : lanes) {
      if (lane.state != State::idle || lane.next == lane.tasks.size()) continue;
      if (best) {
        const bool later = real && lane.lane == Lane::compute, best_later = real && best->lane == Lane::compute;
        if (std::pair(later, lane.tasks[lane.next]) > std::pair(best_later, best->tasks[best->next])) continue;
      }
      if (ready(lane)) best = &lane;
    }
    return best;
  }

  bool ready(const LaneState& lane) {
    const LocalTask task = lane.tasks[lane.next];
    const auto before = program.dependencies[task.index()];
    if (!before.empty()) {
      const Time now = dispatch::now();
      for (LocalTask b : before)
        if (ended[b.index()] > now) return false;
    }
    if (acts[task.index()] == Act::send && lane.wire > dispatch::now()) return false;
    if (acts[task.index()] == Act::receive) return lane.skip || arrival(task).has_value();
    if (acts[task.index()] == Act::take_in) return arrival(other[task.index()]).has_value();
    return true;
  }
  std::optional<Time> arrival(LocalTask receive) {
    return transport.arrived(endpoint(receive), program.sequence[receive.index()]);
  }

  // The next instant at which something may happen without a notification.
  Time deadline() const {
    const Time now = dispatch::now();
    Time next = now + kSlice;
    for (const LaneState& lane : lanes) {
      if (lane.state == State::busy) next = std::min(next, lane.until);
      if (lane.state == State::beside) next = std::min(next, now + kGlance);
      if (lane.state != State::idle || lane.next == lane.tasks.size()) continue;
      if (lane.wire > now) next = std::min(next, lane.wire);
      for (LocalTask before : program.dependencies[lane.tasks[lane.next].index()])
        if (ended[before.index()] > now) next = std::min(next, ended[before.index()]);
    }
    return next;
  }

  // --- one task -----------------------------------------------------------------------------------------------------

  Time duration(LocalTask task) const { return options.durations[program.work[task.index()].index()]; }
  Time held(LocalTask task) const {
    return options.held.empty() ? Time{} : options.held[program.work[task.index()].index()];
  }

  void begins(LaneState& lane, LocalTask task, Time at) {
    lane.last_start = at;
    spans.start[task.index()] = at - origin;
    ++progress.moves;
  }
  void busy(LaneState& lane, Time until) {
    lane.state = State::busy;
    lane.until = until;
    waits_until(until);
  }
  void waits_until(Time until) {
    if (progress.busy_until < until.count()) progress.busy_until = until.count();
  }
  // `known`: the span ends at `at`; otherwise only the receiver knows when the task ended.
  void end(LaneState& lane, LocalTask task, Time at, bool known = true) {
    if (worker) worker->leave(task);
    ended[task.index()] = at;
    spans.end[task.index()] = known ? at - origin : kSeenByReceiver;
    lane.state = State::idle;
    --left;
    ++progress.moves;
    set_head(lane, lane.next + 1);
  }

  void start(LaneState& lane) {
    const LocalTask task = lane.tasks[lane.next];
    if (worker) worker->enter(task);
    const Time now = dispatch::now();
    switch (acts[task.index()]) {
      case Act::receive:
        return receive(lane, task, now);
      case Act::send:
        return send(lane, task, now);
      case Act::collective:
        if (lane.skip) break;
        join(lane, task);
        if (!real) waits_until(now + duration(task));  // nothing counts as a move until it is over
        lane.state = State::meeting;
        return;
      case Act::beside:
        begins(lane, task, now);
        if (lane.skip) return end(lane, task, now);
        worker->begin(task);
        lane.state = State::beside;
        return;
      case Act::take_in:
        begins(lane, task, now);
        take_in(task, lane.skip);
        return end(lane, task, dispatch::now());
      case Act::hand_out:
        begins(lane, task, now);
        return end(lane, task, hand_out(task, lane.skip));
      case Act::compute:
        begins(lane, task, now);
        if (lane.skip) return end(lane, task, now);
        if (!real && duration(task) > Time{}) return busy(lane, now + duration(task));
        if (real && std::holds_alternative<Kernel>(work(task))) {
          progress.computing = true;
          worker->perform(task);
          progress.computing = false;
          return end(lane, task, dispatch::now());
        }
        return end(lane, task, now);
    }
    begins(lane, task, now);
    end(lane, task, now);
  }

  // A receive is the instant of arrival, or `now` if its lane was not there yet.
  void receive(LaneState& lane, LocalTask task, Time now) {
    Time at = now;
    if (!lane.skip) {
      at = std::max(*arrival(task), lane.last_start);
      for (LocalTask before : program.dependencies[task.index()]) at = std::max(at, ended[before.index()]);
      if (!real && transport.has_wire()) transport.take(endpoint(task), {dummy.data(), message_bytes(task)});
    }
    begins(lane, task, at);
    end(lane, task, at);
  }

  // In real compute the staging_copy has already sent the message. In timed compute it leaves now and occupies a
  // simulated wire; on a serial lane (blocking sends) the rank stays busy for the predicted time.
  void send(LaneState& lane, LocalTask task, Time now) {
    std::optional<Transport::Posted> out;
    if (real)
      out = posted[task.index()];
    else if (!lane.skip)
      out = transport.post(endpoint(task), {dummy.data(), transport.has_wire() ? message_bytes(task) : 0},
                           duration(task));
    const Time at = std::max(real && out ? out->at : now, lane.last_start);
    begins(lane, task, at);
    if (!out) return end(lane, task, at);
    if (!real && !transport.has_wire()) lane.wire = at + held(task);
    if (!real || out->arrives) waits_until(out->arrives.value_or(at + duration(task)));
    if (!real && graph::is_serial(lane.lane)) return busy(lane, out->arrives.value_or(now + duration(task)));
    end(lane, task, std::max(at, out->arrives.value_or(at)), out->arrives.has_value());
  }

  void join(LaneState& lane, LocalTask task) {
    const auto* by = execution(graph, options, rank, task);
    if (real) {
      const auto& collective = std::get<graph::Collective>(work(task));
      return transport.join(endpoint(task), collective.kind, collective.precision, worker->operands(task), by);
    }
    const Lengths lengths = timed_lengths(graph, rank, task);
    if (!transport.has_wire()) return transport.join(endpoint(task), lengths.kind, lengths.precision, {}, by);
    const std::span<std::byte> dummies(lane.dummy);
    lane.blocks = lengths.blocks;
    transport.join(endpoint(task), lengths.kind, lengths.precision,
                   {dummies.first(lengths.in), dummies.subspan(lengths.in, lengths.out),
                    lane.blocks.empty() ? nullptr : &lane.blocks},
                   by);
  }

  // The message bytes of a staging_copy: those of its buffer, or gathered from a region of it.
  std::span<std::byte> payload(LocalTask staging_copy) {
    const auto& work = std::get<graph::StagingCopy>(this->work(staging_copy));
    const auto size = static_cast<std::size_t>(work.size.count());
    if (work.region) {
      staged.resize(size);
      return staged;
    }
    const auto bytes = worker->payload(staging_copy);
    INVARIANT(bytes.size() >= size, "a handover copies from or into a buffer that holds its message");
    return bytes.first(size);
  }
  // Returns when the copy was made: then the staging_copy ends and the send begins.
  Time hand_out(LocalTask task, bool skip) {
    const LocalTask message = other[task.index()];
    if (skip || skips(message)) return dispatch::now();
    const auto bytes = payload(task);
    if (const auto& region = std::get<graph::StagingCopy>(work(task)).region)
      gather(*region, worker->payload(task), bytes);
    posted[message.index()] = transport.post(endpoint(message), bytes, Time{});
    return posted[message.index()]->at;
  }
  // A skipped staging_copy drops its message; otherwise the next one would take it.
  void take_in(LocalTask task, bool skip) {
    const auto into = payload(task);
    std::vector<std::byte> dropped(skip ? into.size() : 0);
    transport.take(endpoint(other[task.index()]), skip ? std::span(dropped) : into);
    if (const auto& region = std::get<graph::StagingCopy>(work(task)).region; region && !skip)
      scatter(*region, into, worker->payload(task));
  }
};

RankLoop::RankLoop(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options, Transport& transport,
                   Worker* worker, Progress& progress)
    : impl_(std::make_shared<Impl>(graph, rank, options, transport, worker, progress)) {}

timeline::Spans RankLoop::iterate(int step, const std::atomic<bool>& stop) { return impl_->iterate(step, stop); }

std::string RankLoop::heads() const {
  return fmt::format("{}", fmt::join(dispatch::heads(impl_->graph, impl_->rank, positions(impl_->progress)), "\n"));
}

}  // namespace rehearsal::dispatch
