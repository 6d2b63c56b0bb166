// A user's changes to experts change the answer in the right direction.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "predicted.hpp"

using namespace rehearsal;
using contract::Sets;
using contract::with;

namespace {

// Qwen3 30B with four of its layers on two nodes of H100.
const std::string kSmall =
    "version: 1\nmodel: {use: qwen3-30b-a3b, layers: 4}\ncluster: {use: dgx-h100, nodes: 2}\n"
    "parallelism: {expert: 8, zero: 1}\nbatch: {global: 64, micro: 2}\ntraining: {precision: bf16}\n"
    "framework: megatron-2025\n";

answer::Result run(const Sets& sets, const std::string& text = kSmall) { return contract::predicted(text, sets); }
double step(const Sets& sets) { return to_seconds(run(sets).summary.iteration); }
double spent(const answer::Result& p, graph::Category category) {
  return to_seconds(p.summary.breakdown[static_cast<std::size_t>(category)]);
}

}  // namespace

TEST_CASE("an expert group inside a node is faster than one across nodes, and two hops help across") {
  const Sets across{"parallelism.expert=16"};
  CHECK(step({}) < step(across));
  CHECK(step(with(across, {"framework.dispatcher=deepep"})) < step(across));
  CHECK(step(with(across, {"framework.dispatcher=deepep", "experts.limit_nodes=1"})) <
        step(with(across, {"framework.dispatcher=deepep"})));
  CHECK(step(with(across, {"experts.dispatch=two-hop"})) < step(across));
  CHECK(spent(run({}), graph::Category::expert_comm) > 0);
  CHECK(run({}).summary.traffic.per_gpu.expert > 0);
  CHECK(spent(run({"parallelism.expert=1"}), graph::Category::expert_comm) == 0);
}

TEST_CASE("the link that carries tokens decides how long they travel") {
  const Sets across{"parallelism.expert=16"};
  CHECK(step(with(across, {"cluster.links.scale_out.bandwidth=100Gb/s"})) > step(across) * 1.2);
  CHECK(step({"cluster.links.scale_up.bandwidth=100GB/s"}) > step({}));
}

TEST_CASE("skewed loads cost time and memory; a capacity cuts both and drops tokens; a better placement saves") {
  const Sets skewed{"experts.skew={zipf: 0.6}"};
  CHECK(step(skewed) > step({}) * 1.05);
  CHECK(run(skewed).summary.peak.allocated > run({}).summary.peak.allocated);
  const auto cut = run(with(skewed, {"experts.capacity=1.25"}));
  CHECK(to_seconds(cut.summary.iteration) < step(skewed));
  bool told = false;
  for (const auto& warning : cut.warnings) told |= warning.find("drops") != std::string::npos;
  CHECK(told);
  const double best = step(with(skewed, {"experts.balance=best"}));
  CHECK(best < step(skewed));
  const Sets steep{"experts.skew={zipf: 1.2}", "experts.balance=best"};  // the busiest expert alone is more than a mean
  CHECK(step(with(steep, {"experts.redundant=8"})) < step(steep));
}

