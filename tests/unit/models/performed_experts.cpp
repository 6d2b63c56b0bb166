// An expert layer as this program performs it: order of kernels, slots, exchanges, saved values.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "models/lives.hpp"
#include "models/rehearsal.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

// Two sequences of 4 tokens; 2 heads of 2 columns, one of keys; 4 experts 6 wide, two to a token.
constexpr std::int64_t T = 8, h = 4, E = 4, k = 2, f = 6;

Transformer mixture() {
  Transformer m;
  m.name = "tiny", m.family = Family::moe, m.ffn_kind = FfnKind::swiglu, m.tie_embeddings = false;
  m.layers = 2, m.hidden = h, m.heads = 2, m.kv_heads = 1, m.head_dim = 2, m.ffn = 10, m.vocabulary = 11,
  m.sequence = 4;
  m.experts = E, m.experts_per_token = k, m.expert_ffn = f;
  return m;
}
NetworkShape shape(std::int64_t expert, std::optional<double> capacity = {}) {
  NetworkShape s;
  s.shard.micro_batch = 2, s.shard.sequence = 4, s.shard.expert = expert;
  s.data = expert, s.capacity = capacity;
  return s;
}
Part layer(const Transformer& model, const NetworkShape& shape) {
  return performed_network(model, shape).layers.back();
}

std::string names(const std::vector<Step>& steps) {
  std::string all;
  for (const auto& step : steps) all += std::string(all.empty() ? "" : " ") + std::string(step.name);
  return all;
}
const Step& find(const std::vector<Step>& steps, std::string_view name) {
  return *std::find_if(steps.begin(), steps.end(), [&](const Step& s) { return s.name == name; });
}
KernelDims dims(const std::vector<Step>& steps, std::string_view name) {
  return std::get<Kernel>(find(steps, name).what).dims;
}

const std::string kAttention = "rms_norm linear rotary attention linear add ";

}  // namespace

TEST_CASE("rows go to their slots, to the ranks of their experts, and back") {
  const Part part = layer(mixture(), shape(2));
  CHECK(names(part.forward) == kAttention +
                                   "rms_norm linear route dispatch_rows all-to-all expert_linear swiglu "
                                   "expert_linear all-to-all combine_rows add");
  CHECK(names(part.input_gradient_steps)
            .starts_with("combine_rows_gradient all-to-all expert_linear_input_gradient swiglu_gradient "
                         "expert_linear_input_gradient all-to-all dispatch_rows_gradient route_gradient "
                         "linear_input_gradient add rms_norm_gradient add "));
  CHECK(names(part.weight_gradient_steps)
            .starts_with("expert_linear_weight_gradient expert_linear_weight_gradient linear_weight_gradient "));
  // No row is dropped: all 8 could go to one expert.
  CHECK(dims(part.forward, "route") == KernelDims{T, E, k, 8, 1});
  CHECK(dims(part.forward, "dispatch_rows") == KernelDims{T, h, k, E, 8});
  // From two ranks, for two experts here; gate and up are one product.
  CHECK(dims(part.forward, "expert_linear") == KernelDims{2, 2, 8, 2 * f, h});
  CHECK(dims(part.input_gradient_steps, "expert_linear_input_gradient") == KernelDims{2, 2, 8, h, f});
  const auto& exchange = find(part.forward, "all-to-all");
  CHECK(std::get<GroupCollective>(exchange.what).axis == Axis::expert);
  CHECK(std::get<GroupCollective>(exchange.what).size == Bytes(4 * E * 8 * h));
  REQUIRE(exchange.operands.size() == 2);
  CHECK(exchange.operands[0].index == find(part.forward, "dispatch_rows").operands[2].index);
  CHECK(exchange.operands[1].index == find(part.forward, "expert_linear").operands[0].index);
}

TEST_CASE("alone a rank exchanges nothing, and shared experts are added to the others") {
  Transformer model = mixture();
  model.shared_experts = 1, model.shared_ffn = f;
  const Part part = layer(model, shape(1));
  CHECK(names(part.forward) == kAttention +
                                   "rms_norm linear route dispatch_rows expert_linear swiglu expert_linear "
                                   "combine_rows linear swiglu linear add add");
  CHECK(dims(part.forward, "expert_linear") == KernelDims{1, E, 8, 2 * f, h});
  // Three operators read what was normed: two sums.
  const auto back = names(part.input_gradient_steps);
  CHECK(back.starts_with("linear_input_gradient swiglu_gradient linear_input_gradient combine_rows_gradient "));
  CHECK(back.find("dispatch_rows_gradient add route_gradient linear_input_gradient add rms_norm_gradient") !=
        std::string::npos);
}

TEST_CASE("a capacity is of one rank and micro-batch") {
  // Of 8 rows an expert gets 8 x 2 / 4 = 4 on the mean.
  const auto slots = [&](double capacity) { return dims(layer(mixture(), shape(2, capacity)).forward, "route")[3]; };
  CHECK(slots(1) == 4);
  CHECK(slots(1.1) == 5);
  CHECK(slots(.25) == 1);
  CHECK(slots(100) == 8);  // there are no more rows
  Transformer one = mixture();
  one.experts_per_token = 1;
  CHECK(dims(layer(one, shape(2)).forward, "route") == KernelDims{T, E, 1, 8, 0});  // the router must learn
}

TEST_CASE("what a layer with experts holds and keeps") {
  for (const std::int64_t ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    const Part part = layer(mixture(), shape(ranks));
    const double attention = 2 * h * h + 2 * 2 * h, own = double(E) / double(ranks) * 3 * f * h;
    CHECK(part.expert_parameters == own);
    CHECK(part.parameters == attention + 2 * h + E * h + own);
    REQUIRE(part.segments.size() == 2);
    CHECK(part.segments[1].elements == std::int64_t(own));
    CHECK((part.segments[1].tensors[0].outer_extent > 0) == (ranks > 1));
    // x, norm and its statistics, qkv, attention and its log-sums; the same of the second half, probabilities, slots
    // and weights; rows that arrived, gate and up, their product, rows that came back: 32 of each, wherever they are.
    const std::int64_t first = T * h + T + T * h + T * (h + 4) + T * h + T * 2;
    const std::int64_t second = T * h + T + T * h + T * E + 2 * T * k + E * 8 * (h + 2 * f + f + h);
    CHECK(lives(part).activations == Bytes(4 * (first + second)));
  }
}

TEST_CASE("a recomputation sends rows again, but does not combine them") {
  auto again = shape(2);
  again.recompute = Recompute::full;
  const Part part = layer(mixture(), again);
  std::vector<Step> repeated;
  std::copy_if(part.backward.begin(), part.backward.end(), std::back_inserter(repeated),
               [](const Step& s) { return s.repeats; });
  CHECK(names(repeated) == kAttention +
                               "rms_norm linear route dispatch_rows all-to-all expert_linear swiglu "
                               "expert_linear all-to-all");
  CHECK(lives(part).activations == Bytes(4 * T * h));  // its input
}

TEST_CASE("what this program has no kernels for is refused") {
  auto tensor = shape(1);
  tensor.shard.tensor = 2;
  CHECK_THROWS_AS(layer(mixture(), tensor), UserError);
  Transformer gelu = mixture();
  gelu.ffn_kind = FfnKind::gelu;
  CHECK_THROWS_AS(layer(gelu, shape(1)), UserError);
}
