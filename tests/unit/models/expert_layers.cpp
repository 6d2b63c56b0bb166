// Layers with experts as a framework runs them, on a model small enough to count by hand; and every published mixture
// of experts has as many parameters as its closed form says.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "models/framework.hpp"
#include "models/lives.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

// h 64, 4 heads of 16; 8 experts of width 32, of which a token sees 2, and a shared one; T = 128.
Transformer tiny() {
  Transformer m;
  m.family = Family::moe, m.ffn_kind = FfnKind::swiglu, m.tie_embeddings = false;
  m.layers = 3, m.hidden = 64, m.heads = m.kv_heads = 4, m.head_dim = 16, m.ffn = 128;
  m.experts = 8, m.experts_per_token = 2, m.expert_ffn = 32, m.shared_experts = 1, m.shared_ffn = 32;
  m.dense_layers = 1, m.vocabulary = 1024, m.sequence = 128;
  return m;
}
Transformer latent() {
  auto m = tiny();
  m.mla = Mla{.query_rank = 24, .kv_rank = 16, .rotary_dim = 8, .head_dim = 16, .value_dim = 12};
  m.mtp_layers = 1;
  return m;
}
Shard alone() { return {.micro_batch = 1, .sequence = 128}; }
Shard shared_by(std::int64_t expert) {
  auto shard = alone();
  shard.expert = expert;
  return shard;
}
const Part& experts(const Network& network) { return network.layers.back(); }

const Step* step(const std::vector<Step>& list, std::string_view name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const Step& s) { return s.name == name; });
  return found == list.end() ? nullptr : &*found;
}
const Gemm& product(const std::vector<Step>& list, std::string_view name) {
  const auto* found = step(list, name);
  REQUIRE(found);
  return std::get<Gemm>(found->what);
}
double held(const Transformer& m, const Network& network) {
  double sum =
      network.embedding.parameters + network.head.parameters + double(m.mtp_layers) * network.prediction.parameters;
  for (std::int64_t l = 0; l < m.layers; ++l) sum += network.layer(l).parameters;
  return sum;
}

}  // namespace

TEST_CASE("one product for every expert of the rank") {
  for (const std::int64_t e : {1, 2, 8}) {
    CAPTURE(e);
    const auto network = framework_network(tiny(), {}, {}, shared_by(e));
    const auto& part = experts(network);
    // 128 tokens x 2 choices = 256 rows over 8/e experts.
    CHECK(product(part.forward, "experts up") == Gemm{256 * e / 8, 64, 64, 8 / e, Precision::bf16, false});
    CHECK(product(part.forward, "experts down") == Gemm{256 * e / 8, 64, 32, 8 / e, Precision::bf16, false});
    CHECK(product(part.input_gradient_steps, "experts down gradient").k == 64);
    CHECK(product(part.backward, "experts up weights") == Gemm{64, 64, 256 * e / 8, 8 / e, Precision::bf16, true});
    CHECK(product(part.forward, "router") == Gemm{128, 8, 64, 1, Precision::tf32, false});
    CHECK(product(part.forward, "shared up") == Gemm{128, 64, 64, 1, Precision::bf16, false});
    CHECK(part.expert_parameters == double(8 / e * 3 * 64 * 32));
    CHECK((step(part.forward, "dispatch") != nullptr) == (e > 1));
  }
}

TEST_CASE("what frameworks hold is what the closed form counts") {
  for (const auto& m : {tiny(), latent()}) {
    const auto network = framework_network(m, {}, {}, alone());
    CHECK(held(m, network) == parameters(m));
    // The rank's share of the experts is all that an expert group divides.
    const auto shared = framework_network(m, {}, {}, shared_by(4));
    CHECK(held(m, network) - held(m, shared) ==
          doctest::Approx(double(layer_table(m).rows.back().count + m.mtp_layers) * 8 * 3 * 64 * 32 * .75));
  }
}

