#include "lower/parts.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "lower/launch_ahead.hpp"
#include "models/traffic.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::lower {
namespace {

using graph::GraphBuilder;
using graph::MemoryCategory;
using graph::Pass;
using graph::Sequence;
using models::PassKind;

Pass pass_of(PassKind pass) {
  switch (pass) {
    case PassKind::forward:
      return Pass::forward;
    case PassKind::input_gradient:
      return Pass::input_gradient;
    case PassKind::weight_gradient:
      return Pass::weight_gradient;
    case PassKind::backward:
      return Pass::backward;
    case PassKind::norm_backward:
      return Pass::norm_backward;
  }
  return Pass::forward;
}

// The operations that make up a step.
struct Operations {
  GraphBuilder& builder;
  const plan::Plan& plan;
  const models::Part& part;
  const models::Step& step;
  Pass pass;

  graph::Collective placed(const models::GroupCollective& c) const {
    graph::Collective work{c.kind, c.size, plan.group(c.axis), 1, c.precision};
    work.inside = c.axis;
    return work;
  }
  std::vector<Operation> operator()(const models::GroupCollective& c) const {
    return {{.work = builder.intern(placed(c)), .pass = pass, .group = c.axis}};
  }
  std::vector<Operation> operator()(const models::OverlappedKernel& g) const {
    const WorkId piece = std::visit([&](const auto& kernel) { return builder.intern(kernel); }, g.piece);
    auto collective = placed(g.collective);
    collective.pieces = static_cast<std::uint32_t>(std::max<std::int64_t>(1, g.pieces - 1));
    collective.room_kept = true;  // Transformer Engine's overlapped GEMMs leave blocks to NCCL or to its own copies
    const Operation both{
        .work = piece, .pass = pass, .beside = builder.intern(collective), .beside_along = g.collective.axis};
    std::vector<Operation> all(collective.pieces, both);
    if (g.pieces > 1) all.push_back({.work = piece, .pass = pass});
    return all;
  }
  std::vector<Operation> operator()(const models::TokenDispatch& d) const {
    const graph::Dispatch work{
        d.tokens, d.each,  d.experts, d.per_token, d.most_domains, d.two_hop, plan.group(Axis::expert),
        d.load,   d.loads, d.back};
    return {{.work = builder.intern(work), .pass = pass, .group = Axis::expert}};
  }
  // Fills in the offsets of the kernel's parameters and gradients in their segments.
  std::vector<Operation> operator()(Kernel kernel) const {
    INVARIANT(step.operands.size() <= kernel.offsets.size(), "a kernel has no more operands");
    for (std::size_t i = 0; i < step.operands.size(); i++) {
      const auto& o = step.operands[i];
      if (o.of == models::Operand::Of::parameter || o.of == models::Operand::Of::gradient)
        kernel.offsets[i] = place_of(part, o.index).offset;
    }
    return {{.work = builder.intern(kernel), .pass = pass}};
  }
  template <class Shape>
  std::vector<Operation> operator()(const Shape& shape) const {
    return {{.work = builder.intern(shape), .pass = pass}};
  }
};

// Collects the operations of one pass of one part, and bounds kernel runs by the host that launches them.
class PassBuilder {
 public:
  PassBuilder(const plan::Plan& plan, const models::Part& part, GraphBuilder& builder)
      : plan_(plan), part_(part), builder_(builder) {}

  void add(const models::Step& step, const models::StepLife& life, Pass pass) {
    const Operations make{builder_, plan_, part_, step, pass};
    auto operations = std::visit(make, step.what);
    operations.front().born = life.born, operations.back().dies = life.dies;
    if (step.beside) {
      INVARIANT(!operations.front().beside, "one thing starts with a step");
      operations.front().beside = make(*step.beside).front().work;
      operations.front().beside_along = Axis::expert;
      beside_ = result_.operations.size(), steps_beside_ = step.beside_steps;
    }
    for (auto& operation : operations) operation.step = &step, result_.operations.push_back(std::move(operation));
    if (steps_beside_ > 0 && --steps_beside_ == 0)
      result_.operations[beside_].beside_operations = result_.operations.size() - beside_;
  }
  // Makes the operations since `first` last at least `host`: the GPU idles for the time that their kernels leave, and
  // those of `other`, which the same thread launches.
  void bound_by_host(std::size_t first, Time host, Pass pass, std::optional<WorkId> other = {}) {
    if (plan_.job.framework.host_seconds_per_kernel <= 0 || first == result_.operations.size()) return;
    auto kernels = plan_.job.framework.launch_blocking ? Sequence{} : run(first);
    if (other && !plan_.job.framework.launch_blocking) kernels.items.push_back({*other, 1, false});
    const WorkId busy = builder_.intern(kernels);
    const graph::HostBound bound{host, busy, part_.uneven_launches};
    result_.operations.push_back({.work = builder_.intern(bound), .pass = pass});
  }
  std::size_t size() const { return result_.operations.size(); }
  PassWork finish() && {
    result_.whole = builder_.intern(run(0));
    return std::move(result_);
  }

