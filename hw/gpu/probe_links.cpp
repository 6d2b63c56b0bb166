// Messages and collectives of a probe: NCCL with one member, and the copies that are the links of virtual stages.
#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "base/error.hpp"
#include "dispatch/probe.hpp"
#include "dispatch/zero_buffer.hpp"
#include "gpu/copy_fabric.hpp"
#include "gpu/probe_copies.hpp"

namespace rehearsal::gpu {
namespace {

constexpr std::int64_t kSmallest = 4 << 10;

}  // namespace

// Queuing an NCCL call costs the host more than a small message costs the device, so only a recording of several shows
// the device's time.
void probe_nccl(ProbeBench& bench, Communicators& communicators, const ProbeOptions& options, Probe& probe) {
  options.say("NCCL with one rank");
  const auto alone = communicators.join(communicators.make_id(), 1, 0, Traffic::collectives, options.patience);
  Device& device = bench.device();
  const StreamId stream = bench.stream(0);
  const std::int64_t half = bench.arena_size().count() / 2;
  const Address here = bench.arena(), there = bench.arena() + half;
  bench.prepare({KernelKind::copy, {half / 4}, {}, Precision::fp32}, 1);
  constexpr std::int64_t kNodes = 8;
  const auto all_reduce = [&](Address out, std::int64_t size) {
    alone->collective(CollectiveKind::all_reduce, Precision::bf16, here, out, size / 2, stream);
  };
  const auto to_itself = [&](std::int64_t size) {
    communicators.begin_group();
    alone->send(here, Bytes(size), 0, stream);
    alone->receive(there, Bytes(size), 0, stream);
    communicators.end_group();
  };
  // NCCL connects at first use, which threads of its own wait for; what is recorded must be called by this one.
  all_reduce(there, kSmallest), to_itself(kSmallest);
  bench.drain_all();
  communicators.connected();
  const auto recorded = [&](const auto& call) {
    call();  // with buffers of this size
    bench.drain_all();
    device.begin_recording(stream);
    for (std::int64_t i = 0; i < kNodes; ++i) call();
    const RecordingId calls = device.end_recording(stream);
    return divided(bench.time(1, [&](std::size_t, std::int64_t) { device.replay(calls, stream); }), kNodes);
  };
  for (std::int64_t size = kSmallest; size <= std::min(options.largest_copy.count(), half); size *= 8) {
    NcclTime times{.size = Bytes(size),
                   .out_of_place = recorded([&] { all_reduce(there, size); }),
                   .in_place = recorded([&] { all_reduce(here, size); }),
                   .to_itself = recorded([&] { to_itself(size); })};
    times.called = bench.time(1, [&](std::size_t, std::int64_t) { to_itself(size); });
    probe.nccl.push_back(times);
  }
  bench.drain_all();
  if (const auto failure = alone->failure()) throw MachineError(*failure);
}

// The second rank is a thread with a device of its own, as a second process would have.
std::optional<std::string> two_ranks_on_one_gpu(const Platform& platform, Time patience) {
  const auto first = platform.open(0);
  const auto of_first = platform.communicators(*first);
  const std::string id = of_first->make_id();
  const auto ask = [&](Communicators& communicators, int index) -> std::optional<std::string> {
    try {
      communicators.join(id, 2, index, Traffic::messages, patience);
      return std::nullopt;
    } catch (const MachineError& refusal) {
      return refusal.what();
    }
  };
  auto other = std::async(std::launch::async, [&]() -> std::optional<std::string> {
    try {
      const auto second = platform.open(0);
      return ask(*platform.communicators(*second), 1);
    } catch (const MachineError& failure) {
      return failure.what();
    }
  });
  const auto mine = ask(*of_first, 0);
  const auto theirs = other.get();
  return mine ? mine : theirs;
}

namespace {

constexpr int kRounds = 13;
const Time kCall = seconds(8e-6);         // more than the host takes to queue a call
constexpr std::int64_t kCallsOfStep = 8;  // per member, in a step of a ring (copy_fabric.cpp)

void probe_messages(ProbeBench& bench, const ProbeOptions& options, Probe& probe) {
  Device& device = bench.device();
  const std::int64_t half = bench.arena_size().count() / 2;
  const auto copy = [&](std::int64_t size) {
    device.copy(bench.arena() + half, bench.arena(), Bytes(size), Direction::within_device, bench.stream(0));
  };
  const EventId begin = device.make_event(), arrived = device.make_event(), end = device.make_event();
  for (std::int64_t size = kSmallest; size <= std::min(options.largest_copy.count(), half); size *= 4) {
    probe.device_copy.push_back({Bytes(size), bench.time(1, [&](std::size_t, std::int64_t) { copy(size); })});
    std::vector<Time> times;
    for (int round = 0; round < kRounds; ++round) {
      bench.drain_all();
      device.spin(10 * kCall, bench.stream(0));
      device.record(begin, bench.stream(0));
      copy(size);
      device.record(arrived, bench.stream(0));
      device.wait(bench.stream(1), arrived);
      device.record(end, bench.stream(1));
      bench.drain_all();
      times.push_back(device.between(begin, end));
    }
    probe.message.push_back({Bytes(size), launch_time(std::move(times))});
  }
}

void probe_rings(ProbeBench& bench, std::size_t count, const ProbeOptions& options, Probe& probe) {
  Device& device = bench.device();
  const graph::TaskGraph graph = dispatch::probe_graph(count);
  CopyFabric fabric(graph, device, dispatch::message_depth(graph));
  std::vector<Fabric::Member> members(count);
  std::vector<EventId> over;
  const EventId go = device.make_event();
  const std::int64_t share = bench.arena_size().count() / std::int64_t(2 * count) / 512 * 512;
  for (std::size_t part = 0; part < count; ++part) {
    const graph::Rank& rank = graph.ranks()[part];
    for (std::size_t e = 0; e < rank.attachments.size(); ++e)
      if (graph.program_of(rank).endpoints[e] == graph::EndpointKind::group)
        members[part].endpoint = graph::EndpointId(e);
    members[part].rank = RankId(part), members[part].stream = bench.stream(part);
    members[part].in = bench.arena() + std::int64_t(2 * part) * share;
    members[part].out = bench.arena() + std::int64_t(2 * part + 1) * share;
    over.push_back(device.make_event());
  }
  for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather})
    for (std::int64_t size = kSmallest; size <= std::min(options.largest_copy.count(), share); size *= 4) {
      const std::int64_t elements = size / bytes_per_element(Precision::fp32);
      const Fabric::Operation operation{kind, Precision::fp32,
                                        kind == CollectiveKind::all_reduce ? elements : elements / std::int64_t(count)};
      std::vector<Time> times;
      for (int round = 0; round < kRounds; ++round) {
        bench.drain_all();
        fabric.begin_iteration();
        // Spins until the host has queued the ring; otherwise a small ring would show the host's time.
        device.spin(2 * std::int64_t(count * count) * kCallsOfStep * kCall, bench.stream(0));
        device.record(go, bench.stream(0));
        for (std::size_t part = 1; part < count; ++part) device.wait(bench.stream(part), go);
        fabric.collective(operation, members);
        for (std::size_t part = 0; part < count; ++part) device.record(over[part], bench.stream(part));
        bench.drain_all();
        Time last;
        for (const EventId event : over) last = std::max(last, device.between(go, event));
        times.push_back(last);
      }
      probe.rings.push_back({count, kind, Bytes(size), launch_time(std::move(times))});
    }
}

}  // namespace

void probe_virtual_links(ProbeBench& bench, const ProbeOptions& options, Probe& probe) {
  // Fills the whole arena with numbers.
  bench.prepare({KernelKind::clear, {bench.arena_size().count() / 4}, {}, Precision::fp32}, 1);
  options.say("messages between virtual stages");
  probe_messages(bench, options, probe);
  for (std::size_t count = 2; count <= bench.parts();
       count = count < bench.parts() ? std::min(2 * count, bench.parts()) : count + 1) {
    options.say(fmt::format("rings of {} virtual stages", count));
    probe_rings(bench, count, options, probe);
  }
}

}  // namespace rehearsal::gpu
