#include "mpi/mpi_transport.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>

#include "base/bf16.hpp"
#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "mpi/environment.hpp"

namespace rehearsal::mpi {
namespace {

using graph::EndpointId;
using graph::EndpointKind;

constexpr std::size_t kAhead = 2;  // posted receives per endpoint
// Short enough not to delay a message above the eager limit, long enough for a waiting rank to leave its core to
// others: 20 us cost 0.9-1.1 % of an iteration of 5 ms tasks on eight ranks and two cores.
const Time kSlice = seconds(20e-6), kLongestSlice = seconds(50e-6);
const Time kLead = seconds(3e-3);  // from the agreement to the start; multiplied by the ranks that share a core

int counted(std::size_t n, const char* what) {
  if (n > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw MachineError(fmt::format("{} of {} is beyond MPI's counts (2^31 - 1); use a smaller model", what, n));
  return static_cast<int>(n);
}

// Size of the message that a sender posts, at least one byte.
std::size_t message_bytes(const graph::TaskGraph& graph, RankId rank, LocalTask task) {
  const graph::Program& program = graph.program_of(graph.ranks()[rank.index()]);
  const auto* message = std::get_if<graph::Message>(&graph.work(program.work[task.index()]));
  return message ? static_cast<std::size_t>(std::max<std::int64_t>(message->size.count(), 1)) : 1;
}

// MPI_SUM for arrays of bf16, which MPI has no type for: added as floats, rounded once per addition. Commutative, so
// that all members compute the same bits however MPI exchanges the operands.
void add_bf16(void* in, void* into, int* length, MPI_Datatype*) {
  const auto* a = static_cast<const std::uint16_t*>(in);
  auto* b = static_cast<std::uint16_t*>(into);
  for (int i = 0; i < *length; ++i) b[i] = to_bf16(from_bf16(a[i]) + from_bf16(b[i]));
}

}  // namespace

class MpiTransport::Messages : public dispatch::MemberMessages {
 public:
  Messages(MpiTransport& transport, std::uint32_t endpoint) : transport_(transport), endpoint_(endpoint) {}

  void send(std::uint32_t to, std::uint32_t number, std::span<const std::byte> bytes, std::uint32_t id) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(bytes.data(), counted(bytes.size(), "a step"), MPI_BYTE, static_cast<int>(to), tag(number),
                    members(), &request),
          "MPI_Isend");
    transport_.add(request, {Operation::step, endpoint_, id, nullptr, 0});
  }
  void receive(std::uint32_t from, std::uint32_t number, std::span<std::byte> into, std::uint32_t id) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Irecv(into.data(), counted(into.size(), "a step"), MPI_BYTE, static_cast<int>(from), tag(number),
                    members(), &request),
          "MPI_Irecv");
    transport_.add(request, {Operation::step, endpoint_, id, nullptr, 0});
  }

 private:
  MPI_Comm members() const { return transport_.rooms_[endpoint_].members; }
  int tag(std::uint32_t number) const {
    if (std::int64_t{number} > transport_.highest_tag_)
      throw MachineError(fmt::format("a collective has more steps than MPI has tags ({}); use --collectives library",
                                     transport_.highest_tag_));
    return static_cast<int>(number);
  }

  MpiTransport& transport_;
  const std::uint32_t endpoint_;
};

MpiTransport::MpiTransport(const graph::TaskGraph& graph, RankId rank, Manner manner)
    : graph_(graph), rank_(rank), manner_(manner) {
  dispatch::wake_precisely();
  check(MPI_Comm_dup(MPI_COMM_WORLD, &messages_), "MPI_Comm_dup");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
  check(MPI_Op_create(add_bf16, 1, &add_bf16_), "MPI_Op_create");
  connect();
}

// After an error the ranks are out of step, so MPI is not called.
MpiTransport::~MpiTransport() {
  if (std::uncaught_exceptions() > 0) return;
  while (std::any_of(outboxes_.begin(), outboxes_.end(), [](const auto& outbox) { return outbox.second.busy; }))
    progress();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (active_[i].operation == Operation::receive) MPI_Cancel(&requests_[i]);
    MPI_Wait(&requests_[i], MPI_STATUS_IGNORE);
  }
  for (Room& room : rooms_)
    if (room.members != MPI_COMM_NULL) MPI_Comm_free(&room.members);
  MPI_Op_free(&add_bf16_);
  MPI_Comm_free(&control_);
  MPI_Comm_free(&messages_);
}