 private:
  Sequence run(std::size_t first) const { return run(first, result_.operations.size(), true); }
  Sequence run(std::size_t first, std::size_t end, bool with_beside) const {
    Sequence sequence;
    for (std::size_t i = first; i < end; i++) {
      const auto& operation = result_.operations[i];
      WorkId whole = operation.work;
      if (operation.beside && (with_beside || i > first)) {
        const auto stretch = operation.beside_operations;
        if (stretch > 1) whole = builder_.intern(run(i, i + stretch, false));
        whole = builder_.intern(graph::Overlapped{whole, *operation.beside});
        i += stretch - 1;
      }
      const bool recompute = operation.pass == Pass::recompute;
      if (!sequence.items.empty() && sequence.items.back().work == whole &&
          sequence.items.back().recompute == recompute)
        sequence.items.back().count++;
      else
        sequence.items.push_back({whole, 1, recompute});
    }
    return sequence;
  }

  const plan::Plan& plan_;
  const models::Part& part_;
  GraphBuilder& builder_;
  PassWork result_;
  std::size_t beside_ = 0, steps_beside_ = 0;  // start of the last overlapped collective, and steps to its end
};

// The memory category of each value, and the passes between which it lives.
std::vector<PartValue> values_of(const models::Part& part, const models::Lives& lives) {
  std::vector<bool> in_forward(part.values.size());
  for (const auto& step : part.forward)
    for (const auto& o : step.operands)
      if (o.of == models::Operand::Of::value) in_forward[o.index] = true;
  std::vector<PartValue> values;
  for (std::size_t v = 0; v < part.values.size(); ++v) {
    const auto& value = part.values[v];
    PartValue result{.size = value.size, .contiguous = value.contiguous};
    if (lives.kept[v] && in_forward[v])
      result.crosses = lives.waits[v] ? Crosses::forward_to_weight : Crosses::forward_to_input;
    else if (lives.waits[v])
      result.crosses = Crosses::input_to_weight;
    const bool passing = result.crosses == Crosses::no && v != part.output && v != part.input;
    using Holds = models::Value::Holds;
    result.category = value.holds == Holds::gathered ? MemoryCategory::communication
                      : value.holds == Holds::loss   ? MemoryCategory::loss
                      : passing                      ? MemoryCategory::workspace
                                                     : MemoryCategory::activations;
    // Made in the forward, and recomputed in the backward.
    result.again = result.category;
    if (in_forward[v] && !lives.kept[v] && value.holds == Holds::activation) {
      result.again = MemoryCategory::recomputed;
      if (result.crosses == Crosses::input_to_weight) result.category = MemoryCategory::workspace;
    }
    values.push_back(result);
  }
  return values;
}

// Cuts every value that waits from the forward for the backward into what stays on the device and what leaves it, so
// that `share` of all of them leaves. The input of the part, which the one before it has made, stays: others leave for
// it, as far as there are.
void send_away(Part& part, double share) {
  std::set<std::size_t> held;  // whose buffers others share
  for (const auto& carried : part.model->carried) held.insert(carried.value);
  const auto& skip = part.model->skip;
  for (const auto& v : {skip.given, skip.given_gradient, skip.taken, skip.taken_gradient, part.input, part.output})
    if (v) held.insert(*v);
  const auto waits = [&](std::size_t v) {
    const auto crosses = part.values[v].crosses;
    return crosses == Crosses::forward_to_input || crosses == Crosses::forward_to_weight;
  };
  double all = part.input ? double(part.values[*part.input].size.count()) : 0, free = 0;
  for (std::size_t v = 0; v < part.values.size(); ++v)
    if (waits(v) && v != part.input) (held.contains(v) ? all : free) += double(part.values[v].size.count());
  const double of_each = free > 0 ? std::min(1., share * (all + free) / free) : 0;
  const auto n = part.values.size();
  for (std::size_t v = 0; v < n; ++v) {
    if (!waits(v) || held.contains(v)) continue;
    const auto away = static_cast<std::uint16_t>(part.values.size());
    auto leaving = part.values[v];
    leaving.size = bytes(of_each * double(leaving.size.count())), leaving.leaves = true;
    part.values[v].size -= leaving.size;
    part.values.push_back(leaving);
    for (auto& pass : part.passes)
      for (auto& operation : pass.operations)
        for (auto* list : {&operation.born, &operation.dies})
          if (std::find(list->begin(), list->end(), v) != list->end()) list->push_back(away);
  }
}

Part model_part(const models::Part& model, models::Recompute recompute, const plan::Plan& plan, GraphBuilder& builder) {
  const auto& framework = plan.job.framework;
  const auto host = [&](std::int64_t launches, double factor) {
    const double unbound = framework.host_bound_to_cores ? 1 : framework.unbound_host;
    return seconds(double(launches) * framework.host_seconds_per_kernel * plan.job.cluster.launch_factor * factor *
                   unbound);
  };
  // Hooks of ZeRO-3 run in every pass of a layer, on a single replica too.
  const bool hooked = plan.job.parallelism.zero == 3 && model.input && model.output;
  const auto hooks = hooked ? std::int64_t(std::llround(framework.zero3_launches)) : 0;
  // Counts of modules are of either pass; those of kernels are launched faster by the autograd thread.
  const double back = model.counts_modules ? 1 : framework.host_backward_factor;
  const auto lives = models::lives(model);
  using Runs = std::vector<models::Part::Run>;
  Runs forward_launches = model.forward_launches.empty() ? Runs{{0, 0}} : model.forward_launches;
  forward_launches.front().launches += hooks;
  std::int64_t all_launches = 0;
  for (const auto& run : forward_launches) all_launches += run.launches;
  std::optional<WorkId> forward;
  const auto build = [&](PassKind kind, const Runs& runs, double factor) {
    PassBuilder pass(plan, model, builder);
    const auto& steps = models::steps(model, kind);
    std::size_t i = 0;
    for (; i < steps.size() && steps[i].repeats; ++i) pass.add(steps[i], lives.of(kind)[i], Pass::recompute);
    // Selective recomputation repeats a few kernels inside the backward's own launch stream; full recomputation is a
    // forward pass.
    if (recompute == models::Recompute::full) pass.bound_by_host(0, host(all_launches, 1), Pass::recompute);
    const bool alone = !model.launched_together;
    const bool with_forward = !alone && (kind == PassKind::input_gradient || kind == PassKind::backward);
    // Where the host waits inside a layer: what of the layer before it has launched since it waited there, which the
    // GPU computes while the host launches up to the next wait.
    std::optional<WorkId> since_wait;
    if (kind == PassKind::forward && runs.size() > 1) {
      PassBuilder before(plan, model, builder);
      for (auto k = runs.front().until; k < steps.size(); ++k) before.add(steps[k], lives.of(kind)[k], pass_of(kind));
      since_wait = std::move(before).finish().whole;
    }
    for (const auto& run : runs) {
      const bool front = &run == &runs.front();
      // What selective recomputation repeats is launched with what follows.
      const auto first = front && recompute != models::Recompute::full ? 0 : pass.size();
      for (; i < steps.size() && (i < run.until || &run == &runs.back()); ++i)
        pass.add(steps[i], lives.of(kind)[i], steps[i].repeats ? Pass::recompute : pass_of(kind));
      if (with_forward)
        pass.bound_by_host(first, host(run.launches + all_launches, factor), pass_of(kind), forward);
      else if (since_wait && front)
        pass.bound_by_host(first, host(all_launches, factor), pass_of(kind), since_wait);
      else if (!since_wait && (alone || kind != PassKind::forward))
        pass.bound_by_host(first, host(run.launches, factor), pass_of(kind));
    }
    auto made = std::move(pass).finish();
    if (kind == PassKind::forward) forward = made.whole;
    return made;
  };
  const auto once = [](std::int64_t launches) { return Runs{{0, launches}}; };
  Part part;
  part.passes = {build(PassKind::forward, forward_launches, 1),
                 build(PassKind::input_gradient, once(model.backward_launches - model.weight_launches + hooks), back),
                 build(PassKind::weight_gradient, once(model.weight_launches), back),
                 build(PassKind::backward, once(model.backward_launches + hooks), back)};
  if (!model.norm_backward.empty())
    part.passes.back() = build(PassKind::norm_backward, once(model.norm_launches + hooks), back);
  part.values = values_of(model, lives);
  part.input = model.input, part.output = model.output;
  part.output_gradient = model.output_gradient, part.input_gradient = model.input_gradient;
  part.activation = lives.activations, part.weight_hold = lives.weight_hold;
  part.parameters = model.parameters, part.expert_parameters = model.expert_parameters;
  part.gradients = model.gradients;
  part.model = &model;
  if (const double share = plan.job.training.share_away(0); share > 0 && model.input && model.output)
    send_away(part, share);
  return part;
}

}  // namespace

