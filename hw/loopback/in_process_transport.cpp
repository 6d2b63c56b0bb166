#include "loopback/in_process_transport.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "dispatch/routines.hpp"
#include "dispatch/steps.hpp"
#include "loopback/reduce.hpp"

namespace rehearsal::loopback {
namespace {

using dispatch::Stopped;
using graph::EndpointId;

// All threads sleep until an instant this far ahead, so that a late arrival does not start late.
const Time kLead = seconds(3e-3);

std::chrono::steady_clock::time_point on_clock(Time when) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds((when.count() + 999) / 1000));
}

}  // namespace

// Messages between the members of a group, as one of them sends and receives them.
class InProcessTransport::StepMessages : public dispatch::MemberMessages {
 public:
  StepMessages(InProcessTransport& hub, const graph::Group& group, std::size_t me, dispatch::BufferPool& pool)
      : hub_(hub), group_(group), me_(static_cast<std::uint32_t>(me)), steps_(*this, pool) {}

  dispatch::Steps& steps() { return steps_; }
  const collective::Routine& routine(const collective::Execution& execution) {
    return routines_.of(execution, me_, static_cast<std::uint32_t>(group_.members.size()));
  }

  void send(std::uint32_t to, std::uint32_t number, std::span<const std::byte> bytes, std::uint32_t id) override {
    const graph::GroupMember& member = group_.members[to];
    Mailbox& theirs = hub_.mailboxes_[member.rank.index()];
    StepMessage message{member.endpoint, me_, number, {bytes.begin(), bytes.end()}};
    {
      std::lock_guard lock(theirs.mutex);
      theirs.steps.push_back(std::move(message));
      theirs.news = true;
    }
    theirs.changed.notify_one();
    steps_.completed(id);
  }
  void receive(std::uint32_t from, std::uint32_t number, std::span<std::byte> into, std::uint32_t id) override {
    auto& come = come_[{from, number}];
    if (come.empty()) {
      expected_[{from, number}] = {into, id};
      return;
    }
    deliver(come.front(), {into, id});
    come.pop_front();
  }
  void arrived(StepMessage&& message) {
    const auto expected = expected_.find({message.from, message.number});
    if (expected == expected_.end()) {
      come_[{message.from, message.number}].push_back(std::move(message.bytes));
      return;
    }
    deliver(message.bytes, expected->second);
    expected_.erase(expected);
  }

 private:
  using Key = std::pair<std::uint32_t, std::uint32_t>;  // sender and number
  struct Expected {
    std::span<std::byte> into;
    std::uint32_t id = 0;
  };
  void deliver(const std::vector<std::byte>& bytes, const Expected& expected) {
    INVARIANT(bytes.size() == expected.into.size(), "both ends agree on the size of a step");
    std::ranges::copy(bytes, expected.into.begin());
    steps_.completed(expected.id);
  }

  InProcessTransport& hub_;
  const graph::Group& group_;
  const std::uint32_t me_;
  dispatch::Steps steps_;
  dispatch::Routines routines_;
  std::map<Key, Expected> expected_;
  std::map<Key, std::deque<std::vector<std::byte>>> come_;
};

class InProcessTransport::RankTransport : public dispatch::Transport {
 public:
  RankTransport(InProcessTransport& hub, RankId rank)
      : hub_(hub), rank_(hub.graph_.ranks()[rank.index()]), mine_(hub.mailboxes_[rank.index()]) {
    const graph::Program& program = hub.graph_.program_of(rank_);
    joined_.resize(program.endpoints.size(), 0);
    place_.resize(program.endpoints.size(), 0);
    steps_.resize(program.endpoints.size());
    done_.resize(program.endpoints.size());
    for (std::size_t e = 0; e < program.endpoints.size(); ++e) {
      if (program.endpoints[e] != graph::EndpointKind::group) continue;
      const auto& members = group(EndpointId(e)).members;
      const auto me = std::ranges::find_if(
          members, [&](const graph::GroupMember& m) { return m.rank == rank && m.endpoint == EndpointId(e); });
      INVARIANT(me != members.end(), "a rank is a member of the groups it joins");
      place_[e] = static_cast<std::size_t>(me - members.begin());
      steps_[e] = std::make_unique<StepMessages>(hub_, group(EndpointId(e)), place_[e], pool_);
    }
  }