void MpiTransport::connect() {
  const graph::Rank& mine = graph_.ranks()[rank_.index()];
  const graph::Program& program = graph_.program_of(mine);
  inboxes_ = std::vector<Inbox>(program.endpoints.size());
  rooms_ = std::vector<Room>(program.endpoints.size());
  int* highest_tag = nullptr;
  int found = 0;
  MPI_Comm_get_attr(messages_, MPI_TAG_UB, &highest_tag, &found);
  highest_tag_ = found ? *highest_tag : 32767;  // what every MPI has

  // Group by group in graph order, so that no two ranks wait for each other in different groups.
  MPI_Group world = MPI_GROUP_NULL;
  check(MPI_Comm_group(control_, &world), "MPI_Comm_group");
  for (std::size_t g = 0; g < graph_.groups().size(); ++g) {
    const auto& members = graph_.groups()[g].members;
    const auto own = std::ranges::find(members, rank_, &graph::GroupMember::rank);
    if (own == members.end()) continue;
    std::vector<int> ranks;
    for (const graph::GroupMember& member : members) ranks.push_back(static_cast<int>(member.rank.value));
    Room& room = rooms_[own->endpoint.index()];
    MPI_Group group = MPI_GROUP_NULL;
    check(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group), "MPI_Group_incl");
    check(MPI_Comm_create_group(control_, group, 0, &room.members), "MPI_Comm_create_group");
    MPI_Group_free(&group);
    room.index = static_cast<int>(own - members.begin());
    room.size = static_cast<int>(members.size());
    room.messages = std::make_unique<Messages>(*this, own->endpoint.value);
    room.steps = std::make_unique<dispatch::Steps>(*room.messages, pool_);
  }
  MPI_Group_free(&world);

  for (std::uint32_t e = 0; e < program.endpoints.size(); ++e) {
    if (program.endpoints[e] == EndpointKind::group) continue;
    const graph::Attachment& to = mine.attachments[e];
    const bool receives = program.endpoints[e] == EndpointKind::receive;
    Inbox& inbox = inboxes_[e];
    inbox.source = static_cast<int>(to.peer.value);
    inbox.tag = static_cast<int>(receives ? to.peer_endpoint.value : e);
    if (found && inbox.tag > *highest_tag)
      throw MachineError(fmt::format("rank {} has more channels than MPI has tags ({})", rank_.value, *highest_tag));
    const graph::Program& theirs = graph_.program_of(graph_.ranks()[to.peer.index()]);
    const auto sends = receives ? theirs.endpoint_tasks[to.peer_endpoint.index()] : program.endpoint_tasks[e];
    for (LocalTask send : sends)
      inbox.longest = std::max(inbox.longest, message_bytes(graph_, receives ? to.peer : rank_, send));
    counted(inbox.longest, "a message");
    if (receives)
      while (inbox.expected < kAhead) expect(e);
  }
}

// Posts one more receive.
void MpiTransport::expect(std::uint32_t endpoint) {
  Inbox& inbox = inboxes_[endpoint];
  Arrival& arrival = inbox.arrivals.emplace_back();
  arrival.bytes = pool_.get(inbox.longest);
  ++inbox.expected;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Irecv(arrival.bytes.get(), static_cast<int>(inbox.longest), MPI_BYTE, inbox.source, inbox.tag, messages_,
                  &request),
        "MPI_Irecv");
  add(request, {Operation::receive, endpoint, inbox.taken + inbox.arrivals.size() - 1, nullptr, 0});
}

void MpiTransport::add(MPI_Request request, Active active) {
  requests_.push_back(request);
  active_.push_back(std::move(active));
}