const PassWork& Part::of(Pass pass) const {
  switch (pass) {
    case Pass::forward:
      return of(PassKind::forward);
    case Pass::input_gradient:
      return of(PassKind::input_gradient);
    case Pass::weight_gradient:
      return of(PassKind::weight_gradient);
    case Pass::norm_backward:
      return of(PassKind::norm_backward);
    default:
      return of(PassKind::backward);
  }
}

WorkId sequence(const std::vector<WorkId>& works, GraphBuilder& builder) {
  if (works.size() == 1) return works.front();
  Sequence result;
  for (const WorkId work : works) {
    if (!result.items.empty() && result.items.back().work == work)
      result.items.back().count++;
    else
      result.items.push_back({work, 1, false});
  }
  return builder.intern(result);
}

TensorPlace place_of(const models::Part& part, std::uint16_t tensor) {
  std::size_t first = 0;
  for (std::size_t s = 0; s < part.segments.size(); s++) {
    const auto& tensors = part.segments[s].tensors;
    if (tensor < first + tensors.size()) return {s, tensors[tensor - first].offset};
    first += tensors.size();
  }
  INVARIANT(false, "no such tensor");
  return {};
}

ModelPart layer_part(const plan::Plan& plan, std::int64_t first, std::int64_t nth) {
  const auto& job = plan.job;
  const bool as_asked = job.framework.native_kernels || job.training.recomputes_alike() || job.training.recomputes(nth);
  return layer_part(plan.network().of_layer[std::size_t(first + nth)], !as_asked);
}