  bool has_wire() const override { return false; }

  Posted post(EndpointId to, std::span<const std::byte> message, Time lasts) override {
    const graph::Attachment& other = rank_.attachments[to.index()];
    Mailbox& theirs = hub_.mailboxes_[other.peer.index()];
    Inbound& channel = theirs.inbound[other.peer_endpoint.index()];
    std::vector<std::byte> copy;
    if (!message.empty()) {
      {
        std::lock_guard lock(theirs.mutex);
        if (!channel.spare.empty()) {
          copy = std::move(channel.spare.back());
          channel.spare.pop_back();
        }
      }
      copy.assign(message.begin(), message.end());
    }
    const Time at = dispatch::now();
    {
      std::lock_guard lock(theirs.mutex);
      channel.messages.push_back({at + lasts, std::move(copy)});
      theirs.arrivals.push(at + lasts);
      theirs.news = true;
    }
    theirs.changed.notify_one();
    return {at, at + lasts};
  }

  std::optional<Time> arrived(EndpointId from, std::uint32_t k) override {
    std::lock_guard lock(mine_.mutex);
    const auto& messages = mine_.inbound[from.index()].messages;
    if (k >= messages.size() || messages[k].arrival > dispatch::now()) return std::nullopt;
    return messages[k].arrival;
  }

  void take(EndpointId from, std::span<std::byte> into) override {
    Inbound& channel = mine_.inbound[from.index()];
    std::unique_lock lock(mine_.mutex);
    INVARIANT(channel.taken < channel.messages.size(), "only what has arrived is taken");
    std::vector<std::byte> bytes = std::move(channel.messages[channel.taken++].bytes);
    lock.unlock();
    INVARIANT(bytes.size() == into.size(), "both ends agree on the size of a message");
    std::ranges::copy(bytes, into.begin());
    lock.lock();
    channel.spare.push_back(std::move(bytes));
  }

  void join(EndpointId endpoint, CollectiveKind kind, Precision precision, const dispatch::Operands& operands,
            const collective::Execution* by) override {
    Meetings& meetings = hub_.meetings_[rank_.attachments[endpoint.index()].group.index()];
    const auto& members = group(endpoint).members;
    INVARIANT(joined_[endpoint.index()] <= meetings.completed, "one collective of an endpoint at a time");
    ++joined_[endpoint.index()];
    StepMessages& own = *steps_[endpoint.index()];
    const bool by_steps = by && !(operands.in.empty() && operands.out.empty());
    done_[endpoint.index()].reset();
    if (by_steps) own.steps().begin(own.routine(*by), kind, precision, operands);
    {
      std::lock_guard lock(meetings.mutex);
      meetings.operands[place_[endpoint.index()]] = operands;
      if (++meetings.present < members.size()) return;
      meetings.present = 0;
      meetings.last.together = dispatch::now();
      if (!by_steps) {
        std::vector<std::span<const std::byte>> ins;
        std::vector<std::span<std::byte>> outs;
        for (const dispatch::Operands& one : meetings.operands) ins.push_back(one.in), outs.push_back(one.out);
        combine(kind, precision, ins, outs);
      }
      meetings.last.done = dispatch::now();
      ++meetings.completed;
    }
    for (const graph::GroupMember& member : members) hub_.wake(member.rank);
  }

  std::optional<Meeting> joined(EndpointId endpoint) override {
    advance_steps();
    const auto& done = done_[endpoint.index()];
    if (!done && !steps_[endpoint.index()]->steps().done()) return std::nullopt;
    const Meetings& meetings = hub_.meetings_[rank_.attachments[endpoint.index()].group.index()];
    if (meetings.completed < joined_[endpoint.index()]) return std::nullopt;
    Meeting meeting = meetings.last;
    if (done) meeting.done = std::max(meeting.together, *done);
    return meeting;
  }