TEST_CASE("latent attention: products through the ranks, heads of two sizes, keys for every head") {
  const auto network = framework_network(latent(), {}, {}, alone());
  const auto& part = experts(network);
  CHECK(product(part.forward, "query down") == Gemm{128, 24, 64, 1, Precision::bf16, false});
  CHECK(product(part.forward, "query up") == Gemm{128, 4 * 24, 24, 1, Precision::bf16, false});
  CHECK(product(part.forward, "latent down") == Gemm{128, 24, 64, 1, Precision::bf16, false});
  CHECK(product(part.forward, "latent up") == Gemm{128, 4 * 28, 16, 1, Precision::bf16, false});
  CHECK(product(part.forward, "attention out") == Gemm{128, 64, 48, 1, Precision::bf16, false});
  const auto& attention = std::get<FusedAttention>(step(part.forward, "attention")->what);
  CHECK(attention.head_dim == 24);
  CHECK(attention.value_dim == 12);
  CHECK(attention.flops().value() == 2. * 4 * 128 * 128 * (24 + 12) / 2);  // causal
}

TEST_CASE("tokens travel once each way, forward and backward; a rank with more rows has larger products") {
  Routed routing{.load = 1.5, .two_hop = true, .most_domains = 4};
  const auto network = framework_network(tiny(), {}, {}, shared_by(4), routing);
  const auto& part = experts(network);
  using Names = std::vector<std::string_view>;
  for (const auto& [list, names] : {std::pair{&part.forward, Names{"dispatch", "combine"}},
                                    std::pair{&part.backward, Names{"combine gradient", "dispatch gradient"}}}) {
    Names seen;
    for (const auto& s : *list)
      if (const auto* tokens = std::get_if<TokenDispatch>(&s.what)) {
        seen.push_back(s.name);
        CHECK(tokens->tokens == 128);
        CHECK(tokens->each == Bytes(128));
        CHECK(tokens->most_domains == 4);
        CHECK(tokens->load == 1.5);
      }
    CHECK(seen == names);
  }
  CHECK(product(part.forward, "experts up").m == 256 * 3 / 2 * 4 / 8);
}

TEST_CASE("an all-to-all sorts rows on both sides, kernels that know the experts on one") {
  const auto permutes = [](bool two_hop) {
    const auto network = framework_network(tiny(), {}, {}, shared_by(4), {.two_hop = two_hop});
    const auto& forward = experts(network).forward;
    return std::count_if(forward.begin(), forward.end(),
                         [](const Step& s) { return s.name == "permute" || s.name == "unpermute"; });
  };
  CHECK(permutes(false) == 4);
  CHECK(permutes(true) == 2);
}

TEST_CASE("the host starts anew where it waits for the counts of tokens; a capacity says them before") {
  const auto runs = [](const Framework& framework, bool waits) {
    return experts(framework_network(tiny(), {}, framework, shared_by(4), {.waits = waits})).forward_launches;
  };
  const auto waiting = runs({}, true), fixed = runs({}, false);
  REQUIRE(waiting.size() == 2);  // attention and routing; the exchange, experts and what comes back
  REQUIRE(fixed.size() == 1);
  std::int64_t sum = 0;
  for (const auto& run : waiting) sum += run.launches;
  CHECK(sum == fixed.front().launches);
  // 8 of attention, a norm, 13 + 21 of the router, 17 of the all-to-all before the wait, 8 of the shared expert; 11 of
  // the all-to-all, 10 of the experts, and 3 more. Loops cost nothing where a call costs nothing.
  CHECK(waiting[0].launches == 8 + 60);
  CHECK(waiting[1].launches == 24);
  Framework priced;
  priced.host_seconds_per_kernel = 50e-6, priced.host_loop_time = 5e-6;
  CHECK(runs(priced, true)[1].launches == 26);  // 2 experts x 2 products and 16 events, a tenth each: 2 more
  Framework graphs;
  graphs.cuda_graph = CudaGraph::full;
  CHECK(runs(graphs, true).front().launches == 0);
  graphs.cuda_graph = CudaGraph::attention;
  CHECK(runs(graphs, true)[0].launches == 2 + 60);
  graphs.cuda_graph = CudaGraph::router;  // with what comes before the wait, but the shared expert
  CHECK(runs(graphs, true)[0].launches == 8 + 2 + 8);
  CHECK(runs(graphs, true)[1].launches == 24);
}

