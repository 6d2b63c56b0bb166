// Filling in rounds, but only where something changed. Why that gives the same as filling from zero:
// `sim/design/sharing.md`. In short: below the lowest level that a change can reach, both fillings go through the same
// rounds. So rounds are taken in rising order over the resources that changed (`active`), and other demands take part
// as if they would stop where they stopped last time. When a demand stops lower than last time, the capacity that it
// leaves on its other resources can raise the demands that those had stopped: they open. When it may rise, its other
// resources become active, for they may now be full earlier. No stopped demand is touched again.
#include "fluid/sharing.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::fluid {
namespace {

Rate level_of(Wide left, Wide weight) {
  return left <= 0 ? 0 : static_cast<Rate>(std::min<Wide>(left / weight, INT64_MAX - 1));
}

}  // namespace

Sharing::Sharing(std::span<const Wide> capacities, bool whole) : resources_(capacities.size()), whole_(whole) {
  for (std::size_t r = 0; r < capacities.size(); ++r) {
    INVARIANT(capacities[r] >= 0 && capacities[r] < kLargest, "capacity out of range");
    resources_[r].capacity = capacities[r] << kRateBits;
  }
}

void Sharing::touch(std::uint32_t r) {
  if (resources_[r].touched) return;
  resources_[r].touched = true;
  touched_.push_back(r);
}

void Sharing::ask(const Demand& d, int sign) {
  for (const Use& use : d.uses) {
    Resource& r = resources_[use.resource];
    r.asked += sign * (Wide{use.weight} * d.full_speed + (use.hold << kRateBits));
    r.held += sign * (use.hold << kRateBits);
  }
}

std::uint32_t Sharing::attach(Rate full_speed, std::span<const Use> uses) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(demands_.size()));
    demands_.emplace_back();
  }
  const std::uint32_t id = free_.back();
  free_.pop_back();
  Demand& d = demands_[id];
  d.uses = uses;
  d.full_speed = full_speed;
  d.rate = 0;
  d.bottleneck = kNobody;
  d.attached = true;
  d.position.resize(uses.size());
  for (std::uint32_t place = 0; place < uses.size(); ++place) {
    std::vector<Member>& members = resources_[uses[place].resource].members;
    d.position[place] = static_cast<std::uint32_t>(members.size());
    members.push_back({id, place, uses[place].weight});
    touch(uses[place].resource);
  }
  ask(d, 1);
  fresh_.push_back(id);
  return id;
}

std::uint32_t Sharing::take_over(Rate full_speed, std::span<const Use> uses) {
  if (uses.empty()) return kNobody;
  const std::uint32_t id = std::exchange(resources_[uses.front().resource].leaving, kNobody);
  if (id == kNobody) return kNobody;
  Demand& d = demands_[id];
  if (!d.leaving || d.full_speed != full_speed || !std::equal(uses.begin(), uses.end(), d.uses.begin(), d.uses.end()))
    return kNobody;
  d.uses = uses;
  d.leaving = false;
  d.attached = true;
  ask(d, 1);
  return id;
}

void Sharing::detach(std::uint32_t id) {
  Demand& d = demands_[id];
  d.attached = false;
  d.leaving = true;
  ask(d, -1);
  leaving_.push_back(id);
  if (!d.uses.empty()) resources_[d.uses.front().resource].leaving = id;
}

void Sharing::remove_leaving() {
  for (const std::uint32_t id : leaving_) {
    Demand& d = demands_[id];
    if (!d.leaving) continue;  // another has taken over
    d.leaving = false;
    for (std::uint32_t place = 0; place < d.uses.size(); ++place) {
      Resource& r = resources_[d.uses[place].resource];
      const Member moved = r.members[d.position[place]] = r.members.back();
      r.members.pop_back();
      demands_[moved.demand].position[moved.place] = d.position[place];
      r.released = true;
      touch(d.uses[place].resource);
    }
    if (!d.uses.empty()) resources_[d.uses.front().resource].leaving = kNobody;
    free_.push_back(id);
  }
  leaving_.clear();
}