TEST_CASE("switches of releases move the step the way that their authors say") {
  const Sets blocks{"framework.host_time_per_kernel=60us"};
  CHECK(step(with(blocks, {"framework.cuda_graph=router"})) < step(blocks));
  CHECK(step(with(blocks, {"framework.cuda_graph=attention+router"})) <=
        step(with(blocks, {"framework.cuda_graph=router"})));
  CHECK(step(with(blocks, {"framework.cuda_graph=full"})) <
        step(with(blocks, {"framework.cuda_graph=attention+router"})));
  CHECK(step(with(blocks, {"framework.fused_router=true"})) < step(blocks));
  CHECK(step(with(blocks, {"framework.host_loop_time=200us"})) > step(blocks));
  CHECK(step(with(blocks, {"experts.capacity=1"})) < step(blocks));  // the host runs ahead
  CHECK(step(with(blocks, {"cluster.launch_factor=1.6"})) > step(blocks));
  CHECK(step(with(blocks, {"framework.host_bound_to_cores=true"})) < step(blocks));
  CHECK(step({"framework.expert_overlap=true"}) < step({}));
  CHECK(step({"framework.fused_grouped_mlp=true"}) < step({}));
  CHECK(step({"framework.fused_expert_activation=false"}) > step({}));
  CHECK(run({"training.recompute={mode: selective, modules: [moe_act]}"}).summary.peak.allocated <
        run({}).summary.peak.allocated);
  CHECK(run({"training.recompute={mode: selective, modules: [moe]}"}).summary.peak.allocated <
        run({"training.recompute={mode: selective, modules: [moe_act]}"}).summary.peak.allocated);
  CHECK(step({"model.mtp_layers=1"}) > step({}) * 1.1);
}

TEST_CASE("shared experts hide exchanges, and never more than there is to hide or to hide it behind") {
  // With a host that takes no time: else kernels beside an exchange also fill what the host leaves idle.
  const Sets hidden{"framework.shared_expert_overlap=true"};
  const char* free = "framework.host_time_per_kernel=0us";
  const double without = step({"model.shared_experts=0", free});
  double before = 0;
  for (const char* shared : {"1", "4", "16", "64"}) {
    CAPTURE(shared);
    const Sets some{fmt::format("model.shared_experts={}", shared), free};
    const auto shown = run(some), less = run(with(some, hidden));
    const double exchanges = spent(shown, graph::Category::expert_comm);
    const double saved = to_seconds(shown.summary.iteration) - to_seconds(less.summary.iteration);
    CHECK(saved > before);
    CHECK(saved <= exchanges);                                      // all of them
    CHECK(saved <= to_seconds(shown.summary.iteration) - without);  // the shared experts' own time
    before = saved;
  }
  CHECK(before > .5 * spent(run({"model.shared_experts=64", free}), graph::Category::expert_comm));
  // A GPU alone with its experts sends nothing.
  const Sets alone{"model.shared_experts=1", "parallelism.expert=1"};
  CHECK(step(with(alone, hidden)) == step(alone));
}

TEST_CASE("states of experts are shared out among their own replicas") {
  // 16 GPUs: experts have 2 replicas over expert 8, all others 16.
  CHECK(run({"parallelism.zero=1"}).summary.peak.allocated < run({"parallelism.zero=0"}).summary.peak.allocated);
  CHECK(run({"parallelism.expert=16"}).summary.peak.allocated < run({}).summary.peak.allocated);
}

TEST_CASE("every published mixture of experts runs where it fits") {
  for (const auto& [model, layout] : std::vector<std::pair<std::string, std::string>>{
           {"mixtral-8x7b", "tensor: 2, sequence: true, expert: 8"},
           {"mixtral-8x22b", "tensor: 2, sequence: true, pipeline: 8, expert: 8"},
           {"deepseek-v2", "pipeline: 8, expert: 8"},
           {"deepseek-v3", "pipeline: 16, expert: 8"},
           {"qwen3-30b-a3b", "expert: 16"},
           {"qwen3-235b-a22b", "pipeline: 8, expert: 8"},
           {"gpt-oss-20b", "expert: 8"},
           {"gpt-oss-120b", "expert: 32"},
           {"grok-1", "tensor: 8, sequence: true, pipeline: 4, expert: 8"}}) {
    CAPTURE(model);
    const auto text = fmt::format(
        "version: 1\nmodel: {}\ncluster: {{use: dgx-h100, nodes: 16}}\nparallelism: {{{}, zero: 1}}\n"
        "batch: {{global: 512, micro: 1}}\ntraining: {{precision: bf16}}\n",
        model, layout);
    const auto p = run({}, text);
    CHECK(to_seconds(p.summary.iteration) > 0);
    REQUIRE(p.summary.mfu);
    CHECK(*p.summary.mfu > .05);
    CHECK(*p.summary.mfu < .7);
  }
}