TEST_CASE("what is recomputed is launched again, if no graph holds it") {
  const auto more = [](std::set<RecomputeModule> modules, CudaGraph graph) {
    Framework framework;
    framework.cuda_graph = graph;
    Training again;
    again.recompute = Recompute::selective;
    again.recompute_modules.insert(modules.begin(), modules.end());
    const auto launched = [&](const Training& training) {
      return experts(framework_network(latent(), training, framework, shared_by(4))).backward_launches;
    };
    return launched(again) - launched({});
  };
  using enum RecomputeModule;
  CHECK(more({moe_act}, CudaGraph::none) == 6 + 1);
  CHECK(more({core_attn}, CudaGraph::none) == 6 + 3);
  CHECK(more({layernorm}, CudaGraph::none) == 2 * (6 + 2));
  CHECK(more({mla_up_proj}, CudaGraph::none) == 6 + 13 + 2);
  CHECK(more({mlp}, CudaGraph::none) == 0);  // of layers without experts
  CHECK(more({shared_experts}, CudaGraph::none) == 6 + 8);
  CHECK(more({mla_up_proj, layernorm}, CudaGraph::attention) == 6 + 2);
  CHECK(more({mla_up_proj, layernorm, moe_act}, CudaGraph::attention_router) == 6 + 1);
}

TEST_CASE("experts as slices of one tensor clear and add up a gradient of all for each of them") {
  Framework framework;
  framework.expert_slices = true, framework.launches = LaunchCounts::eager;
  const auto network = framework_network(tiny(), {}, framework, alone());
  double moved = 0;
  for (const auto& step : experts(network).input_gradient_steps)
    if (step.name == "gradients of slices") moved += double(std::get<MemoryBound>(step.what).traffic.count());
  // 8 experts of 64 x 64 (gate and up) and 32 x 64; for each 2 bytes cleared and 6 read and written of all.
  CHECK(moved == 8 * (2 + 6) * (8 * 64 * 64 + 8 * 32 * 64));
  CHECK(!step(experts(framework_network(tiny(), {}, {}, alone())).input_gradient_steps, "gradients of slices"));
  // An eager layer has 49 launches, 22 fewer with fused norms and rotations; a router and the rows 22, an expert 4.
  CHECK(network.layers.front().forward_launches.front().launches == 27);
  std::int64_t launches = 0;
  for (const auto& run : experts(network).forward_launches) launches += run.launches;
  CHECK(launches == 27 + 22 + 8 * 4);
  Training unfused;
  unfused.kernels = Kernels::unfused;
  CHECK(framework_network(tiny(), unfused, framework, alone()).layers.front().forward_launches.front().launches == 49);
}

TEST_CASE("under another micro-batch each exchange has a stretch of kernels to itself") {
  Framework framework;
  framework.expert_overlap = true;
  const auto network = framework_network(tiny(), {}, framework, shared_by(4));
  for (const auto* list : {&experts(network).forward, &experts(network).backward}) {
    std::size_t end = 0, hidden = 0;
    for (std::size_t i = 0; i < list->size(); ++i) {
      CHECK(!std::holds_alternative<TokenDispatch>((*list)[i].what));
      if (!(*list)[i].beside) continue;
      CHECK(i >= end);  // one at a time
      end = i + (*list)[i].beside_steps;
      CHECK(end <= list->size());
      ++hidden;
    }
    CHECK(hidden == 2);
  }
}