void Sharing::push(Candidate candidate) {
  candidates_.push_back(candidate);
  std::push_heap(candidates_.begin(), candidates_.end());
}

Sharing::Candidate Sharing::pop() {
  std::pop_heap(candidates_.begin(), candidates_.end());
  const Candidate top = candidates_.back();
  candidates_.pop_back();
  return top;
}

std::span<const std::uint32_t> Sharing::solve() {
  changed_.clear();
  remove_leaving();
  if (fresh_.empty() && touched_.empty()) return changed_;
  ++solve_;
  ++counts_.solves;
  reached_ = 0;
  active_.clear();
  kept_.clear();
  take_in_changes();
  while (!candidates_.empty()) {
    const Rate level = lowest_round();
    for (const std::uint32_t r : full_) {
      resources_[r].full = true;
      resources_[r].level = level;
    }
    std::sort(full_.begin(), full_.end());  // the lowest of those that stop a demand is the one that is named
    for (const std::uint32_t r : full_)
      for (const Member& m : resources_[r].members) {
        const Demand& d = demands_[m.demand];
        const bool rising = state(d) == State::open || (state(d) == State::keeps && d.rate >= level);
        if (rising && m.weight > 0) stop(m.demand, level, r);
      }
    for (const std::uint32_t demand : capped_)
      if (state(demands_[demand]) == State::open) stop(demand, level, kNobody);
  }
  for (const std::uint32_t r : active_)
    if (!resources_[r].full) resources_[r].level = kNever;
  counts_.changes += changed_.size();
  return changed_;
}

// Attached and detached demands since the last solve become open demands and active resources.
void Sharing::take_in_changes() {
  // Whether a resource is tight, and who rises, must be known before any is made active.
  for (const std::uint32_t demand : fresh_)
    if (demands_[demand].attached) set_state(demands_[demand], State::open);
  std::size_t kept = 0;
  for (const std::uint32_t r : touched_) {
    Resource& resource = resources_[r];
    const bool was_tight = resource.tight;
    resource.tight = resource.asked > resource.capacity;
    if (was_tight || resource.tight)
      touched_[kept++] = r;
    else
      resource.touched = resource.released = false;
  }
  touched_.resize(kept);
  for (const std::uint32_t demand : fresh_) {
    if (!demands_[demand].attached) continue;
    open(demand);
    for (const Use& use : demands_[demand].uses)
      if (use.hold > 0) activate(use.resource);
  }
  for (const std::uint32_t r : touched_) {
    Resource& resource = resources_[r];
    if (resource.released) release(r);
    if (!resource.tight) resource.level = kNever;
    resource.touched = resource.released = false;
  }
  fresh_.clear();
  touched_.clear();
  if (whole_)
    for (std::uint32_t demand = 0; demand < demands_.size(); ++demand)
      if (demands_[demand].attached && state(demands_[demand]) == State::keeps) open(demand);
}

// The demand may rise above the rate that it had. Fresh ones come with the state set.
void Sharing::open(std::uint32_t demand) {
  Demand& d = demands_[demand];
  ++counts_.opened;
  bool limited = false;
  set_state(d, State::open);
  for (const Use& use : d.uses)
    if (use.weight > 0 && resources_[use.resource].tight) {
      activate(use.resource);
      limited = true;
    }
  if (limited) {
    push({d.full_speed, demand, false});
  } else {
    set_state(d, State::stopped);
    record(d, demand, d.full_speed, kNobody);
  }
}

// Part of the resource has become free: demands that it had stopped may rise. One that was not full had stopped none.
void Sharing::release(std::uint32_t r) {
  const Resource& resource = resources_[r];
  if (resource.level == kNever) return;
  for (const Member& m : resource.members) {
    const Demand& d = demands_[m.demand];
    if (m.weight > 0 && state(d) == State::keeps && d.rate == resource.level && d.rate < d.full_speed) open(m.demand);
  }
  activate(r);
}

