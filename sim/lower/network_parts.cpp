#include "lower/network_parts.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"

namespace rehearsal::lower {
namespace {

using graph::Pass;
using models::NetworkPart;
using models::NetworkStep;
using models::Operand;
using Value = std::uint16_t;

bool is_value(const Operand& operand) { return operand.of == Operand::Of::value; }

// The steps of the forward that must run again to bring back what `needed` names, in order: backwards from the last
// one, a step stays if it writes something needed, and then needs what it reads. So a full recomputation stops before
// the last linear layer, whose output nobody reads.
std::vector<NetworkStep> repeated(const NetworkPart& part, const std::vector<NetworkStep>& candidates,
                                  std::set<Value> needed) {
  std::vector<NetworkStep> result;
  for (auto step = candidates.rbegin(); step != candidates.rend(); ++step) {
    const bool wanted = std::any_of(step->operands.begin(), step->operands.end(), [&](const Operand& o) {
      return is_value(o) && o.written && needed.contains(o.index);
    });
    if (!wanted) continue;
    for (const Operand& o : step->operands)
      if (is_value(o) && !o.written && o.index != part.input) needed.insert(o.index);
    result.push_back(*step);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

std::set<Value> values_of(const std::vector<NetworkStep>& steps, bool written_only) {
  std::set<Value> result;
  for (const auto& step : steps)
    for (const Operand& o : step.operands)
      if (is_value(o) && (!written_only || o.written)) result.insert(o.index);
  return result;
}

class Lives {
 public:
  Lives(const NetworkPart& part, const GroupShape& tensor_group, graph::GraphBuilder& builder)
      : part_(part), tensor_group_(tensor_group), builder_(builder) {}

  std::vector<PerformedStep> intern(const std::vector<NetworkStep>& steps, Pass pass) const {
    std::vector<PerformedStep> result;
    for (const auto& step : steps) {
      const auto* collective = std::get_if<models::TensorCollective>(&step.what);
      const graph::Work work = collective ? graph::Work(graph::Collective{collective->kind, collective->size,
                                                                          tensor_group_, 1, collective->precision})
                                          : graph::Work(placed(step));
      result.push_back({builder_.intern(work), pass, collective != nullptr, step.operands, {}, {}});
    }
    return result;
  }

  // Marks birth at the first and death at the last step of `sequence` that uses each value of `values`.
  void live(const std::vector<PerformedStep*>& sequence, const std::set<Value>& values) const {
    for (const Value v : values) {
      const auto uses = [&](const PerformedStep* step) {
        return std::any_of(step->operands.begin(), step->operands.end(),
                           [&](const Operand& o) { return is_value(o) && o.index == v; });
      };
      const auto first = std::find_if(sequence.begin(), sequence.end(), uses);
      if (first == sequence.end()) continue;
      const auto last = std::find_if(sequence.rbegin(), sequence.rend(), uses);
      if (v != part_.input && v != part_.output_gradient) (*first)->allocates.push_back(v);
      if (v != part_.output && v != part_.input_gradient) (*last)->frees.push_back(v);
    }
  }

 private:
  // The kernel with the offsets of its parameters and gradients in their segments.
  Kernel placed(const NetworkStep& step) const {
    Kernel kernel = std::get<Kernel>(step.what);
    INVARIANT(step.operands.size() <= kernel.offsets.size(), "a kernel has at most six operands");
    for (std::size_t i = 0; i < step.operands.size(); i++) {
      const Operand& o = step.operands[i];
      if (o.of == Operand::Of::parameter || o.of == Operand::Of::gradient)
        kernel.offsets[i] = place_of(part_, o.index).offset;
    }
    return kernel;
  }

  const NetworkPart& part_;
  const GroupShape& tensor_group_;
  graph::GraphBuilder& builder_;
};

}  // namespace

Place place_of(const NetworkPart& part, std::uint16_t tensor) {
  std::size_t first = 0;
  for (std::size_t s = 0; s < part.segments.size(); s++) {
    const auto& tensors = part.segments[s].tensors;
    if (tensor < first + tensors.size()) return {s, tensors[tensor - first].offset};
    first += tensors.size();
  }
  INVARIANT(false, "no such tensor");
  return {};
}

PerformedPart performed_part(const NetworkPart& part, models::Recompute recompute, const GroupShape& tensor_group,
                             graph::GraphBuilder& builder) {
  std::vector<NetworkStep> candidates;
  for (const auto& step : part.forward)
    if (recompute == models::Recompute::full || (recompute == models::Recompute::selective && step.selective))
      candidates.push_back(step);
  auto in_backward = values_of(part.input_gradient_steps, false);
  in_backward.merge(values_of(part.weight_gradient_steps, false));
  const auto again = repeated(part, candidates, in_backward);

  PerformedPart result;
  result.part = &part;
  const Lives lives(part, tensor_group, builder);
  result.forward = lives.intern(part.forward, Pass::forward);
  result.input_gradient = lives.intern(again, Pass::recompute);
  const auto own = lives.intern(part.input_gradient_steps, Pass::input_gradient);
  result.input_gradient.insert(result.input_gradient.end(), own.begin(), own.end());
  result.weight_gradient = lives.intern(part.weight_gradient_steps, Pass::weight_gradient);

  std::vector<PerformedStep*> forward, backward, all;
  for (auto& step : result.forward) forward.push_back(&step);
  for (auto* steps : {&result.input_gradient, &result.weight_gradient})
    for (auto& step : *steps) backward.push_back(&step);
  all = forward;
  all.insert(all.end(), backward.begin(), backward.end());

  // What candidates write lives twice, or in the forward only when nobody needs it again.
  auto twice = values_of(candidates, true);
  std::set<Value> once;
  for (std::size_t v = 0; v < part.values.size(); v++)
    if (!twice.contains(static_cast<Value>(v))) once.insert(static_cast<Value>(v));
  if (part.output && twice.erase(*part.output)) once.insert(*part.output);
  lives.live(all, once);
  lives.live(forward, twice);
  lives.live(backward, twice);

  // Levels between the passes: what has been born (or came in) and has not died.
  std::set<Value> alive;
  const auto run = [&](const std::vector<PerformedStep>& steps) {
    for (const auto& step : steps) {
      alive.insert(step.allocates.begin(), step.allocates.end());
      for (const Value v : step.frees) alive.erase(v);
    }
    Bytes level;
    for (const Value v : alive)
      if (v != part.output && v != part.input_gradient) level += part.values[v];
    return level;
  };
  if (part.input) alive.insert(*part.input);
  result.kept = run(result.forward);
  if (part.output_gradient) alive.insert(*part.output_gradient);
  result.weight_hold = run(result.input_gradient);
  return result;
}

}  // namespace rehearsal::lower