namespace {

// Adds the parts of a network with one layout to parts.layouts.
void add_layout(const plan::Plan& plan, GraphBuilder& builder, Parts& parts) {
  using models::Network;
  using models::Recompute;
  const auto& network = plan.network();
  const auto again = plan.job.training.recompute;
  auto& at = parts.layouts.emplace_back(layer_part(network.layers.size(), false), Parts::kNoPart);
  const auto add = [&](ModelPart which, Recompute recompute, const auto& part_of) {
    if (part_of(network).forward.empty()) return;
    at[which] = parts.parts.size();
    for (const auto& piece : plan.networks)
      parts.parts.push_back(model_part(part_of(*piece), recompute, plan, builder));
  };
  const auto add_layers = [&](bool kept, std::vector<models::Part> Network::*rows) {
    for (std::size_t row = 0; row < (network.*rows).size(); ++row)
      add(
          layer_part(row, kept),
          kept ? Recompute::none : again, [&](const Network& n) -> const auto& { return (n.*rows)[row]; });
  };
  add(
      kEmbedding, Recompute::none, [](const Network& n) -> const auto& { return n.embedding; });
  add_layers(false, &Network::layers);
  add(
      kHead, Recompute::none, [](const Network& n) -> const auto& { return n.head; });
  add_layers(true, &Network::kept);
  add(
      kPrediction, again, [](const Network& n) -> const auto& { return n.prediction; });
  add(
      kBody, again, [](const Network& n) -> const auto& { return n.body; });
}

// Links the two ends of a skip connection if both are in this stage.
void pair_skips(StageParts& stage) {
  std::map<std::uint32_t, std::size_t> begun;
  for (std::size_t i = 0; i < stage.uses.size(); ++i) {
    if (!stage.uses[i].skip) continue;
    const auto [other, first] = begun.try_emplace(*stage.uses[i].skip, i);
    if (!first) stage.uses[i].partner = other->second, stage.uses[other->second].partner = i;
  }
}

}  // namespace