TEST_CASE("what does not fit together is refused where it stands, with a way out") {
  const auto why = [](const Sets& sets) {
    try {
      run(sets);
    } catch (const UserError& error) {
      return error.diagnostics().front().message;
    }
    return std::string("nothing");
  };
  CHECK(why({"parallelism.expert=5"}).find("nearest") != std::string::npos);
  const Sets hidden{"framework.shared_expert_overlap=true", "model.shared_experts=1"};
  CHECK(why(hidden) == "nothing");
  CHECK(why({hidden[0]}).find("'qwen3-30b-a3b' has none; leave it out") != std::string::npos);
  CHECK(why(with(hidden, {"framework.dispatcher=deepep"})).find("set 'dispatcher' to nccl") != std::string::npos);
  CHECK(why(with(hidden, {"framework.expert_overlap=true"})).find("leave one of them out") != std::string::npos);
  const Sets repeated{"training.recompute={mode: selective, modules: [shared_experts]}"};
  CHECK(why(with(hidden, repeated)).find("or recompute 'moe'") != std::string::npos);
}

TEST_CASE("ZeRO-2 and 3 cut and move experts among their own replicas, all else among all") {
  // 16 GPUs, 8 of which share the experts. A layer of Qwen3 30B has 128 experts of 3 x 2048 x 768 parameters, 16 of
  // them on a GPU: 75,497,472, of which there are two replicas; gradients of 4 bytes, weights of 2.
  const double experts = 16. * 3 * 2048 * 768;
  const auto moved = [](const answer::Result& p, graph::Pass pass) {
    std::map<std::uint32_t, double> bytes;  // by the size of the group
    const auto& program = p.graph().programs().front();
    for (std::size_t t = 0; t < program.size(); t++)
      if (const auto* c = std::get_if<graph::Collective>(&p.graph().work(program.work[t]));
          c && program.coordinates[t].pass == pass)
        bytes[c->group.ranks] += double(c->size.count());
    return bytes;
  };
  const auto optimizer = [](const answer::Result& p) {
    double sum = 0;
    for (const auto& buffer : p.graph().programs().front().resident())
      if (buffer.category == graph::MemoryCategory::optimizer) sum += double(buffer.size.count());
    return sum;
  };
  const Sets once{"batch.global=32", "training.gradient_precision=fp32"};  // one micro-batch
  const auto one = run(with(once, {"parallelism.zero=1"}));
  const auto two = run(with(once, {"parallelism.zero=2"})), three = run(with(once, {"parallelism.zero=3"}));
  for (const auto* p : {&one, &two, &three}) {
    const auto reduced = moved(*p, graph::Pass::gradient_reduce);
    CHECK(reduced.size() == 2);
    CHECK(reduced.at(2) == 4 * 4 * experts);
    CHECK(reduced == moved(one, graph::Pass::gradient_reduce));
  }
  CHECK(optimizer(one) == optimizer(two));
  // Each layer's experts for the forward and again for the backward.
  CHECK(moved(three, graph::Pass::parameter_gather).at(2) == 2 * 4 * 2 * experts);
  CHECK(moved(two, graph::Pass::parameter_gather).at(2) == 4 * 2 * experts);
  CHECK(two.summary.peak.allocated < one.summary.peak.allocated);
  CHECK(three.summary.peak.allocated < two.summary.peak.allocated);
  // With all its experts on it, a GPU has no other rank to gather them from.
  const auto alone = run(with(once, {"parallelism.expert=16", "parallelism.zero=3"}));
  CHECK(moved(alone, graph::Pass::parameter_gather).size() == 1);
  CHECK(moved(alone, graph::Pass::gradient_reduce).size() == 1);
}
