#include "gpu/copy_fabric.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::gpu {

CopyFabric::CopyFabric(const graph::TaskGraph& graph, Device& device, std::size_t depth)
    : graph_(graph), device_(device), depth_(depth), pool_(device.make_pool()), last_(device.make_stream()) {}

CopyFabric::~CopyFabric() {
  try {
    for (auto& [endpoint, inbox] : inboxes_) inbox.slots.clear(last_);
    for (auto& [group, slots] : rings_) slots.clear(last_);
  } catch (...) {  // the device's failure is reported elsewhere
  }
}

void CopyFabric::begin_iteration() {
  for (auto& [endpoint, inbox] : inboxes_) {
    inbox.slots.begin_iteration();
    inbox.messages = {};
  }
  for (auto& [group, slots] : rings_) slots.begin_iteration();
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

Slots& CopyFabric::ring_of(const Member& member) {
  const GroupId group = graph_.ranks()[member.rank.index()].attachments[member.endpoint.index()].group;
  return rings_.try_emplace(group, device_, pool_, 0).first->second;
}

// One collective among `n` members. In step s of the first round member i sends the partial sum of chunk i-1-s (mod n)
// to member i+1, which adds its own; after n-1 steps member i has the sum of chunk i. In the second round it passes on
// chunk i-s, which its neighbour lacks. Copies are queued on the sender's stream, sums on the receiver's.
class CopyFabric::Ring {
 public:
  Ring(CopyFabric& fabric, const Operation& operation, std::span<const Member> members)
      : fabric_(fabric),
        device_(fabric.device_),
        slots_(fabric.ring_of(members.front())),
        operation_(operation),
        members_(members),
        n_(members.size()) {
    const bool one_part = operation.kind == CollectiveKind::all_reduce || operation.kind == CollectiveKind::shift;
    const std::int64_t whole = one_part ? operation.part : operation.part * count();
    // In an all-reduce the last chunks may be shorter, or empty.
    chunk_ = (whole + count() - 1) / count();
    whole_ = whole;
  }

  void reduce_scatter(bool into_whole) {
    if (n_ == 1) return take_over(0, 0, into_whole);
    std::vector<Address> partial(n_, nullptr);  // of each member, after the previous step
    for (std::size_t step = 0; step + 1 < n_; ++step) {
      std::vector<Address> got(n_);
      for (std::size_t i = 0; i < n_; ++i) {
        const std::size_t chunk = (i + 2 * n_ - 1 - step) % n_, next = (i + 1) % n_;
        got[next] = slots_.acquire(bytes_of_slot(), stream(i));
        const std::byte* from = partial[i] ? partial[i] : in(i, chunk);
        move(got[next], from, chunk, i);
        if (partial[i]) slots_.release(partial[i], stream(i));
      }
      handed_on();
      for (std::size_t i = 0; i < n_; ++i) {
        const std::size_t chunk = (i + 2 * n_ - 2 - step) % n_;
        if (elements(chunk) > 0)
          device_.accumulate(operation_.precision, got[i], in(i, chunk), elements(chunk), stream(i));
      }
      partial = std::move(got);
    }
    // `out` may overlap what a neighbour still reads, so it is written only now: no member reads another's `in`.
    for (std::size_t i = 0; i < n_; ++i) {
      move(into_whole ? out(i, i) : members_[i].out, partial[i], i, i);
      slots_.release(partial[i], stream(i));
    }
  }

  void all_gather(bool own_part_in_place) {
    if (!own_part_in_place)
      for (std::size_t i = 0; i < n_; ++i) take_over(i, i, true);
    if (n_ == 1) return;
    handed_on();  // a neighbour writes into my `out` after I have read all of my `in`
    for (std::size_t step = 0; step + 1 < n_; ++step) {
      for (std::size_t i = 0; i < n_; ++i) {
        const std::size_t chunk = (i + n_ - step) % n_, next = (i + 1) % n_;
        move(out(next, chunk), out(i, chunk), chunk, i);
      }
      handed_on();
    }
  }

  // Every member writes its blocks into the others' `out`, once all of them are ready for it.
  void all_to_all() {
    all_met();
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t k = 0; k < n_; ++k) {
        const std::size_t to = (i + k) % n_;
        move(out(to, i), in(i, to), i, i);
      }
    all_met();
  }

  // Each member copies its buffer to a slot and, when the next member has done so too, into the next member's buffer.
  void shift() {
    const Bytes size(bytes(whole_));
    if (whole_ == 0) return;
    std::vector<Address> copies;
    for (std::size_t i = 0; i < n_; ++i) {
      copies.push_back(slots_.acquire(size, stream(i)));
      device_.copy(copies.back(), members_[i].in, size, Direction::within_device, stream(i));
    }
    handed_on();
    for (std::size_t i = 0; i < n_; ++i) {
      device_.copy(members_[(i + 1) % n_].out, copies[i], size, Direction::within_device, stream(i));
      slots_.release(copies[i], stream(i));
    }
    handed_on();
  }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(n_); }
  StreamId stream(std::size_t i) const { return members_[i].stream; }
  std::int64_t first(std::size_t chunk) const { return std::min(static_cast<std::int64_t>(chunk) * chunk_, whole_); }
  std::int64_t elements(std::size_t chunk) const { return first(chunk + 1) - first(chunk); }
  std::int64_t bytes(std::int64_t elements) const { return elements * bytes_per_element(operation_.precision); }
  void move(Address to, const std::byte* from, std::size_t chunk, std::size_t by) {
    if (elements(chunk) > 0)
      device_.copy(to, from, Bytes(bytes(elements(chunk))), Direction::within_device, stream(by));
  }
  Bytes bytes_of_slot() const { return Bytes(bytes(std::max<std::int64_t>(chunk_, 1))); }
  const std::byte* in(std::size_t i, std::size_t chunk) const { return members_[i].in + bytes(first(chunk)); }
  Address out(std::size_t i, std::size_t chunk) const { return members_[i].out + bytes(first(chunk)); }

  // Copies the member's own part of `in` to its place in `out`.
  void take_over(std::size_t i, std::size_t chunk, bool whole_out) {
    const Address to = whole_out ? out(i, chunk) : members_[i].out;
    const std::byte* from = operation_.kind == CollectiveKind::all_gather ? members_[i].in : in(i, chunk);
    if (to != from) move(to, from, chunk, i);
  }

  // Every member waits for what its neighbours queued: the previous one wrote what it will read, the next one has read
  // what it will write.
  void handed_on() {
    std::vector<EventId> done;
    for (std::size_t i = 0; i < n_; ++i) {
      done.push_back(fabric_.fresh_event());
      device_.record(done.back(), stream(i));
    }
    for (std::size_t i = 0; i < n_; ++i) {
      device_.wait(stream(i), done[(i + n_ - 1) % n_]);
      if (n_ > 2) device_.wait(stream(i), done[(i + 1) % n_]);
    }
  }

  // Every member waits for the work that all others have queued.
  void all_met() {
    std::vector<EventId> done;
    for (std::size_t i = 0; i < n_; ++i) {
      done.push_back(fabric_.fresh_event());
      device_.record(done.back(), stream(i));
    }
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t k = 1; k < n_; ++k) device_.wait(stream(i), done[(i + k) % n_]);
  }

  CopyFabric& fabric_;
  Device& device_;
  Slots& slots_;
  const Operation& operation_;
  std::span<const Member> members_;
  std::size_t n_;
  std::int64_t chunk_ = 0, whole_ = 0;
};

void CopyFabric::collective(const Operation& operation, std::span<const Member> members) {
  Ring ring(*this, operation, members);
  switch (operation.kind) {
    case CollectiveKind::all_reduce:
      ring.reduce_scatter(true);
      return ring.all_gather(true);
    case CollectiveKind::reduce_scatter:
      return ring.reduce_scatter(false);
    case CollectiveKind::all_gather:
      return ring.all_gather(false);
    case CollectiveKind::all_to_all:
      return ring.all_to_all();
    case CollectiveKind::shift:
      return ring.shift();
    case CollectiveKind::broadcast:
      INVARIANT(false, std::string("no graph asks for a collective ") + name(operation.kind));
  }
}

}  // namespace rehearsal::gpu