bool MpiTransport::progress() {
  if (requests_.empty()) {
    // Sent data may still be in MPI's own queues.
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, control_, &there, MPI_STATUS_IGNORE);
    return advance_steps();
  }
  const int n = static_cast<int>(requests_.size());
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int done = 0;
  check(MPI_Testsome(n, requests_.data(), &done, indices_.data(), statuses_.data()), "MPI_Testsome");
  if (done <= 0) return advance_steps();
  const Time at = dispatch::now();
  // Remove them from the list first: a completion may start a new request.
  std::vector<std::pair<Active, int>> completed;
  for (int i = 0; i < done; ++i) {
    int length = 0;
    MPI_Get_count(&statuses_[static_cast<std::size_t>(i)], MPI_BYTE, &length);
    completed.emplace_back(std::move(active_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])]), length);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    if (kept != i) requests_[kept] = requests_[i], active_[kept] = std::move(active_[i]);
    ++kept;
  }
  requests_.resize(kept);
  active_.resize(kept);
  for (auto& [active, length] : completed) complete(active, length, at);
  advance_steps();
  return true;
}

// One addition of each collective, so that messages keep moving between them.
bool MpiTransport::advance_steps() {
  bool moved = false;
  std::erase_if(stepping_, [&](std::uint32_t endpoint) {
    Room& room = rooms_[endpoint];
    moved |= room.steps->advance();
    if (!room.steps->done()) return false;
    room.done = dispatch::now();
    changed_ = true;
    return true;
  });
  return moved;
}

void MpiTransport::complete(Active& active, int length, Time at) {
  changed_ |= active.operation != Operation::step;
  switch (active.operation) {
    case Operation::step:
      return rooms_[active.endpoint].steps->completed(static_cast<std::uint32_t>(active.number));
    case Operation::send: {
      pool_.put(active.size, std::move(active.bytes));
      auto& outbox = outboxes_[inboxes_[active.endpoint].source];
      outbox.busy = false;
      return send_next(outbox);
    }
    case Operation::receive: {
      Inbox& inbox = inboxes_[active.endpoint];
      Arrival& arrival = inbox.arrivals[active.number - inbox.taken];
      arrival.at = at;
      arrival.length = static_cast<std::size_t>(length);
      --inbox.expected;
      return expect(active.endpoint);
    }
    case Operation::collective: {
      Room& room = rooms_[active.endpoint];
      if (--room.pending > 0) return;
      if (room.scratch) {
        std::memcpy(room.out.data(), room.scratch.get(), room.out.size());
        pool_.put(room.scratch_size, std::move(room.scratch));
      }
      room.done = dispatch::now();
      return;
    }
  }
}

dispatch::Transport::Posted MpiTransport::post(EndpointId to, std::span<const std::byte> message, Time) {
  counted(message.size(), "a message");
  Active active{Operation::send, to.value, 0, pool_.get(message.size()), message.size()};
  std::memcpy(active.bytes.get(), message.data(), message.size());
  const Time at = dispatch::now();
  auto& outbox = outboxes_[inboxes_[to.index()].source];
  outbox.waiting.push_back(std::move(active));
  if (!outbox.busy) send_next(outbox);
  return {at, std::nullopt};
}

void MpiTransport::send_next(Outbox& outbox) {
  for (int done = 1; done && !outbox.waiting.empty();) {
    Active active = std::move(outbox.waiting.front());
    outbox.waiting.pop_front();
    const Inbox& far = inboxes_[active.endpoint];
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(active.bytes.get(), static_cast<int>(active.size), MPI_BYTE, far.source, far.tag, messages_,
                    &request),
          "MPI_Isend");
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done)
      pool_.put(active.size, std::move(active.bytes));
    else
      add(request, std::move(active)), outbox.busy = true;
  }
}

std::optional<Time> MpiTransport::arrived(EndpointId from, std::uint32_t k) {
  Inbox& inbox = inboxes_[from.index()];
  INVARIANT(k >= inbox.first, "messages are looked at before they are taken");
  auto known = [&]() -> std::optional<Time> {
    const std::size_t i = k - inbox.first;
    return i < inbox.arrivals.size() ? inbox.arrivals[i].at : std::nullopt;
  };
  if (!known()) progress();
  return known();
}

