#include "gpu/nccl_fabric.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "collective/registry.hpp"
#include "gpu/gpu_worker.hpp"

namespace rehearsal::gpu {
namespace {

// Two arrays of an element for each member.
constexpr Bytes token_size(std::uint32_t members) { return Bytes(std::int64_t{2} * 4 * members); }

}  // namespace

CommunicatorIds make_ids(const graph::TaskGraph& graph, RankId rank, Communicators& communicators) {
  CommunicatorIds ids;
  for (const graph::EndpointKind kind : graph.program_of(graph.ranks()[rank.index()]).endpoints)
    if (kind == graph::EndpointKind::send) ids.push_back(communicators.make_id());
  for (const auto& group : graph.groups())
    if (group.members.front().rank == rank) ids.push_back(communicators.make_id());
  return ids;
}

NcclFabric::NcclFabric(const graph::TaskGraph& graph, RankId rank, Device& device, Communicators& communicators,
                       std::span<const CommunicatorIds> ids, Time patience, std::size_t depth, bool by_steps)
    : rank_(rank),
      device_(device),
      communicators_(communicators),
      by_steps_(by_steps),
      setup_(device.make_stream()),
      set_up_(device.make_event()),
      pool_(device.make_pool()),
      line_of_(graph.ranks()[rank.index()].attachments.size(), 0) {
  std::vector<std::size_t> used(ids.size());  // of the ids of each rank
  const auto next_id = [&](RankId maker) -> const std::string& { return ids[maker.index()][used[maker.index()]++]; };
  const auto join = [&](const std::string& id, Side side, graph::EndpointId endpoint, std::string what, int members,
                        int index) {
    const Traffic traffic = side == Side::member ? Traffic::collectives : Traffic::messages;
    line_of_[endpoint.index()] = lines_.size();
    try {
      lines_.push_back({side, endpoint, what, communicators.join(id, members, index, traffic, patience),
                        static_cast<std::uint32_t>(members), static_cast<std::uint32_t>(index)});
      if (side == Side::member) groups_.try_emplace(endpoint, device_, pool_);
    } catch (const MachineError& error) {
      throw MachineError(fmt::format("{} could not be made: {}", what, error.what()));
    }
  };
  for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
    const graph::Program& program = graph.program_of(graph.ranks()[r]);
    for (std::size_t e = 0; e < program.endpoints.size(); ++e) {
      if (program.endpoints[e] != graph::EndpointKind::send) continue;
      const graph::Attachment& far = graph.ranks()[r].attachments[e];
      const std::string& id = next_id(RankId(r));
      const std::string what = fmt::format("the channel from rank {} to rank {}", r, far.peer.value);
      INVARIANT(far.peer != RankId(r), "nobody sends to himself");
      if (RankId(r) == rank) join(id, Side::sends, graph::EndpointId(e), what, 2, 0);
      if (far.peer == rank) inboxes_.try_emplace(far.peer_endpoint, device, pool_, depth);
      if (far.peer == rank) join(id, Side::receives, far.peer_endpoint, what, 2, 1);
    }
  }
  for (std::size_t g = 0; g < graph.groups().size(); ++g) {
    const auto& members = graph.groups()[g].members;
    const std::string& id = next_id(members.front().rank);
    for (std::size_t i = 0; i < members.size(); ++i)
      if (members[i].rank == rank)
        join(id, Side::member, members[i].endpoint,
             fmt::format("group {} '{}' of {} ranks", g, name(graph.groups()[g].axes), members.size()),
             static_cast<int>(members.size()), static_cast<int>(i));
  }
  Bytes longest = token_size(1);
  for (const Line& line : lines_) longest = std::max(longest, token_size(line.members));
  token_ = device_.allocate(pool_, longest, setup_);
  device_.fill(token_, std::byte{0}, longest, setup_);
}

NcclFabric::~NcclFabric() {
  try {
    for (auto& [endpoint, inbox] : inboxes_) inbox.clear(setup_);
    for (auto& [endpoint, memory] : groups_) memory.buffers.clear(setup_);
    if (token_) device_.free(token_, setup_);
  } catch (...) {  // the device's failure is reported elsewhere
  }
}

