// The features that a framework supports, as listed in its profile (configs/frameworks, `supports`). `rehearse plan`
// stays within them; `run` predicts any scenario.
#pragma once
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/fields.hpp"
#include "models/transformer.hpp"

namespace rehearsal::scenario {

struct Context;
struct Node;

// An empty list allows everything, as in a profile that has no `supports`.
struct Support {
  bool tensor = true, sequence = true, context = true, pipeline = true;
  std::vector<std::int64_t> zero;              // levels
  std::vector<std::int64_t> zero_in_pipeline;  // with more than one pipeline rank
  std::vector<std::string> schedules;
  std::set<models::Recompute> recompute;
  std::set<models::ContextKind> context_kinds;
  enum class State : std::uint8_t { optimizer, gradients, parameters, activations };
  std::set<State> offload;        // what may leave the device
  std::set<State> offload_alone;  // of these: with neither a pipeline nor recomputation

  bool has(models::Recompute mode) const { return recompute.empty() || recompute.count(mode) > 0; }
  bool has(models::ContextKind kind) const { return context_kinds.empty() || context_kinds.count(kind) > 0; }
  bool has(const models::Offload& states) const {
    const auto gone = off_device(states);
    return offload.empty() || std::includes(offload.begin(), offload.end(), gone.begin(), gone.end());
  }
  bool needs_alone(const models::Offload& states) const {
    const auto gone = off_device(states);
    return std::any_of(gone.begin(), gone.end(), [&](State state) { return offload_alone.count(state) > 0; });
  }
  bool has_context(models::ContextKind kind) const { return context && has(kind); }
  void add(const models::Offload& states) { offload.merge(off_device(states)); }
  bool has_schedule(const std::string& name) const { return in(schedules, name); }
  bool has_zero(std::int64_t level, bool pipeline_ranks) const {
    return in(zero, level) && (!pipeline_ranks || in(zero_in_pipeline, level));
  }

 private:
  static std::set<State> off_device(const models::Offload& states) {
    std::set<State> gone;
    if (states.optimizer != Tier::device) gone.insert(State::optimizer);
    if (states.gradients != Tier::device) gone.insert(State::gradients);
    if (states.parameters != Tier::device) gone.insert(State::parameters);
    if (states.activations != Tier::device) gone.insert(State::activations);
    return gone;
  }
  template <class T>
  static bool in(const std::vector<T>& list, const T& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  }
};
const fields::Description& support_fields();

// From the profile of this name, overridden by the scenario's `framework` (may be null).
Support load_support(Context& context, const Node* given, const std::string& name);

}  // namespace rehearsal::scenario
