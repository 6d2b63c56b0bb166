#include "lower/parts.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "models/tensors.hpp"

namespace rehearsal::lower {
namespace {

using graph::GraphBuilder;
using graph::Pass;
using graph::Sequence;

// The operations that an operator is made of.
struct Operations {
  GraphBuilder& builder;
  const GroupShape& tensor_group;
  Pass pass;

  std::vector<Operation> operator()(const models::TensorCollective& c) const {
    return {{builder.intern(graph::Collective{c.kind, c.size, tensor_group}), pass, true, {}}};
  }
  std::vector<Operation> operator()(const models::OverlappedGemm& g) const {
    const WorkId piece = builder.intern(g.piece);
    graph::Collective collective{g.collective.kind, g.collective.size, tensor_group};
    collective.pieces = static_cast<std::uint32_t>(std::max<std::int64_t>(1, g.pieces - 1));
    const Operation both{piece, pass, false, builder.intern(collective)};
    std::vector<Operation> all(collective.pieces, both);
    if (g.pieces > 1) all.push_back({piece, pass, false, {}});
    return all;
  }
  template <class Kernel>
  std::vector<Operation> operator()(const Kernel& kernel) const {
    return {{builder.intern(kernel), pass, false, {}}};
  }
};

// Collects the operations of one pass of one part, and bounds kernel runs by the host that launches them.
class PassBuilder {
 public:
  PassBuilder(GraphBuilder& builder, const GroupShape& tensor_group) : builder_(builder), tensor_group_(tensor_group) {}

  void add(const std::vector<models::Operator>& operators, Pass pass) {
    for (const auto& op : operators)
      for (const auto& operation : std::visit(Operations{builder_, tensor_group_, pass}, op.shape))
        result_.operations.push_back(operation);
  }

  // The operations since `first` take at least `host`: whatever their kernels leave, the GPU idles.
  void bound_by_host(std::size_t first, Time host, Pass pass) {
    if (host <= Time{} || first == result_.operations.size()) return;
    const WorkId busy = builder_.intern(run(first));
    result_.operations.push_back({builder_.intern(graph::HostBound{host, busy}), pass, false, {}});
  }

  std::size_t size() const { return result_.operations.size(); }

  PassWork finish() && {
    result_.whole = builder_.intern(run(0));
    return std::move(result_);
  }

 private:
  Sequence run(std::size_t first) const {
    Sequence sequence;
    for (std::size_t i = first; i < result_.operations.size(); i++) {
      const auto& [work, pass, joins, beside] = result_.operations[i];
      const WorkId whole = beside ? builder_.intern(graph::Beside{work, *beside}) : work;
      if (!sequence.items.empty() && sequence.items.back().work == whole)
        sequence.items.back().count++;
      else
        sequence.items.push_back({whole, 1, pass == Pass::recompute});
    }
    return sequence;
  }

