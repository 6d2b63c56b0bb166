#include "fluid/flows.hpp"

#include <algorithm>
#include <type_traits>

#include "base/error.hpp"

namespace rehearsal::fluid {

// Profiles are moved when more are registered, never copied: attached demands keep spans of their uses.
static_assert(std::is_nothrow_move_constructible_v<Profile>);

Flows::Flows(std::span<const Wide> capacities, Method method)
    : method_(method), sharing_(capacities, method.whole), claims_(capacities.size()), accounts_(capacities.size()) {}

std::uint32_t Flows::profile(const Row& row) {
  profiles_.emplace_back(row, sharing_);
  finished_.push_back(0);
  return static_cast<std::uint32_t>(profiles_.size() - 1);
}

void Flows::start(std::uint64_t tag, std::uint32_t profile) {
  if (free_runs_.empty()) {
    free_runs_.push_back(static_cast<std::uint32_t>(runs_.size()));
    runs_.emplace_back();
  }
  const std::uint32_t id = free_runs_.back();
  free_runs_.pop_back();
  ++under_way_;
  Run& run = runs_[id];
  run.tag = tag;
  run.profile = profile;
  run.at = {};
  run.blocked = 0;
  if (profile_of(run).empty()) {
    out_.push_back({tag, Event::Kind::moved});
    finish(id);
  } else {
    enter(id);
  }
}

void Flows::at(Time time, std::uint64_t tag) {
  INVARIANT(time >= now_, "a timer in the past");
  ++under_way_;
  queue_.push(time, {tag, 0, Item::Kind::timer});
}

Time Flows::pop_instant(std::vector<Event>& events) {
  events.clear();
  while (out_.empty()) {
    settle_shares();
    if (queue_.empty()) return now_;
    batch_.clear();
    now_ = queue_.pop_instant(batch_);
    ++counts_.instants;
    for (const Item& item : batch_) handle(item);
  }
  std::sort(out_.begin(), out_.end());
  events.swap(out_);
  return now_;
}

void Flows::handle(const Item& item) {
  ++counts_.items;
  const auto id = static_cast<std::uint32_t>(item.id);
  switch (item.kind) {
    case Item::Kind::flow:
      if (strands_[id].version != item.version) {
        ++counts_.stale;
      } else if (strands_[id].ends > now_) {  // slowed down since
        strands_[id].queued = kNoEnd;
        enqueue(id);
      } else {
        end_strand(id);
      }
      break;
    case Item::Kind::coasted:
      if (runs_[id].version == item.version) end_coast(id);
      break;
    case Item::Kind::trailed:
      if (after_trailing(id)) enter(id);
      break;
    case Item::Kind::timer:
      out_.push_back({item.id, Event::Kind::timer});
      --under_way_;
      break;
  }
}

// Goes on with a run whose next phase begins now, until something takes time.
void Flows::enter(std::uint32_t run) {
  while (begin_phase(run)) {
  }
  wake_crowded();
}

// True when the next phase begins in the same instant.
bool Flows::begin_phase(std::uint32_t id) {
  if (method_.coast && coast(id)) return false;
  const Profile::Ready& phase = profile_of(runs_[id]).phase(runs_[id].at);
  for (std::uint32_t s = 0; s < phase.flows.size(); ++s) {
    Running state;
    state.left = phase.flows[s].work;
    state.began = state.since = now_;
    attach(id, s, state);
  }
  return phase.flows.empty() && after_strands(id);
}

void Flows::attach(std::uint32_t run, std::uint32_t flow, const Running& state) {
  const Profile::Moving& moving = profile_of(runs_[run]).phase(runs_[run].at).flows[flow];
  // A flow that has moved already has a rate of its own.
  const std::uint32_t heir = state.since == now_ ? sharing_.take_over(moving.rate, moving.uses) : kNobody;
  const std::uint32_t id = heir != kNobody ? heir : sharing_.attach(moving.rate, moving.uses);
  ++counts_.attached;
  ++runs_[run].running;
  if (id >= strands_.size()) strands_.resize(id + 1);
  Running& running = strands_[id];
  const std::uint32_t version = running.version;
  running = state;
  running.run = run;
  running.flow = flow;
  running.version = version;
  if (heir != kNobody) {
    running.rate = sharing_.rate(id);
    running.bottleneck = sharing_.bottleneck(id);
  }
  running.holds = !moving.hold_share.empty();
  running.queued = kNoEnd;
  running.ends = end_of(running.left, running.rate, running.since);
  enqueue(id);
  if (method_.coast)
    for (const Use& use : moving.uses)
      if (claims_.crowded(use.resource, sharing_)) crowded_.push_back(use.resource);
}

// An item that comes first stays, and will look again; one that comes later is replaced.
void Flows::enqueue(std::uint32_t flow) {
  Running& s = strands_[flow];
  if (s.ends >= s.queued) return;
  if (s.queued != kNoEnd) ++s.version;
  s.queued = s.ends;
  queue_.push(s.ends, {flow, s.version, Item::Kind::flow});
}

void Flows::settle_shares() {
  for (const std::uint32_t id : sharing_.solve()) {
    Running& s = strands_[id];
    const Rate rate = sharing_.rate(id);
    const std::uint32_t bottleneck = sharing_.bottleneck(id);
    if (s.rate == rate && s.bottleneck == bottleneck) continue;  // a run that coasted had it already
    settle(s, sharing_.full_speed(id), now_);
    s.bottleneck = bottleneck;
    if (s.rate == rate) continue;
    s.rate = rate;
    s.ends = end_of(s.left, rate, now_);
    enqueue(id);
  }
}

// Updates the remaining work to a time, and charges the time lost until then to the resource that stopped the flow.
void Flows::settle(Running& s, Rate full_speed, Time time) {
  const Time dt = time - s.since;
  if (s.bottleneck != kNobody) accounts_[s.bottleneck].slowed += lost(s.rate, full_speed, dt);
  s.left -= Wide{s.rate} * dt.count();
  s.since = time;
}

void Flows::end_strand(std::uint32_t id) {
  Running& s = strands_[id];
  settle(s, sharing_.full_speed(id), now_);
  if (s.holds) {
    const Profile::Moving& moving = moving_of(s);
    const std::int64_t longer = (now_ - s.began - moving.ends).count();
    for (std::size_t u = 0; u < moving.hold_share.size(); ++u)
      accounts_[moving.uses[u].resource].held_longer += Wide{moving.hold_share[u]} * longer;
  }
  sharing_.detach(id);
  ++s.version;
  const std::uint32_t owner = s.run;
  if (--runs_[owner].running == 0 && after_strands(owner)) enter(owner);
}

bool Flows::after_strands(std::uint32_t id) {
  const Run& run = runs_[id];
  const Profile& profile = profile_of(run);
  Time trailing;
  if (run.at == profile.last()) {
    out_.push_back({run.tag, Event::Kind::moved});
    trailing = profile.length() - profile.moved();
  } else {
    trailing = profile.phase(run.at).length - profile.phase(run.at).moved;
  }
  if (trailing == Time{}) return after_trailing(id);
  queue_.push(now_ + trailing, {id, 0, Item::Kind::trailed});
  return false;
}

bool Flows::after_trailing(std::uint32_t id) {
  Run& run = runs_[id];
  const Profile& profile = profile_of(run);
  if (run.at == profile.last()) {
    finish(id);
    return false;
  }
  run.at = profile.after(run.at);
  return true;
}

void Flows::finish(std::uint32_t id) {
  ++finished_[runs_[id].profile];
  out_.push_back({runs_[id].tag, Event::Kind::ended});
  ++runs_[id].version;
  free_runs_.push_back(id);
  --under_way_;
}

// What a run carries is known beforehand, so only runs are counted.
std::vector<Usage> Flows::usage() const {
  std::vector<Usage> all(accounts_.size());
  std::vector<Wide> held;
  for (const Account& account : accounts_) held.push_back(account.held_longer);
  for (std::size_t p = 0; p < profiles_.size(); ++p)
    for (const Profile::Total& total : profiles_[p].totals()) {
      all[total.resource].carried += total.carried * finished_[p];
      held[total.resource] += total.held * finished_[p];
    }
  for (std::uint32_t r = 0; r < all.size(); ++r) {
    Usage& usage = all[r];
    usage.slowed = accounts_[r].slowed;
    usage.held = Time(static_cast<std::int64_t>(held[r] >> kHoldShareBits));
    const double capacity = static_cast<double>(sharing_.capacity(r)) / (1 << kRateBits);
    if (now_ == Time{} || capacity == 0) continue;
    usage.busy = static_cast<double>(usage.carried) / capacity / to_seconds(now_) + usage.held / now_;
  }
  return all;
}

std::vector<Flows::Moving> Flows::moving() {
  settle_shares();
  std::vector<Moving> all;
  for (std::uint32_t id = 0; id < strands_.size(); ++id) {
    if (!sharing_.attached(id)) continue;
    const Profile::Moving& m = moving_of(strands_[id]);
    all.push_back({runs_[strands_[id].run].tag, sharing_.rate(id), m.rate, m.uses});
  }
  return all;
}

Flows::Counts Flows::counts() const {
  Counts counts = counts_;
  counts.sharing = sharing_.counts();
  return counts;
}

}  // namespace rehearsal::fluid
