// Rewrites of the step lists of a part: pieces of GEMMs beside their collectives, weight gradients in the backward,
// recomputed steps.
#include <algorithm>
#include <utility>

#include "models/framework.hpp"
#include "models/framework_rewrite.hpp"

namespace rehearsal::models {
namespace {

const GroupCollective* collective(const std::vector<Step>& list, std::size_t i, CollectiveKind kind) {
  const auto* c = i < list.size() ? std::get_if<GroupCollective>(&list[i].what) : nullptr;
  return c && c->kind == kind ? c : nullptr;
}

std::vector<Operand> both(const std::vector<Operand>& a, const std::vector<Operand>& b) {
  auto all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// --- selective recomputation by operator

// torchtitan's selection (models/README.md, section 2): attention, reduce-scatters and every first of two GEMMs are
// kept. With separate projections the GEMMs are q, k, v, out, gate, up, down.
struct ByOperator {
  Part& part;
  const Block& block;
  const FrameworkRun& run;
  const Modules& modules;
  std::int64_t gemms = 0;
  std::vector<Step> again = {};
  std::vector<std::uint16_t> kept = {};  // what steps that are not repeated have made

  void keep(const Step& step) {
    for (const Operand& o : step.operands)
      if (o.written) kept.push_back(o.index), part.values[o.index].stays = true;
  }
  void stay(const Step& step) {
    for (const Operand& o : step.operands)
      if (o.written) part.values[o.index].stays = true;
  }
  void linear(const Step& step, const Gemm& product) {
    std::vector<Operand> made;
    for (const Operand& o : step.operands)
      if (o.written && o.index != part.output) made.push_back(o);
    static constexpr std::string_view kSeparate[] = {"query", "key", "value"}, kGated[] = {"gate", "mlp up"};
    const auto* projections = made.size() == 3 ? kSeparate : kGated;
    for (std::size_t i = 0; i < made.size(); ++i) {
      Step own = step;
      auto columns = product;
      if (made.size() > 1) {
        own.name = projections[i];
        columns.n = block.values[made[i].index].columns;
        own.operands = {step.operands.front(), made[i]};
      }
      own.what = columns;
      if (++gemms % 2 == 0)
        again.push_back(std::move(own));
      else
        keep(own);
    }
  }

  std::vector<Step> steps() && {
    for (std::size_t i = 0; i < part.forward.size(); ++i) {
      const auto& step = part.forward[i];
      const auto* gemm = std::get_if<Gemm>(&step.what);
      const auto* collective = std::get_if<GroupCollective>(&step.what);
      const bool scatters = collective && collective->kind == CollectiveKind::reduce_scatter;
      if (run.shard.context > 1 && modules[i] == RecomputeModule::core_attn)  // kernels, and what travels between them
        stay(step);
      else if (gemm && gemm->batch == 1)
        linear(step, *gemm);
      else if (scatters || std::holds_alternative<FusedAttention>(step.what))
        keep(step);
      else
        again.push_back(step);
    }
    // A compiler drops steps that only a kept result needs. Otherwise a step that is not repeated returns what it has
    // kept, needed or not.
    auto needed = needed_again(part, again);
    if (run.compiled()) return needed;
    if (run.framework.early_stop) {
      while (!again.empty() && (needed.empty() || again.back().name != needed.back().name ||
                                again.back().operands.back().index != needed.back().operands.back().index))
        again.pop_back();
    }
    if (!again.empty())
      for (const auto v : kept)
        if (v != part.output) again.back().operands.push_back({Operand::Of::value, v, false});
    return std::move(again);
  }
};

}  // namespace

void pipeline(std::vector<Step>& list, const FrameworkRun& run) {
  if (!run.framework.async_tensor || !run.scattered()) return;
  const std::int64_t t = run.shard.tensor;
  const auto joined = [&](const Step& gemm, const Step& collective) {
    auto piece = std::get<Gemm>(gemm.what);
    piece.m /= t;
    return Step{gemm.name, OverlappedKernel{piece, t, std::get<GroupCollective>(collective.what)}, {}};
  };
  std::vector<Step> result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    // The gradient of an input that several GEMMs share is their sum, so there is no single GEMM to be split.
    const bool sum = run.framework.separate_projections &&
                     (list[i].name == "qkv gradient" ||
                      (list[i].name == "mlp up gradient" && run.model.ffn_kind == FfnKind::swiglu));
    const bool gemm = std::holds_alternative<Gemm>(list[i].what) && !sum;
    if (list[i].of_shared_experts) {  // not overlapped: their layers have it switched off
      result.push_back(list[i]);
    } else if (collective(list, i, CollectiveKind::all_gather) && i + 1 < list.size() &&
               std::holds_alternative<Gemm>(list[i + 1].what)) {
      result.push_back(joined(list[i + 1], list[i]));
      result.back().operands = both(list[i].operands, list[i + 1].operands);
      ++i;
    } else if (gemm && collective(list, i + 1, CollectiveKind::reduce_scatter)) {
      result.push_back(joined(list[i], list[i + 1]));
      result.back().operands = list[i].operands;
      const auto size = std::get<GroupCollective>(list[i + 1].what).size;  // t parts read, their sum written
      const double added = double(size.count()) / double(t) * double(t + 1);
      result.push_back({kSumOfParts, MemoryBound{bytes(added), 1, Traffic::plain}, list[i + 1].operands});
      ++i;
    } else {
      result.push_back(list[i]);
    }
  }
  list = std::move(result);
}

void hide_exchanges(std::vector<Step>& list, const FrameworkRun& run) {
  if (!run.framework.expert_overlap) return;
  struct Stretch {
    std::size_t first, steps;
    double flops;
  };
  const auto flops = [](const Step& step) {
    if (const auto* gemm = std::get_if<Gemm>(&step.what)) return gemm->flops().value();
    const auto* attention = std::get_if<FusedAttention>(&step.what);
    return attention ? attention->flops().value() : 0.;
  };
  std::vector<TokenDispatch> exchanges;
  std::vector<Stretch> stretches{{0, 0, 0}};
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto& stretch = stretches.back();
    if (const auto* exchange = std::get_if<TokenDispatch>(&list[i].what)) {
      exchanges.push_back(*exchange);
      list[i].what = MemoryBound{Bytes{}, 0, Traffic::plain};  // its values are there all the same
      stretches.push_back({i + 1, 0, 0});
    } else {
      ++stretch.steps, stretch.flops += flops(list[i]);
    }
  }
  // The largest, in their order.
  while (stretches.size() > exchanges.size())
    stretches.erase(std::min_element(stretches.begin(), stretches.end(),
                                     [](const Stretch& a, const Stretch& b) { return a.flops < b.flops; }));
  for (std::size_t e = 0; e < stretches.size(); ++e) {
    list[stretches[e].first].beside = exchanges[e];
    list[stretches[e].first].beside_steps = stretches[e].steps;
  }
}