void MpiTransport::take(EndpointId from, std::span<std::byte> into) {
  Inbox& inbox = inboxes_[from.index()];
  INVARIANT(!inbox.arrivals.empty() && inbox.arrivals.front().at, "a message is taken after it arrived");
  Arrival& arrival = inbox.arrivals.front();
  INVARIANT(arrival.length == into.size(),
            fmt::format("a message of {} bytes into {} bytes", arrival.length, into.size()));
  std::memcpy(into.data(), arrival.bytes.get(), into.size());
  pool_.put(inbox.longest, std::move(arrival.bytes));
  inbox.arrivals.pop_front();
  ++inbox.taken;
  ++inbox.first;
}

void MpiTransport::join(EndpointId group, CollectiveKind kind, Precision precision, const dispatch::Operands& operands,
                        const collective::Execution* by) {
  Room& room = rooms_[group.index()];
  INVARIANT(!room.joined, "one collective of an endpoint at a time");
  INVARIANT(precision == Precision::fp32 || precision == Precision::bf16, "sums are of fp32 or of bf16");
  room.joined = true;
  room.done.reset();
  room.meeting.together = dispatch::now();
  if (!by) return call_library(room, group.value, kind, precision, operands);
  room.steps->begin(
      room.routines.of(*by, static_cast<std::uint32_t>(room.index), static_cast<std::uint32_t>(room.size)), kind,
      precision, operands);
  stepping_.push_back(group.value);
  advance_steps();
}

MpiTransport::Counts MpiTransport::counts(std::span<const std::size_t> blocks, std::size_t width) {
  Counts all;
  std::size_t start = 0;
  for (const std::size_t block : blocks) {
    all.starts.push_back(counted(start, "a collective")), all.sizes.push_back(counted(block / width, "a collective"));
    start += block / width;
  }
  return all;
}

void MpiTransport::call_library(Room& room, std::uint32_t endpoint, CollectiveKind kind, Precision precision,
                                const dispatch::Operands& operands) {
  const auto& [in, out, blocks] = operands;
  const bool wide = precision == Precision::fp32;
  const MPI_Datatype type = wide ? MPI_FLOAT : MPI_UINT16_T;
  const MPI_Op add_up = wide ? MPI_SUM : add_bf16_;
  const auto width = static_cast<std::size_t>(bytes_per_element(precision));
  room.pending = 1;
  const int sent = counted(in.size() / width, "a collective"), received = counted(out.size() / width, "a collective");
  const auto part = [&](auto whole, std::size_t size) {
    return whole.data() + static_cast<std::size_t>(room.index) * size;
  };
  MPI_Request request = MPI_REQUEST_NULL;
  switch (kind) {
    case CollectiveKind::all_reduce: {
      INVARIANT(in.size() == out.size(), "an all-reduce keeps its length");
      const void* from = in.data() == out.data() ? MPI_IN_PLACE : in.data();
      check(MPI_Iallreduce(from, out.data(), sent, type, add_up, room.members, &request), "MPI_Iallreduce");
      break;
    }
    case CollectiveKind::all_gather: {
      INVARIANT(in.size() * static_cast<std::size_t>(room.size) == out.size(), "an all-gather has one part per member");
      const void* from = in.data() == part(out, in.size()) ? MPI_IN_PLACE : in.data();
      check(MPI_Iallgather(from, sent, type, out.data(), sent, type, room.members, &request), "MPI_Iallgather");
      break;
    }
    case CollectiveKind::reduce_scatter: {
      INVARIANT(out.size() * static_cast<std::size_t>(room.size) == in.size(),
                "a reduce-scatter has one part per member");
      std::byte* to = out.data();
      if (to == part(in, out.size())) {  // in-place operands differ from MPI's, so use a buffer of ours
        room.out = out;
        room.scratch_size = out.size();
        room.scratch = pool_.get(room.scratch_size);
        to = room.scratch.get();
      }
      check(MPI_Ireduce_scatter_block(in.data(), to, received, type, add_up, room.members, &request),
            "MPI_Ireduce_scatter_block");
      break;
    }
    case CollectiveKind::all_to_all: {
      if (blocks) {
        room.to = counts(blocks->to, width), room.from = counts(blocks->from, width);
        check(MPI_Ialltoallv(in.data(), room.to.sizes.data(), room.to.starts.data(), type, out.data(),
                             room.from.sizes.data(), room.from.starts.data(), type, room.members, &request),
              "MPI_Ialltoallv");
        break;
      }
      INVARIANT(in.size() == out.size() && in.data() != out.data() && sent % room.size == 0,
                "blocks of an all-to-all are equal, and go from one buffer into another");
      const int block = sent / room.size;
      check(MPI_Ialltoall(in.data(), block, type, out.data(), block, type, room.members, &request), "MPI_Ialltoall");
      break;
    }
    case CollectiveKind::shift: {  // in place needs a buffer of ours
      INVARIANT(in.size() == out.size(), "a shift keeps its length");
      room.out = out;
      room.scratch_size = out.size();
      room.scratch = pool_.get(room.scratch_size);
      const int next = (room.index + 1) % room.size, before = (room.index + room.size - 1) % room.size;
      check(MPI_Irecv(room.scratch.get(), received, type, before, 0, room.members, &request), "MPI_Irecv");
      room.pending = 2;
      add(request, {Operation::collective, endpoint, 0, nullptr, 0});
      check(MPI_Isend(in.data(), sent, type, next, 0, room.members, &request), "MPI_Isend");
      break;
    }
    case CollectiveKind::broadcast:
      INVARIANT(in.size() == out.size(), "a broadcast keeps its length");
      if (room.index == 0 && in.data() != out.data()) std::memcpy(out.data(), in.data(), in.size());
      check(MPI_Ibcast(out.data(), sent, type, 0, room.members, &request), "MPI_Ibcast");
      break;
  }
  add(request, {Operation::collective, endpoint, 0, nullptr, 0});
}