TEST_CASE("shared experts stand beside the exchanges of their own micro-batch, in two halves") {
  auto shard = shared_by(4);
  shard.tensor = 2, shard.sequence_parallel = true;
  Framework framework;
  framework.weight_gradient_overlap = framework.async_tensor =
      true;  // neither is for them: they communicate themselves
  const auto plain = framework_network(tiny(), {}, framework, shard);
  framework.shared_expert_overlap = true;
  const auto network = framework_network(tiny(), {}, framework, shard);
  const auto& part = experts(network);
  using Names = std::vector<std::string_view>;
  const auto stretches = [](const std::vector<Step>& list) {
    std::vector<Names> all;
    for (std::size_t i = 0; i < list.size(); ++i) {
      CHECK(!std::holds_alternative<TokenDispatch>(list[i].what));
      if (!list[i].beside) continue;
      all.push_back({list[i - 1].name});  // where the exchange begins
      for (std::size_t s = 0; s < list[i].beside_steps; ++s) all.back().push_back(list[i + s].name);
    }
    return all;
  };
  CHECK(stretches(part.forward) == std::vector<Names>{{"dispatch", "tensor all-gather", "shared up", "activation"},
                                                      {"combine", "shared down", "tensor reduce-scatter"}});
  CHECK(
      stretches(part.input_gradient_steps) ==
      std::vector<Names>{{"combine gradient", "tensor all-gather", "shared down gradient"},
                         {"dispatch gradient", "activation gradient", "shared up gradient", "tensor reduce-scatter"}});
  CHECK(stretches(part.backward) ==
        std::vector<Names>{{"combine gradient", "tensor all-gather", "shared down gradient", "shared down weights"},
                           {"dispatch gradient", "activation gradient", "shared up gradient", "shared up weights",
                            "tensor reduce-scatter"}});
  // The product keeps the rows that were gathered for it: 128 of 64 columns in 2 bytes.
  CHECK(lives(part).activations - lives(experts(plain)).activations == Bytes(128 * 64 * 2));
  // Alone in its tensor group it keeps what it kept, and a repeated forward hides its exchanges as well.
  const auto kept = [&](bool overlap) {
    framework.shared_expert_overlap = overlap;
    return lives(experts(framework_network(tiny(), {}, framework, shared_by(4)))).activations;
  };
  CHECK(kept(true) == kept(false));
  Training training;
  training.recompute = Recompute::full;
  framework.shared_expert_overlap = true;
  const auto again = framework_network(tiny(), training, framework, shared_by(4));
  CHECK(stretches(experts(again).backward).size() == 4);
}

TEST_CASE("what is recomputed of a layer with experts, module by module") {
  Training training;
  training.recompute = Recompute::selective;
  const auto repeated = [&](RecomputeModule module) {
    training.recompute_modules = {module};
    const auto network = framework_network(latent(), training, {}, shared_by(4));
    std::vector<std::string_view> names;
    for (const auto& s : experts(network).backward)
      if (s.repeats) names.push_back(s.name);
    return names;
  };
  using Names = std::vector<std::string_view>;
  CHECK(repeated(RecomputeModule::moe_act) == Names{"activation"});
  CHECK(repeated(RecomputeModule::shared_experts) == Names{"shared up", "activation", "shared down"});
  const auto up = repeated(RecomputeModule::mla_up_proj);
  CHECK(std::find(up.begin(), up.end(), "query up") != up.end());
  CHECK(std::find(up.begin(), up.end(), "query down") == up.end());
  const auto moe = repeated(RecomputeModule::moe);
  CHECK(std::count(moe.begin(), moe.end(), "dispatch") == 1);
  CHECK(std::count(moe.begin(), moe.end(), "combine") == 1);
  CHECK(std::count(moe.begin(), moe.end(), "activation") == 2);  // of the experts, and of the shared ones
  CHECK(std::count(moe.begin(), moe.end(), "shared up") == 1);
}

TEST_CASE("no value of a layer with experts outlives its backward, whatever is asked") {
  for (const auto& m : {tiny(), latent()})
    for (const auto overlap : {&Framework::early_stop, &Framework::expert_overlap, &Framework::shared_expert_overlap})
      for (const bool two_hop : {false, true})
        for (const auto precision : {Precision::bf16, Precision::fp8}) {
          Framework framework;
          framework.*overlap = true, framework.fp8_scaling = Fp8Scaling::mx;
          Training training;
          training.precision = precision;
          const auto network = framework_network(m, training, framework, shared_by(2), {.two_hop = two_hop});
          const auto found = lives(experts(network));  // INVARIANTs inside
          CHECK(found.activations > Bytes{});
          if (m.mtp_layers > 0) CHECK(lives(network.prediction).activations > Bytes{});
        }
}
