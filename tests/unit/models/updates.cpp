// Updates inside the backward (LOMO) as a framework runs them: h 1024, 16 heads, ffn 2816, Llama; tensor by tensor.
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
  training.precision = precision;
  const Shard shard{.updates_in_backward = at_once};
  return framework_network(m, training, Software{}, shard, {});
}

std::vector<double> updates(const std::vector<Step>& steps) {
  std::vector<double> moved;
  for (const auto& step : steps)
    if (step.name == "update") moved.push_back(double(std::get<MemoryBound>(step.what).traffic.count()));
  return moved;
}

}  // namespace

TEST_CASE("every tensor is updated once, from the last one back") {
  const auto net = network(Precision::fp16);
  // down, gate and up, out, and q, k and v with the two norms: 40 bytes of each parameter.
  const std::vector<double> expected{40 * kWide, 40 * 2 * kWide, 40 * kSquare, 40 * (3 * kSquare + 2 * 1024)};
  CHECK(updates(net.layer().backward) == expected);
  CHECK(updates(net.layer().weight_gradient_steps) == expected);
  CHECK(updates(net.embedding.backward) == std::vector<double>{40 * 51200. * 1024});
  CHECK(updates(network(Precision::fp32).layer().backward).front() == 16 * kWide);
  CHECK(updates(network(Precision::fp16, false).layer().backward).empty());
}

TEST_CASE("a gradient waits until the next one is there, and lives no longer") {
  const auto part = network(Precision::fp16).layer();
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