void Sharing::activate(std::uint32_t r) {
  Resource& resource = resources_[r];
  if (!resource.tight || resource.active == solve_) return;
  ++counts_.activated;
  active_.push_back(r);
  resource.active = solve_;
  resource.full = false;
  resource.left = resource.capacity - resource.held;
  resource.weight = 0;
  resource.next = kept_.size();
  for (const Member& m : resource.members) {
    if (m.weight == 0) continue;
    const Demand& d = demands_[m.demand];
    const State s = state(d);
    if (s == State::stopped || (s == State::keeps && d.rate < reached_)) {
      resource.left -= Wide{m.weight} * d.rate;
    } else {
      resource.weight += m.weight;
      if (s == State::keeps) kept_.push_back({d.rate, m.demand, m.weight});
    }
  }
  resource.end = kept_.size();
  if (resource.end - resource.next > 1)
    std::sort(kept_.begin() + static_cast<std::ptrdiff_t>(resource.next), kept_.end(),
              [](const Kept& a, const Kept& b) { return a.rate < b.rate; });
  if (resource.weight > 0) push({level_of(resource.left, resource.weight), r, true});
}

// Whether the resource is full at the candidate's level. If not, the candidate has its new level: it never falls,
// because floor(c / W) = l implies c - l V >= l (W - V).
bool Sharing::stands_at(Resource& resource, Candidate& candidate) {
  for (; resource.next != resource.end && kept_[resource.next].rate < candidate.level; ++resource.next) {
    const Kept& kept = kept_[resource.next];
    if (state(demands_[kept.demand]) != State::keeps) continue;
    resource.left -= Wide{kept.weight} * kept.rate;
    resource.weight -= kept.weight;
  }
  if (resource.weight == 0) {
    candidate.level = kNever;
    return false;
  }
  const Rate level = level_of(resource.left, resource.weight);
  if (level <= candidate.level) return true;
  candidate.level = level;
  return false;
}

// The lowest level at which anything stops, with all that stop there: resources in `full_`, demands in `capped_`.
Rate Sharing::lowest_round() {
  full_.clear();
  capped_.clear();
  Rate lowest = kNever;
  while (!candidates_.empty() && candidates_.front().level <= lowest) {
    Candidate top = pop();
    if (top.is_resource) {
      if (stands_at(resources_[top.id], top)) {
        lowest = top.level;
        full_.push_back(top.id);
      } else if (top.level != kNever) {
        push(top);
      }
    } else if (state(demands_[top.id]) == State::open) {
      lowest = top.level;
      capped_.push_back(top.id);
    }
  }
  return reached_ = lowest;
}

void Sharing::stop(std::uint32_t demand, Rate rate, std::uint32_t by) {
  Demand& d = demands_[demand];
  const Rate before = d.rate;
  // A demand that keeps its rate keeps the resource that stopped it too, which is as full as it was.
  if (state(d) == State::keeps && rate == before) by = std::min(by, d.bottleneck);
  if (rate == d.full_speed) by = kNobody;
  set_state(d, State::stopped);
  for (const Use& use : d.uses) {
    Resource& resource = resources_[use.resource];
    if (resource.active != solve_ || use.weight == 0) continue;
    resource.left -= Wide{use.weight} * rate;
    resource.weight -= use.weight;
  }
  record(d, demand, rate, by);
  if (rate >= before) return;
  for (const Use& use : d.uses) {
    const Resource& resource = resources_[use.resource];
    if (use.weight > 0 && resource.tight && !(resource.active == solve_ && resource.full)) release(use.resource);
  }
}

void Sharing::record(Demand& d, std::uint32_t demand, Rate rate, std::uint32_t bottleneck) {
  if (d.rate == rate && d.bottleneck == bottleneck) return;
  d.rate = rate;
  d.bottleneck = bottleneck;
  changed_.push_back(demand);
}

}  // namespace rehearsal::fluid