Parts model_parts(const plan::Plan& plan, GraphBuilder& builder) {
  Parts result;
  result.performed = plan.performed(), result.stages_have_ends = true;
  result.pieces = static_cast<std::uint32_t>(plan.networks.size());
  std::map<const plan::Plan*, std::size_t> layouts;
  std::int64_t first = 0;
  for (std::size_t s = 0; s < plan.stages.size() * std::size_t(plan.job.copies); s++) {
    const auto& stage = plan.stages[s % plan.stages.size()];
    const auto& of = plan.laid_out() ? plan.of(static_cast<std::uint32_t>(s)) : plan;
    const auto [layout, fresh] = layouts.try_emplace(&of, result.layouts.size());
    if (fresh) add_layout(of, builder, result);
    if (stage.embedding) first = 0;
    StageParts parts;
    parts.layout = layout->second;
    parts.output = Bytes(of.stage_output().count() * std::max<std::int64_t>(1, plan.carried(std::uint32_t(s))));
    const auto& at = result.layouts[parts.layout];
    const auto use = [&](ModelPart which, std::uint16_t layer) { parts.uses.push_back({at[which], layer, {}, {}}); };
    if (stage.embedding) use(kEmbedding, graph::kNoLayer);
    for (std::int64_t l = 0; l < stage.layers; l++) {
      use(layer_part(of, first, l), static_cast<std::uint16_t>(l));
      parts.uses.back().skip = plan.skip_of_layer(first + l);
    }
    pair_skips(parts);
    first += stage.layers;
    if (s == 0 && stage.embedding && plan.job.model.vision) launch_ahead(parts, result.parts, builder);
    for (std::int64_t l = 0; l < stage.predictions + stage.bodies; l++)
      use(l < stage.predictions ? kPrediction : kBody, static_cast<std::uint16_t>(stage.layers + l));
    for (std::int64_t loss = 0; loss < stage.losses + (stage.head ? 1 : 0); loss++) use(kHead, graph::kNoLayer);
    const bool ends = stage.head || stage.losses > 0 || parts.uses.empty();
    parts.keeps_output = !ends && plan.job.framework.keeps_stage_output && !result.performed;
    result.stages.push_back(std::move(parts));
  }
  return result;
}

Parts given_parts(const std::vector<GivenStage>& stages, std::uint32_t pieces, GraphBuilder& builder) {
  Parts result;
  result.pieces = pieces;
  using Values = std::vector<std::uint16_t>;
  for (const auto& whole : stages) {
    result.stages.push_back({{{result.parts.size(), graph::kNoLayer, {}, {}}}});
    for (std::uint32_t piece = 0; piece < pieces; piece++) {
      const auto time = [&](Time all) { return schedule::share(all, pieces, piece); };
      const auto size = [&](Bytes all) { return Bytes(time(Time(all.count())).count()); };
      const Bytes activation = size(whole.activation), hold = size(whole.weight_hold),
                  kept = std::min(activation, hold);
      Part part;
      part.values = {{.size = activation - kept, .crosses = Crosses::forward_to_input},
                     {.size = kept, .crosses = Crosses::forward_to_weight},
                     {.size = hold - kept, .crosses = Crosses::input_to_weight}};
      const auto given = [&](Time all, Pass pass, Values born, Values dies) {
        const WorkId work = builder.intern(graph::FixedDelay{time(all)});
        return PassWork{{{.work = work, .pass = pass, .born = std::move(born), .dies = std::move(dies)}}, work};
      };
      part.passes = {given(whole.forward, Pass::forward, {0, 1}, {}),
                     given(whole.input_gradient, Pass::input_gradient, {2}, {0}),
                     given(whole.weight_gradient, Pass::weight_gradient, {}, {1, 2}),
                     given(whole.input_gradient + whole.weight_gradient, Pass::backward, {}, {0, 1})};
      part.activation = activation, part.weight_hold = hold;
      result.parts.push_back(std::move(part));
    }
  }
  return result;
}

std::vector<Bytes> learning_tensors(const models::Part& part, double each, double shards, double expert_shards,
                                    double without) {
  const double dense = part.learning - part.expert_learning - std::min(without, part.learning);
  const double all = dense / shards + part.expert_learning / expert_shards;
  const bool whole = shards == 1 && expert_shards == 1 && without == 0 && part.learning == part.parameters;
  std::vector<Bytes> tensors;
  double left = all;
  for (const auto& tensor : models::tensors_of(part.segments)) {
    if (!whole || tensor.elements > left) break;
    tensors.push_back(bytes(tensor.elements * each)), left -= tensor.elements;
  }
  if (left > 0) tensors.push_back(bytes(left * each));
  return tensors;
}

}  // namespace rehearsal::lower
