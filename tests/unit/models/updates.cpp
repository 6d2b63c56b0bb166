// Updates inside the backward (LOMO) as a framework runs them, tensor by tensor: h 1024, 16 heads, ffn 2816, Llama.
#include <doctest/doctest.h>

#include <algorithm>

#include "models/framework.hpp"
#include "models/lives.hpp"
#include "models/traffic.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

constexpr double kSquare = 1024. * 1024, kWide = 1024. * 2816;

Network network(Precision precision, bool at_once = true) {
  Transformer m;
  m.family = Family::llama, m.ffn_kind = FfnKind::swiglu, m.tie_embeddings = false;
  m.layers = 1, m.hidden = 1024, m.heads = m.kv_heads = 16, m.head_dim = 64, m.ffn = 2816;
  m.vocabulary = 51200, m.sequence = 2048;
  Training training;
  training.precision = precision, training.optimizer = &optimizer("lomo");
  const Shard shard{.updates_in_backward = at_once};
  return framework_network(m, training, Framework{}, shard, {});
}

std::vector<double> updates(const std::vector<Step>& steps) {
  std::vector<double> moved;
  for (const auto& step : steps)
    if (step.name == "update") moved.push_back(double(std::get<MemoryBound>(step.what).traffic.count()));
  return moved;
}

double kept(const Part& part) {
  double all = 0;
  for (const auto& segment : part.segments) all += optimizer("adalomo").also_keeps(segment.tensors);
  return all;
}

}  // namespace

TEST_CASE("every tensor is updated once, from the last one back") {
  const auto net = network(Precision::fp16);
  // down, gate and up, out, and q, k and v with the two norms: 30 bytes of each parameter.
  const std::vector<double> expected{30 * kWide, 30 * 2 * kWide, 30 * kSquare, 30 * (3 * kSquare + 2 * 1024)};
  CHECK(updates(net.layers.front().backward) == expected);
  CHECK(updates(net.layers.front().weight_gradient_steps) == expected);
  CHECK(updates(net.embedding.backward) == std::vector<double>{30 * 51200. * 1024});
  CHECK(updates(network(Precision::fp32).layers.front().backward).front() == 12 * kWide);
  CHECK(updates(network(Precision::fp16, false).layers.front().backward).empty());
}

TEST_CASE("a gradient waits until the next one is there, and lives no longer") {
  const auto part = network(Precision::fp16).layers.front();
  const auto lives = models::lives(part);
  const auto& steps = part.backward;
  std::vector<double> alive, most;
  const auto is_gradient = [&](std::uint16_t v) {
    return std::any_of(steps.begin(), steps.end(), [&](const Step& step) {
      return step.name == "update" && !step.operands[0].written && step.operands[0].index == v;
    });
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& life = lives.of(PassKind::backward)[i];
    for (const auto v : life.born)
      if (is_gradient(v)) alive.push_back(double(part.values[v].size.count()));
    double sum = 0;
    for (const double bytes : alive) sum += bytes;
    if (!life.born.empty() && !alive.empty()) most.push_back(sum);
    for (const auto v : life.dies)
      if (is_gradient(v)) alive.erase(std::find(alive.begin(), alive.end(), double(part.values[v].size.count())));
  }
  CHECK(alive.empty());
  // The most are those of down, and of gate and up.
  CHECK(*std::max_element(most.begin(), most.end()) == 2 * 3 * kWide);
}

TEST_CASE("AdaLOMO: operation by operation, and a moment of rows and columns") {
  Training training;
  training.optimizer = &optimizer("adalomo"), training.precision = Precision::bf16;
  // Gradient: cast 6, scaled 8, squared 8, epsilon 8, two means 8, outer product 4, times the gradient 12, norm 4,
  // divided 8. Parameters: cast 6, norm 4, step 12, back 6.
  CHECK(update_at_once(training, Framework{}).gradient == 66);
  CHECK(update_at_once(training, Framework{}).parameters == 28);
  training.precision = Precision::fp32;
  CHECK(update_at_once(training, Framework{}).all() == 60 + 16);
  const auto part = network(Precision::fp16).layers.front();
  // q, k, v and out: 2048 each; gate, up and down: 1024 + 2816; two norms of 1024.
  CHECK(kept(part) == 4 * (4 * 2048 + 3 * 3840 + 2 * 1024));
  CHECK(tensors_of(part.segments).size() == 9);
  CHECK(largest(tensors_of(part.segments)) == kWide);
  // Of GPT, biases are vectors: those of queries, keys and values in a row too.
  Transformer gpt;
  gpt.layers = 1, gpt.hidden = 1024, gpt.heads = gpt.kv_heads = 16, gpt.head_dim = 64, gpt.ffn = 4096;
  gpt.vocabulary = 51200, gpt.sequence = 2048;
  const auto layer = framework_network(gpt, training, Framework{}, Shard{}, {}).layers.front();
  const double vectors = 4. * 1024 /* norms */ + 3 * 1024 + 1024 + 4096 + 1024;
  CHECK(kept(layer) == 4 * (3 * 2048 + 2048 + 2 * 5120 + vectors));
}

TEST_CASE("states in fewer bits, and without a master copy") {
  Training t;
  t.precision = Precision::bf16;
  CHECK(t.optimizer_state_bytes() == 12);  // master copy and two moments, 4 bytes each
  t.moments = Moments::bf16;
  CHECK(t.optimizer_state_bytes() == 8);
  t.master_copy = false;
  CHECK(t.optimizer_state_bytes() == 4);
  t.moments = Moments::int8;  // a byte each, and 4 for 256 of them
  CHECK(t.optimizer_state_bytes() == 2 + 8. / 256);
  t.moments = Moments::int8_2048;
  CHECK(t.optimizer_state_bytes() == 2 + 8. / 2048);
  t.optimizer = &optimizer("sgd");
  CHECK(t.optimizer_state_bytes() == 0);
  t.optimizer = &optimizer("adamw"), t.precision = Precision::fp32, t.moments = Moments::fp32, t.master_copy = true;
  CHECK(t.optimizer_state_bytes() == 8);
  // What is not there is neither read nor written.
  Framework framework;
  framework.optimizer_bytes = 40;
  t.precision = Precision::bf16;
  CHECK(optimizer_bytes(t, framework) == 40);
  t.moments = Moments::bf16;
  CHECK(optimizer_bytes(t, framework) == 32);
  t.master_copy = false;
  CHECK(optimizer_bytes(t, framework) == 24);
}
