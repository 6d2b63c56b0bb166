#include "fluid/profile.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::fluid {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000'000;  // ps

std::vector<Use> merged(std::vector<Use> uses) {
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.resource < b.resource; });
  std::size_t kept = 0;
  for (const Use& use : uses) {
    INVARIANT(use.weight >= 0 && use.hold >= 0, "a use takes and does not give");
    if (kept == 0 || uses[kept - 1].resource != use.resource) {
      uses[kept++] = use;
    } else {
      uses[kept - 1].weight += use.weight;
      uses[kept - 1].hold += use.hold;
    }
  }
  uses.resize(kept);
  return uses;
}

Profile::Moving make_ready(const Flow& flow, const Sharing& sharing) {
  INVARIANT(flow.moving >= Time{}, "a strand lasts a negative time");
  Profile::Moving ready;
  if (flow.moving == Time{}) return ready;
  INVARIANT(flow.rate > 0 && flow.rate < std::int64_t{1} << (63 - kRateBits), "rate out of range");
  ready.rate = flow.rate << kRateBits;
  ready.work = Wide{ready.rate} * flow.moving.count();
  ready.ends = flow.moving;
  ready.uses = merged(flow.uses);
  const auto holds = [](const Use& use) { return use.hold > 0; };
  if (std::any_of(ready.uses.begin(), ready.uses.end(), holds)) ready.hold_share.resize(ready.uses.size());
  for (const Use& use : ready.uses) {
    INVARIANT(use.resource < sharing.resources(), "no such resource");
    const Wide capacity = sharing.capacity(use.resource) >> kRateBits;
    INVARIANT(Wide{use.weight} * flow.rate < kLargest, "a use is out of range");
    INVARIANT(use.hold <= capacity, "holds more than there is");
    INVARIANT(use.weight == 0 || use.hold < capacity, "holds what it needs to move");
    if (use.hold == 0) continue;
    const auto place = static_cast<std::size_t>(&use - ready.uses.data());
    ready.hold_share[place] = static_cast<std::int64_t>((use.hold << kHoldShareBits) / capacity);
  }
  return ready;
}

Wide asked_by(const Profile::Moving& flow, const Use& use) {
  return Wide{use.weight} * flow.rate + (use.hold << kRateBits);
}

// weight * rate * moving / 10^12 without leaving 127 bits: weight * rate is below 2^80.
Wide units(const Profile::Moving& flow, const Use& use, std::int64_t moving) {
  const Wide per_second = Wide{use.weight} * (flow.rate >> kRateBits);
  return per_second * (moving / kSecond) + per_second * (moving % kSecond) / kSecond;
}

// By resource, in rising order: a phase uses few, and those of a large group come in that order.
template <class Value>
using ByResource = std::vector<std::pair<std::uint32_t, Value>>;

template <class Value>
Value& at(ByResource<Value>& all, std::uint32_t resource) {
  const auto place = std::lower_bound(all.begin(), all.end(), resource,
                                      [](const auto& one, std::uint32_t r) { return one.first < r; });
  if (place != all.end() && place->first == resource) return place->second;
  return all.insert(place, {resource, Value{}})->second;
}

using Asked = ByResource<Wide>;

Asked asked_by(const std::vector<Profile::Moving>& flows) {
  Asked all;
  for (const auto& flow : flows)
    for (const Use& use : flow.uses) at(all, use.resource) += asked_by(flow, use);
  return all;
}

struct Want {
  Profile::Need need;
  Profile::Total total;
};
using Wants = ByResource<Want>;

// A phase that comes `times` times, in `last` the last time.
void add_wants(Wants& wants, const Profile::Ready& phase, Wide times, std::uint32_t last, const Asked& asked) {
  for (const Profile::Moving& flow : phase.flows) {
    const auto moving = static_cast<std::int64_t>(flow.alone.empty() ? Wide{flow.ends.count()} : flow.work / flow.rate);
    for (std::size_t u = 0; u < flow.uses.size(); ++u) {
      const Use& use = flow.uses[u];
      auto& total = at(wants, use.resource).total;
      total.carried += times * units(flow, use, moving);
      if (use.hold > 0) total.held += times * (Wide{flow.hold_share[u]} * flow.ends.count());
    }
  }
  for (const auto& [resource, most] : asked) {
    auto& [need, total] = at(wants, resource);
    need.resource = total.resource = resource;
    need.last = std::max(need.last, last);
    need.most = std::max(need.most, most);
  }
}

}  // namespace

Time end_of(Wide left, Rate rate, Time now) {
  if (left <= 0) return now;
  if (rate == 0) return kNoEnd;
  const Wide wait = (left + rate - 1) / rate;
  return wait >= kNoEnd.count() - now.count() ? kNoEnd : now + Time(static_cast<std::int64_t>(wait));
}

Time lost(Rate rate, Rate full_speed, Time dt) {
  return Time(static_cast<std::int64_t>(Wide{full_speed - rate} * dt.count() / full_speed));
}

