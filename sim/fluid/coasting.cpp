// Flows: runs that coast. Their phases have no events; where a run stands is known from the time that it takes alone.
#include <algorithm>

#include "fluid/flows.hpp"

namespace rehearsal::fluid {

// Coasts from the phase that begins now to the end of the last flow, if no other run interferes.
bool Flows::coast(std::uint32_t id) {
  Run& run = runs_[id];
  const Profile& profile = profile_of(run);
  const Time origin = now_ - profile.start(run.at);
  const Time ends = origin + profile.moved();
  if (ends == now_ || !claims_.fits(profile, run.at.step, sharing_, run.blocked)) return false;
  claims_.claim(id, profile, run.at.step, run.claims);
  run.coasts = true;
  run.origin = origin;
  queue_.push(ends, {id, run.version, Item::Kind::coasted});
  ++counts_.coasted;
  return true;
}

void Flows::end_coast(std::uint32_t id) {
  Run& run = runs_[id];
  const Profile& profile = profile_of(run);
  stop_coasting(run, profile.last());
  if (profile.crowds_itself())
    for (const Profile::Slowed& slowed : profile.phase(run.at).slowed) accounts_[slowed.resource].slowed += slowed.time;
  out_.push_back({run.tag, Event::Kind::moved});
  if (profile.length() == profile.moved())
    finish(id);
  else
    queue_.push(run.origin + profile.length(), {id, 0, Item::Kind::trailed});
}

// Gives the claims back and accounts for the phases before `until`.
void Flows::stop_coasting(Run& run, Profile::Position until) {
  const Profile& profile = profile_of(run);
  claims_.release(profile, run.claims,
                  [&](std::uint32_t other) -> Reservations::Places& { return runs_[other].claims; });
  run.coasts = false;
  if (profile.crowds_itself())
    for (Profile::Position at = run.at; at.step <= until.step; at = {at.step + 1, 0}) {
      const std::uint32_t repeats = (at.step == until.step ? until.repeat : profile.count(at)) - at.repeat;
      for (const Profile::Slowed& slowed : profile.phase(at).slowed)
        accounts_[slowed.resource].slowed += slowed.time * repeats;
    }
  run.at = until;
}

void Flows::wake_crowded() {
  while (!crowded_.empty()) {
    const std::uint32_t resource = crowded_.back();
    crowded_.pop_back();
    const auto& coasters = claims_.coasters(resource);
    for (std::size_t i = coasters.size(); i-- > 0 && claims_.crowded(resource, sharing_);) {
      const std::uint32_t run = coasters[i].run;
      // A run that ends in this instant no longer takes anything.
      if (runs_[run].origin + profile_of(runs_[run]).moved() > now_) wake(run);
    }
  }
}

// From coasting to the phase where the run stands, as if it had come there phase by phase.
void Flows::wake(std::uint32_t id) {
  Run& run = runs_[id];
  const Profile& profile = profile_of(run);
  const Time elapsed = now_ - run.origin;
  stop_coasting(run, profile.at(elapsed));
  ++run.version;
  ++counts_.woken;
  const Time begun = run.origin + profile.start(run.at);
  const Profile::Ready& phase = profile.phase(run.at);
  for (std::uint32_t s = 0; s < phase.flows.size(); ++s) {
    const Profile::Moving& flow = phase.flows[s];
    const Time until = std::min(now_ - begun, flow.ends);
    Running state;
    state.left = flow.work;
    state.began = state.since = begun;
    state.rate = flow.rate;
    for (const Profile::Piece& piece : flow.alone) {
      if (piece.from >= until && piece.from != Time{}) break;
      settle(state, flow.rate, begun + piece.from);
      state.rate = piece.rate;
      state.bottleneck = piece.bottleneck;
    }
    if (flow.ends > until)
      attach(id, s, state);
    else
      settle(state, flow.rate, begun + until);
  }
  if (run.running == 0) queue_.push(begun + phase.length, {id, 0, Item::Kind::trailed});
}

}  // namespace rehearsal::fluid
