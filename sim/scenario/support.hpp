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
  std::set<State> offload;  // what may leave the device

  bool has(models::Recompute mode) const { return recompute.empty() || recompute.count(mode) > 0; }
  bool has(models::ContextKind kind) const { return context_kinds.empty() || context_kinds.count(kind) > 0; }
  bool has(const models::Offload& states) const {
    const auto may = [&](Tier tier, State state) {
      return tier == Tier::device || offload.empty() || offload.count(state) > 0;
    };
    return may(states.optimizer, State::optimizer) && may(states.gradients, State::gradients) &&
           may(states.parameters, State::parameters) && may(states.activations, State::activations);
  }
  bool has_schedule(const std::string& name) const { return in(schedules, name); }
  bool has_zero(std::int64_t level, bool pipeline_ranks) const {
    return in(zero, level) && (!pipeline_ranks || in(zero_in_pipeline, level));
  }

 private:
  template <class T>
  static bool in(const std::vector<T>& list, const T& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  }
};
const fields::Description& support_fields();

// From the profile of this name, overridden by the scenario's `framework` (may be null).
Support load_support(Context& context, const Node* given, const std::string& name);

}  // namespace rehearsal::scenario