  void wait(Time deadline) override {
    std::unique_lock lock(mine_.mutex);
    auto& arrivals = mine_.arrivals;
    // Messages that arrived since the caller last looked also wake it.
    if (!arrivals.empty()) deadline = std::min(deadline, arrivals.top());
    mine_.changed.wait_until(lock, on_clock(deadline), [this] { return mine_.news || hub_.stopped_; });
    mine_.news = false;
    const Time now = dispatch::now();
    while (!arrivals.empty() && arrivals.top() <= now) arrivals.pop();
  }

  Time agree_on_start() override { return hub_.start_together(); }

 private:
  const graph::Group& group(EndpointId endpoint) const {
    return hub_.graph_.groups()[rank_.attachments[endpoint.index()].group.index()];
  }

  void advance_steps() {
    std::vector<StepMessage> arrived;
    {
      std::lock_guard lock(mine_.mutex);
      arrived.swap(mine_.steps);
    }
    for (StepMessage& message : arrived) steps_[message.to.index()]->arrived(std::move(message));
    for (std::size_t e = 0; e < steps_.size(); ++e) {
      if (!steps_[e] || steps_[e]->steps().done()) continue;
      while (steps_[e]->steps().advance()) continue;
      if (steps_[e]->steps().done()) done_[e] = dispatch::now();
    }
  }

  InProcessTransport& hub_;
  const graph::Rank& rank_;
  Mailbox& mine_;
  dispatch::BufferPool pool_;
  std::vector<std::unique_ptr<StepMessages>> steps_;  // per group endpoint
  std::vector<std::optional<Time>> done_;             // per group endpoint: of the last collective by steps
  std::vector<std::uint64_t> joined_;                 // per group endpoint: collectives joined so far
  std::vector<std::size_t> place_;                    // per group endpoint: index among the members
};

InProcessTransport::InProcessTransport(const graph::TaskGraph& graph)
    : graph_(graph), mailboxes_(graph.ranks().size()), meetings_(graph.groups().size()) {
  for (std::size_t r = 0; r < mailboxes_.size(); ++r)
    mailboxes_[r].inbound.resize(graph.program_of(graph.ranks()[r]).endpoints.size());
  for (std::size_t g = 0; g < meetings_.size(); ++g) meetings_[g].operands.resize(graph.groups()[g].members.size());
  for (std::size_t r = 0; r < mailboxes_.size(); ++r)
    transports_.push_back(std::make_unique<RankTransport>(*this, RankId(r)));
}

InProcessTransport::~InProcessTransport() = default;

dispatch::Transport& InProcessTransport::transport(RankId rank) { return *transports_[rank.index()]; }

void InProcessTransport::wake(RankId rank) {
  Mailbox& mailbox = mailboxes_[rank.index()];
  {
    std::lock_guard lock(mailbox.mutex);
    mailbox.news = true;
  }
  mailbox.changed.notify_one();
}

void InProcessTransport::stop() {
  stopped_ = true;
  for (std::size_t r = 0; r < mailboxes_.size(); ++r) wake(RankId(r));
  // Holding the mutex ensures that no waiter misses the change between its test and its sleep.
  std::lock_guard lock(start_);
  started_.notify_all();
}

Time InProcessTransport::start_together() {
  std::unique_lock lock(start_);
  const std::uint64_t mine = iteration_;
  if (++ready_ == mailboxes_.size()) {
    // All ranks are here, so none is posting: leftover messages belong to the previous iteration.
    for (Mailbox& mailbox : mailboxes_) {
      std::lock_guard box(mailbox.mutex);
      for (Inbound& channel : mailbox.inbound) channel.messages.clear(), channel.taken = 0;
      mailbox.arrivals = {};
      mailbox.news = false;
    }
    ready_ = 0;
    ++iteration_;
    origin_ = dispatch::now() + kLead;
    started_.notify_all();
  }
  started_.wait(lock, [&] { return iteration_ != mine || stopped_; });
  if (stopped_) throw Stopped{};
  return origin_;
}

}  // namespace rehearsal::loopback