  GraphBuilder& builder_;
  const GroupShape& tensor_group_;
  PassWork result_;
};

// Each weight-gradient GEMM completes one matrix; vectors come with the last of them.
std::vector<double> gradient_tensors(const models::LayerWork& work) {
  std::vector<double> tensors;
  double left = work.parameters;
  for (const auto& op : work.weight_gradient) {
    const auto* gemm = std::get_if<Gemm>(&op.shape);
    if (!gemm || left <= 0) continue;
    tensors.push_back(std::min(left, double(gemm->m) * double(gemm->n) * double(gemm->batch)));
    left -= tensors.back();
  }
  if (tensors.empty()) return {work.parameters};
  tensors.back() += left;
  return tensors;
}

Part model_part(const models::LayerWork& work, const plan::Plan& plan, GraphBuilder& builder) {
  const auto& software = plan.job.software;
  const auto host = [&](std::int64_t kernels, double factor) {
    return seconds(double(kernels) * software.host_seconds_per_kernel * factor);
  };
  const Time host_forward = host(work.forward_kernels, 1);
  const auto weight_kernels = std::min(static_cast<std::int64_t>(work.weight_gradient.size()), work.backward_kernels);
  // Selective recomputation repeats a few kernels inside the backward's own launch stream; a full one is a forward
  // pass.
  const bool whole_forward = plan.job.training.recompute == models::Recompute::full;

  const auto recompute = [&](PassBuilder& pass) {
    pass.add(work.recompute, Pass::recompute);
    if (whole_forward) pass.bound_by_host(0, host_forward, Pass::recompute);
  };

  Part part;
  {
    PassBuilder pass(builder, plan.tensor_group);
    pass.add(work.forward, Pass::forward);
    pass.bound_by_host(0, host_forward, Pass::forward);
    part.forward = std::move(pass).finish();
  }
  {
    PassBuilder pass(builder, plan.tensor_group);
    recompute(pass);
    const auto first = pass.size();
    pass.add(work.input_gradient, Pass::input_gradient);
    pass.bound_by_host(first, host(work.backward_kernels - weight_kernels, software.host_backward_factor),
                       Pass::input_gradient);
    part.input_gradient = std::move(pass).finish();
  }
  {
    PassBuilder pass(builder, plan.tensor_group);
    pass.add(work.weight_gradient, Pass::weight_gradient);
    pass.bound_by_host(0, host(weight_kernels, software.host_backward_factor), Pass::weight_gradient);
    part.weight_gradient = std::move(pass).finish();
  }
  {
    PassBuilder pass(builder, plan.tensor_group);
    recompute(pass);
    const auto first = pass.size();
    if (work.backward.empty())
      pass.add(work.input_gradient, Pass::backward), pass.add(work.weight_gradient, Pass::backward);
    else
      pass.add(work.backward, Pass::backward);
    pass.bound_by_host(first, host(work.backward_kernels, software.host_backward_factor), Pass::backward);
    part.backward = std::move(pass).finish();
  }
  const auto& tensors = work.tensors;
  part.held = {work.activations,
               work.weight_hold,
               work.recomputed,
               models::sum(tensors.gathered),
               models::sum(tensors.forward),
               models::sum(tensors.backward),
               tensors};
  part.parameters = work.parameters;
  part.gradients = gradient_tensors(work);
  return part;
}

// The last part of a stage that hands its output on and keeps it until its backward.
Part with_output(Part part, Bytes output) {
  part.held.activation += output;
  part.held.tensors.saved.insert(part.held.tensors.saved.begin(), output);
  return part;
}

// Own kernels: the whole passes and what they hold; their steps are lowered from `performed`.
Part whole_part(const PerformedPart& performed, GraphBuilder& builder) {
  const auto whole = [&](std::initializer_list<const std::vector<PerformedStep>*> passes) {
    Sequence sequence;
    for (const auto* steps : passes)
      for (const auto& step : *steps) sequence.items.push_back({step.work, 1, step.pass == Pass::recompute});
    return builder.intern(sequence);
  };
  Part part;
  part.forward.whole = whole({&performed.forward});
  part.input_gradient.whole = whole({&performed.input_gradient});
  part.weight_gradient.whole = whole({&performed.weight_gradient});
  part.backward.whole = whole({&performed.input_gradient, &performed.weight_gradient});
  part.held = {performed.kept, performed.weight_hold, Bytes{}};
  part.parameters = performed.part->parameters();
  return part;
}

}  // namespace

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

Parts model_parts(const plan::Plan& plan, GraphBuilder& builder) {
  Parts result;
  const auto& training = plan.job.training;
  const bool alike = plan.network || training.recomputes_alike();
  if (plan.network) {
    // Only layers are recomputed; the ends are not worth it.
    using models::Recompute;
    const auto& [embedding, layer, head, precision] = *plan.network;
    result.performed = {performed_part(embedding, Recompute::none, plan.tensor_group, builder),
                        performed_part(layer, training.recompute, plan.tensor_group, builder),
                        performed_part(head, Recompute::none, plan.tensor_group, builder)};
    for (const auto& performed : result.performed) result.parts.push_back(whole_part(performed, builder));
  } else {
    for (const auto* work : {&plan.embedding, &plan.layer, &plan.head})
      result.parts.push_back(model_part(*work, plan, builder));
    if (!alike) result.parts.push_back(model_part(plan.kept_layer, plan, builder));
  }
  std::map<std::size_t, std::size_t> outputs;  // a part -> the same with the stage's output
  for (std::size_t s = 0; s < plan.stages.size() * std::size_t(plan.job.copies); s++) {
    const auto& stage = plan.stages[s % plan.stages.size()];
    StageParts parts;
    if (stage.embedding) parts.uses.push_back({kEmbedding, graph::kNoLayer});
    for (std::int64_t l = 0; l < stage.layers; l++) {
      const bool as_asked = alike || training.recomputes(l);
      parts.uses.push_back({as_asked ? kLayer : kKeptLayer, static_cast<std::uint16_t>(l)});
    }
    if (stage.head) {
      parts.uses.push_back({kHead, graph::kNoLayer});
    } else if (plan.job.software.keeps_stage_output && !plan.network) {
      auto& last = parts.uses.back().part;
      if (!outputs.count(last)) {
        outputs[last] = result.parts.size();
        result.parts.push_back(with_output(result.parts[last], plan.stage_output()));
      }
      last = outputs[last];
    }
    result.stages.push_back(std::move(parts));
  }
  return result;
}

Parts given_parts(const std::vector<GivenStage>& stages, GraphBuilder& builder) {
  Parts result;
  const auto given = [&](Time time, Pass pass) {
    const WorkId work = builder.intern(graph::Wait{time});
    return PassWork{{{work, pass, false, {}}}, work};
  };
  for (const auto& stage : stages) {
    Part part;
    part.forward = given(stage.forward, Pass::forward);
    part.input_gradient = given(stage.input_gradient, Pass::input_gradient);
    part.weight_gradient = given(stage.weight_gradient, Pass::weight_gradient);
    part.backward = given(stage.input_gradient + stage.weight_gradient, Pass::backward);
    part.held = stage.held;
    result.stages.push_back({{{result.parts.size(), graph::kNoLayer}}});
    result.parts.push_back(std::move(part));
  }
  return result;
}

}  // namespace rehearsal::lower