void NcclFabric::connect(const std::function<void()>& check) {
  begin_connecting();
  drain(device_, setup_, set_up_, [&] {
    if (const auto why = failure()) throw MachineError(*why);
    check();
  });
}

void NcclFabric::begin_connecting() {
  for (Line& line : lines_) {
    switch (line.side) {
      case Side::sends:
        line.communicator->send(token_, Bytes(1), 1, setup_);
        break;
      case Side::receives:
        line.communicator->receive(token_, Bytes(1), 0, setup_);
        break;
      case Side::member:
        line.communicator->collective(CollectiveKind::all_reduce, Precision::fp32, token_, token_, 1, setup_);
        if (by_steps_)  // a member may send to any other
          line.communicator->collective(CollectiveKind::all_to_all, Precision::fp32, token_,
                                        token_ + token_size(line.members).count() / 2, 1, setup_);
    }
  }
}

void NcclFabric::begin_iteration() {
  for (auto& [endpoint, inbox] : inboxes_) inbox.begin_iteration();
  for (auto& [endpoint, memory] : groups_) memory.buffers.begin_iteration();
}

void NcclFabric::send(RankId, graph::EndpointId to, const std::byte* from, Bytes size, StreamId stream) {
  at(to).send(from, size, 1, stream);
}

Address NcclFabric::receive(RankId, graph::EndpointId from, Bytes size, StreamId stream) {
  const Address message = inboxes_.at(from).acquire(size, stream);
  at(from).receive(message, size, 0, stream);
  return message;
}

void NcclFabric::release(RankId, graph::EndpointId from, Address message, StreamId last_user) {
  inboxes_.at(from).release(message, last_user);
}

void NcclFabric::collective(const Operation& operation, std::span<const Member> here) {
  INVARIANT(here.size() == 1 && here.front().rank == rank_, "a process serves one rank");
  const Member& mine = here.front();
  if (operation.by) return step_by_step(operation, *operation.by, mine);
  if (!mine.blocks.empty()) {  // NCCL has no call for it: sends and receives, as its users write them
    const auto members = static_cast<std::uint32_t>(line(mine.endpoint).members);
    return step_by_step(operation, {&collective::registry().at("pairwise-all-to-all"), members}, mine);
  }
  if (operation.kind == CollectiveKind::shift && mine.in == mine.out && operation.part > 0) {
    const Bytes size(operation.part * bytes_per_element(operation.precision));
    Slots& passing = groups_.at(mine.endpoint).buffers;
    const Address arrived = passing.acquire(size, mine.stream);
    at(mine.endpoint).collective(operation.kind, operation.precision, mine.in, arrived, operation.part, mine.stream);
    device_.copy(mine.out, arrived, size, Direction::within_device, mine.stream);
    return passing.release(arrived, mine.stream);
  }
  at(mine.endpoint).collective(operation.kind, operation.precision, mine.in, mine.out, operation.part, mine.stream);
}

void NcclFabric::step_by_step(const Operation& operation, const collective::Execution& by, const Member& mine) {
  const Line& group = line(mine.endpoint);
  GroupMemory& memory = groups_.at(mine.endpoint);
  const auto& routine = memory.routines[group.index].of(by, group.index, group.members);
  StreamSteps steps(device_, memory.buffers, routine, operation, mine);
  for (std::uint32_t tick = 0; tick < steps.ticks(); ++tick) {
    const auto messages = steps.begin_tick(tick);
    communicators_.begin_group();
    for (const auto& m : messages) {
      const int peer = static_cast<int>(m.member);
      if (m.sends)
        group.communicator->send(m.at, m.size, peer, mine.stream);
      else
        group.communicator->receive(m.at, m.size, peer, mine.stream);
    }
    communicators_.end_group();
    steps.end_tick();
  }
  steps.finish();
}

std::optional<std::string> NcclFabric::failure() {
  for (const Line& line : lines_)
    if (const auto why = line.communicator->failure())
      return fmt::format("rank {}: {} failed: {}", rank_.value, line.what, *why);
  return std::nullopt;
}

void NcclFabric::abort() noexcept {
  for (const Line& line : lines_) line.communicator->abort();
}

}  // namespace rehearsal::gpu