Profile::Profile(const Row& row, const Sharing& sharing) : phases_(row.phases.size()) {
  struct Turns {
    Wide times = 0;
    std::uint32_t last = 0;
  };
  std::vector<Turns> turns(row.phases.size());
  for (const auto i : row.order)
    if (const auto count = row.phases[i].count; count > 0)
      turns[i] = {turns[i].times + count, static_cast<std::uint32_t>(steps_.size())}, steps_.push_back({count, i, {}});
  Wants wants;
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    if (turns[i].times == 0) continue;
    const Phase& phase = row.phases[i];
    Ready& ready = phases_[i];
    INVARIANT(phase.trailing >= Time{}, "a phase trails a negative time");
    ready.flows.reserve(phase.flows.size());
    for (const Flow& flow : phase.flows)
      if (flow.moving != Time{}) ready.flows.push_back(make_ready(flow, sharing));
    const auto asked = asked_by(ready.flows);
    run_alone(ready, asked, sharing);
    ready.length = ready.moved + phase.trailing;
    add_wants(wants, ready, turns[i].times, turns[i].last, asked);
  }
  for (Step& step : steps_) step.start = length_, length_ += step.count * phases_[step.phase].length;
  if (!steps_.empty()) {
    const Step& last = steps_.back();
    moved_ = length_ - (phases_[last.phase].length - phases_[last.phase].moved);
    last_ = {static_cast<std::uint32_t>(steps_.size() - 1), last.count - 1};
  }
  for (const auto& [resource, want] : wants) {
    needs_.push_back(want.need);
    totals_.push_back(want.total);
  }
  std::stable_sort(needs_.begin(), needs_.end(), [](const Need& a, const Need& b) { return a.last > b.last; });
}

// When its flows end without other runs. They may contend with each other, so this is a small simulation, on the
// resources that the phase uses; most phases fit and need none.
void Profile::run_alone(Ready& phase, const Asked& asked, const Sharing& sharing) {
  for (const Moving& flow : phase.flows) phase.moved = std::max(phase.moved, flow.ends);
  const bool fits =
      std::all_of(asked.begin(), asked.end(), [&](auto& a) { return a.second <= sharing.capacity(a.first); });
  if (fits) return;

  crowds_itself_ = true;
  std::vector<std::uint32_t> resources;
  std::vector<Wide> capacities;
  for (const auto& [resource, total] : asked) {
    resources.push_back(resource);
    capacities.push_back(sharing.capacity(resource) >> kRateBits);
  }
  auto global = [&](std::uint32_t bottleneck) { return bottleneck == kNobody ? kNobody : resources[bottleneck]; };
  Sharing own(capacities);
  std::vector<std::vector<Use>> uses;
  for (Moving& flow : phase.flows) {
    uses.push_back(flow.uses);
    for (Use& use : uses.back())
      use.resource = static_cast<std::uint32_t>(std::lower_bound(resources.begin(), resources.end(), use.resource) -
                                                resources.begin());
  }
  std::map<std::uint32_t, std::size_t> running;  // demand to flow
  for (std::size_t s = 0; s < uses.size(); ++s) running[own.attach(phase.flows[s].rate, uses[s])] = s;

  std::vector<Wide> left;
  for (Moving& flow : phase.flows) left.push_back(flow.work), flow.ends = kNoEnd;
  std::map<std::uint32_t, Time> slowed;
  auto settle = [&](std::size_t s, Time now) {  // the piece that ends now
    const Moving& flow = phase.flows[s];
    if (flow.alone.empty()) return;
    const Piece& piece = flow.alone.back();
    left[s] -= Wide{piece.rate} * (now - piece.from).count();
    if (piece.bottleneck != kNobody) slowed[piece.bottleneck] += lost(piece.rate, flow.rate, now - piece.from);
  };
  for (Time now; !running.empty(); now = phase.moved) {
    for (const std::uint32_t demand : own.solve()) {
      const std::size_t s = running.at(demand);
      settle(s, now);
      phase.flows[s].alone.push_back({now, own.rate(demand), global(own.bottleneck(demand))});
      phase.flows[s].ends = end_of(left[s], own.rate(demand), now);
    }
    phase.moved = kNoEnd;
    for (const auto& [demand, s] : running) phase.moved = std::min(phase.moved, phase.flows[s].ends);
    INVARIANT(phase.moved != kNoEnd, "a phase stands still even alone");
    for (auto at = running.begin(); at != running.end();) {
      const auto [demand, s] = *at;
      if (phase.flows[s].ends != phase.moved) {
        ++at;
        continue;
      }
      settle(s, phase.moved);
      own.detach(demand);
      at = running.erase(at);
    }
  }
  for (const auto& [resource, time] : slowed) phase.slowed.push_back({resource, time});
}

Profile::Position Profile::after(Position at) const {
  if (at.repeat + 1 < steps_[at.step].count) return {at.step, at.repeat + 1};
  return {at.step + 1, 0};
}

Profile::Position Profile::at(Time elapsed) const {
  const auto next = std::upper_bound(steps_.begin(), steps_.end(), elapsed,
                                     [](Time time, const Step& step) { return time < step.start; });
  const auto step = static_cast<std::uint32_t>(next - steps_.begin() - 1);
  const Time length = phases_[steps_[step].phase].length;
  const std::uint32_t last = steps_[step].count - 1;
  if (length == Time{}) return {step, last};
  const std::int64_t repeat = (elapsed - steps_[step].start).count() / length.count();
  return {step, static_cast<std::uint32_t>(std::min<std::int64_t>(repeat, last))};
}

std::size_t Profile::remaining(std::uint32_t step) const {
  if (step == 0) return needs_.size();
  const auto end = std::partition_point(needs_.begin(), needs_.end(), [&](const Need& n) { return n.last >= step; });
  return static_cast<std::size_t>(end - needs_.begin());
}

}  // namespace rehearsal::fluid
