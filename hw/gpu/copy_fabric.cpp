#include "gpu/copy_fabric.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "collective/registry.hpp"

namespace rehearsal::gpu {
namespace {

const char* in_a_ring(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "ring-all-reduce";
    case CollectiveKind::reduce_scatter:
      return "ring-reduce-scatter";
    case CollectiveKind::all_gather:
      return "ring-all-gather";
    case CollectiveKind::all_to_all:
      return "pairwise-all-to-all";
    case CollectiveKind::shift:
      return "neighbour-shift";
    case CollectiveKind::broadcast:
      return "chain-broadcast";
  }
  return "";
}

}  // namespace

CopyFabric::CopyFabric(const graph::TaskGraph& graph, Device& device, std::size_t depth)
    : graph_(graph), device_(device), depth_(depth), pool_(device.make_pool()), last_(device.make_stream()) {}

CopyFabric::~CopyFabric() {
  try {
    for (auto& [endpoint, inbox] : inboxes_) inbox.slots.clear(last_);
    for (auto& [group, memory] : groups_) memory.buffers.clear(last_);
  } catch (...) {  // the device's failure is reported elsewhere
  }
}

void CopyFabric::begin_iteration() {
  for (auto& [endpoint, inbox] : inboxes_) {
    inbox.slots.begin_iteration();
    inbox.messages = {};
  }
  for (auto& [group, memory] : groups_) memory.buffers.begin_iteration();
  used_events_ = 0;
}

EventId CopyFabric::fresh_event() {
  if (used_events_ == events_.size()) events_.push_back(device_.make_event());
  return events_[used_events_++];
}

CopyFabric::Inbox& CopyFabric::inbox(RankId rank, graph::EndpointId from) {
  return inboxes_.try_emplace({rank, from}, Inbox{Slots(device_, pool_, depth_)}).first->second;
}

void CopyFabric::send(RankId rank, graph::EndpointId to, const std::byte* from, Bytes size, StreamId stream) {
  const graph::Attachment& far = graph_.ranks()[rank.index()].attachments[to.index()];
  Inbox& theirs = inbox(far.peer, far.peer_endpoint);
  const Delivered message{theirs.slots.acquire(size, stream), fresh_event()};
  device_.copy(message.message, from, size, Direction::within_device, stream);
  device_.record(message.arrived, stream);
  theirs.messages.push(message);
}

Address CopyFabric::receive(RankId rank, graph::EndpointId from, Bytes, StreamId stream) {
  auto& messages = inbox(rank, from).messages;
  INVARIANT(!messages.empty(), "a receive is queued after its send");
  const Delivered message = messages.front();
  messages.pop();
  device_.wait(stream, message.arrived);
  return message.message;
}

void CopyFabric::release(RankId rank, graph::EndpointId from, Address message, StreamId last_user) {
  inbox(rank, from).slots.release(message, last_user);
}

GroupMemory& CopyFabric::memory_of(const Member& member) {
  const GroupId group = graph_.ranks()[member.rank.index()].attachments[member.endpoint.index()].group;
  return groups_.try_emplace(group, device_, pool_).first->second;
}

// A message is copied on its sender's stream once its receiver has room for it; the receiver goes on when it is there.
void CopyFabric::carry(std::span<StreamSteps> steps, std::uint32_t tick, std::span<const Member> members) {
  struct Side {
    std::vector<StreamSteps::Message> messages = {};
    EventId ready = {}, sent = {};
  };
  std::vector<Side> sides(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    sides[i].messages = steps[i].begin_tick(tick);
    device_.record(sides[i].ready = fresh_event(), members[i].stream);
  }
  std::set<std::pair<std::size_t, std::size_t>> pairs;  // sender, receiver
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const auto& message : sides[i].messages) {
      if (!message.sends) continue;
      const Side& far = sides[message.member];
      if (pairs.emplace(i, message.member).second && message.member != i) device_.wait(members[i].stream, far.ready);
      const auto to = std::ranges::find_if(
          far.messages, [&](const auto& m) { return !m.sends && m.member == i && m.number == message.number; });
      INVARIANT(to != far.messages.end(), "both ends of a message have it in the same tick");
      device_.copy(to->at, message.at, message.size, Direction::within_device, members[i].stream);
    }
    device_.record(sides[i].sent = fresh_event(), members[i].stream);
  }
  for (const auto& [from, to] : pairs)
    if (from != to) device_.wait(members[to].stream, sides[from].sent);
  for (StreamSteps& one : steps) one.end_tick();
}

void CopyFabric::collective(const Operation& operation, std::span<const Member> members) {
  const auto count = static_cast<std::uint32_t>(members.size());
  const collective::Execution by =
      operation.by ? *operation.by
                   : collective::Execution{&collective::registry().at(in_a_ring(operation.kind)), count};
  GroupMemory& memory = memory_of(members.front());
  std::vector<StreamSteps> steps;
  for (std::uint32_t i = 0; i < count; ++i)
    steps.emplace_back(device_, memory.buffers, memory.routines[i].of(by, i, count), operation, members[i]);
  std::uint32_t ticks = 0;
  for (const StreamSteps& one : steps) ticks = std::max(ticks, one.ticks());
  for (std::uint32_t tick = 0; tick < ticks; ++tick) carry(steps, tick, members);
  for (StreamSteps& one : steps) one.finish();
}

}  // namespace rehearsal::gpu