void hide_under_shared_experts(std::vector<Step>& list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto* exchange = std::get_if<TokenDispatch>(&list[i].what);
    const auto first = i + 1;
    std::size_t steps = 0;
    while (exchange && first + steps < list.size() && list[first + steps].of_shared_experts) ++steps;
    if (steps == 0) continue;
    list[first].beside = *exchange, list[first].beside_steps = steps;
    list[i].what = MemoryBound{Bytes{}, 0, Traffic::plain};
    auto& last = list[i + steps].operands;  // its operands stay until it has arrived
    last.insert(last.end(), list[i].operands.begin(), list[i].operands.end());
  }
}

// The tensor group's reduction of the gradient of a GEMM's input runs beside the gradient of its weights (Megatron-LM's
// LinearWithGradAccumulationAndAsyncCommunication; Transformer Engine's bulk overlap).
std::vector<Step> joined_backward(const std::vector<Step>& input_gradient, const std::vector<WeightGradient>& weights,
                                  const FrameworkRun& run) {
  std::vector<Step> all;
  auto next = weights.begin();
  for (std::size_t i = 0; i < input_gradient.size(); ++i) {
    const auto& step = input_gradient[i];
    all.push_back(step);
    if (next == weights.end() || step.name != next->follows) continue;
    const auto* after =
        i + 1 < input_gradient.size() ? std::get_if<GroupCollective>(&input_gradient[i + 1].what) : nullptr;
    const auto* gemm = std::get_if<Gemm>(&next->step.what);
    if (run.framework.weight_gradient_overlap && run.cut() && after && gemm && !step.of_shared_experts) {
      all.push_back(next->step);
      all.back().what = OverlappedKernel{*gemm, 1, *after};
      all.back().operands = both(next->step.operands, input_gradient[i + 1].operands);
      ++i;
    } else {
      all.push_back(next->step);
    }
    ++next;
  }
  return all;
}

// A single module (Megatron-Core's --recompute-modules): its intermediate values are recomputed. The result of
// attention is what the next GEMM needs, and kept; that of a norm is not, Megatron discards it (2205.05198 keeps it).
std::vector<Step> recomputed_steps(Part& part, const Block& block, const Modules& modules, Recompute mode,
                                   const FrameworkRun& run) {
  if (mode == Recompute::none) return {};
  if (mode == Recompute::full) return run.framework.early_stop ? needed_again(part, part.forward) : part.forward;
  auto wanted = run.training.recompute_modules;
  if (wanted.empty()) {
    if (run.framework.selective_recompute == SelectiveRecompute::operators)
      return ByOperator{part, block, run, modules}.steps();
    wanted = {RecomputeModule::core_attn};
  }
  // The whole forward of MoELayer is one checkpoint (moe_layer.py), including modules that could be one by themselves.
  if (wanted.contains(RecomputeModule::moe)) wanted.insert({RecomputeModule::moe_act, RecomputeModule::shared_experts});
  if (wanted.contains(RecomputeModule::mlp)) wanted.insert(RecomputeModule::mlp_act);
  if (wanted.contains(RecomputeModule::core_attn))
    for (const auto& op : block.operators)
      if (op.kind == OperatorKind::attention) part.values[op.out[0]].stays = true;
  std::vector<Step> again;
  for (std::size_t i = 0; i < modules.size(); ++i)
    if (modules[i] && wanted.contains(*modules[i])) again.push_back(part.forward[i]);
  // A checkpoint repeats its whole forward; that of the attention core ends with the kept result.
  return run.framework.early_stop && wanted.contains(RecomputeModule::mlp) ? needed_again(part, again) : again;
}

std::int64_t launches(const std::vector<Step>& steps) {
  std::int64_t n = 0;
  const auto of_attention = [](const FusedAttention& a) { return a.backward ? 2 : 1; };
  for (const auto& step : steps) {
    if (const auto* memory = std::get_if<MemoryBound>(&step.what)) n += memory->kernels;
    if (const auto* attention = std::get_if<FusedAttention>(&step.what)) n += of_attention(*attention);
    if (std::holds_alternative<Gemm>(step.what)) ++n;
    if (const auto* overlapped = std::get_if<OverlappedKernel>(&step.what)) {
      const auto* attention = std::get_if<FusedAttention>(&overlapped->piece);
      n += overlapped->pieces * (attention ? of_attention(*attention) : 1);
    }
  }
  return n;
}

}  // namespace rehearsal::models