std::optional<dispatch::Transport::Meeting> MpiTransport::joined(EndpointId group) {
  Room& room = rooms_[group.index()];
  INVARIANT(room.joined, "nobody waits for a collective that was not joined");
  if (!room.done) progress();
  if (!room.done) return std::nullopt;
  room.joined = false;
  room.meeting.done = *room.done;
  return room.meeting;
}

// Looks less and less often: sixteen ranks that look every 20 us keep two cores busy with looking. A message is late by
// a thirtieth of the wait for it, and by no more than the ranks of a core can look in turn.
void MpiTransport::pause(Time deadline, Time since) const {
  if (manner_.spin) return void(sched_yield());
  const Time now = dispatch::now();
  const Time slice = std::clamp(Time((now - since).count() / 16), kSlice, manner_.ranks_per_core * kLongestSlice);
  dispatch::sleep_until(std::min(deadline, now + slice));
}

void MpiTransport::wait(Time deadline) {
  Time since = dispatch::now();
  for (bool moved = progress(); !changed_ && dispatch::now() < deadline; moved = progress()) {
    if (moved)
      since = dispatch::now();
    else
      pause(deadline, since);
  }
  changed_ = false;
}

void MpiTransport::finish(MPI_Request& request) {
  const Time since = dispatch::now();
  for (int done = 0; !done;) {
    if (manner_.stop && *manner_.stop) throw dispatch::Stopped{};
    progress();
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done) pause(dispatch::now() + seconds(1), since);
  }
}

Time MpiTransport::agree_on_start() {
  // Messages not taken (fault injection skipped a receive) belong to the previous iteration; those of the next one
  // cannot arrive before this rank has joined the barrier.
  for (Inbox& inbox : inboxes_) {
    while (!inbox.arrivals.empty() && inbox.arrivals.front().at) {
      pool_.put(inbox.longest, std::move(inbox.arrivals.front().bytes));
      inbox.arrivals.pop_front();
      ++inbox.taken;
    }
    inbox.first = 0;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(control_, &request), "MPI_Ibarrier");
  finish(request);
  const std::int64_t turns = manner_.ranks_per_core;
  std::int64_t start = (dispatch::now() - manner_.clock.offset + turns * kLead).count();
  check(MPI_Ibcast(&start, 1, MPI_INT64_T, 0, control_, &request), "MPI_Ibcast");
  finish(request);
  return Time(start) + manner_.clock.offset;
}

}  // namespace rehearsal::mpi
