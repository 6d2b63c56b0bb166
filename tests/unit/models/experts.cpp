// Mixtures of experts and latent attention: parameters, active parameters per token, and their cost.
#include <doctest/doctest.h>

#include "models/experts.hpp"
#include "models/transformer.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

// Small enough for paper: h 8, 2 heads of 4 with one kv head, V 16; of 3 layers the first is dense and 32 wide, the
// others have 4 experts of 6, of which a token sees 2, and 2 shared ones.
Transformer tiny() {
  Transformer m;
  m.family = Family::moe, m.ffn_kind = FfnKind::swiglu, m.tie_embeddings = false;
  m.layers = 3, m.hidden = 8, m.heads = 2, m.kv_heads = 1, m.head_dim = 4, m.ffn = 32, m.vocabulary = 16;
  m.experts = 4, m.experts_per_token = 2, m.expert_ffn = 6, m.shared_experts = 2, m.shared_ffn = 12;
  m.dense_layers = 1;
  return m;
}

}  // namespace

TEST_CASE("parameters of a mixture of experts: all, and those that a token meets") {
  // Attention: 8 (2 + 2 1) 4 + 8 8 = 192, and norms 16. Dense: 3 8 32 = 768. Experts: 4 x 3 8 6 = 576, shared
  // 3 8 12 = 288, router 8 4 = 32. Ends: 2 16 8 + 8 = 264.
  CHECK(parameters(tiny()) == 3 * (192 + 16) + 768 + 2 * (576 + 288 + 32) + 264);
  CHECK(active_parameters(tiny()) == 3 * (192 + 16) + 768 + 2 * (2 * 144 + 288 + 32) + 264);
  auto all = tiny();
  all.experts_per_token = 4;
  CHECK(active_parameters(all) == parameters(all));
  auto dense = tiny();
  dense.family = Family::llama, dense.experts = 0;
  CHECK(parameters(dense) == 3 * (192 + 16 + 768) + 264);
  CHECK(active_parameters(dense) == parameters(dense));
}

TEST_CASE("layers of both kinds") {
  const auto m = tiny();
  CHECK(m.is_moe());
  const auto table = layer_table(m);
  CHECK(table.of_layer == std::vector<std::uint16_t>{0, 1, 1});
  CHECK(!table.rows[0].spec.ffn.has_experts());
  CHECK(table.rows[1].spec.ffn.has_experts());
  CHECK(table.rows[1].count == 2);
  CHECK(table.last() == table.rows[1].spec);  // a module of multi-token prediction
  Transformer gpt;
  gpt.layers = 5;
  CHECK(layer_table(gpt).of_layer == std::vector<std::uint16_t>(5, 0));
  CHECK(layer_table(gpt).rows.front().count == 5);
}

TEST_CASE("latent attention") {
  // Queries through 5: 8 5 + 5 2 (3 + 2) = 90. Keys and values through 4 and a rotary key of 2: 8 (4 + 2) + 4 2 (3 + 1)
  // = 80. Out: 2 1 8 = 16. Norms of both ranks: 9.
  auto m = tiny();
  m.mla = Mla{.query_rank = 5, .kv_rank = 4, .rotary_dim = 2, .head_dim = 3, .value_dim = 1};
  CHECK(m.mixer().score_dim() == 5);
  CHECK(m.mixer().value_dim() == 1);
  const double others = parameters(tiny()) - 3 * 192;
  CHECK(parameters(m) == others + 3 * (90 + 80 + 16 + 9));
  m.mla->query_rank = 0;  // 8 2 (3 + 2) = 80
  CHECK(parameters(m) == others + 3 * (80 + 80 + 16 + 4));
}

TEST_CASE("a module of multi-token prediction is a layer, a product of 2h by h and three norms; it shares both ends") {
  auto m = tiny();
  m.mtp_layers = 1;
  const double layer = 192 + 16 + 576 + 288 + 32;
  CHECK(parameters(m) - parameters(tiny()) == layer + 2 * 64 + 3 * 8);
}

TEST_CASE("model FLOPs count the experts that a token is sent to") {
  // Per token 6 FLOP per entry of a matrix that it meets, attention 12 s a d a layer and the head 6 h V.
  const double met = 3 * 192 + 768 + 2 * (2 * 144 + 288 + 32), s = 10;
  CHECK(model_flops(tiny(), 10, 4).value() == 40 * (6 * met + 3 * 12 * s * 8 + 6 * 8 * 16));
  auto latent = tiny();
  latent.mla = Mla{.query_rank = 5, .kv_rank = 4, .rotary_dim = 2, .head_dim = 3, .value_dim = 1};
  // Scores over 3 + 2 columns, values over 1: 6 s a (5 + 1).
  CHECK(model_flops(latent, 10, 4).value() == 40 * (6 * (met + 3 * (186. - 192)) + 3 * 6 * s * 2 * 6 + 6 * 8 * 16));
  auto more = tiny();
  more.mtp_layers = 1;  // its layer, 2h by h, and the head once more
  CHECK(model_flops(more, 10, 4).value() - model_flops(tiny(), 10, 4).value() ==
        40 * (6 * (192 + 2 * 144 + 288 + 32 + 2 * 64.) + 12 * s * 8 + 6 * 8 * 16));
}

TEST_CASE("a skew is its text") {
  Skew skew;
  CHECK(skew.text() == "");
  skew.kind = Skew::Kind::zipf, skew.zipf = .5;
  CHECK(skew.text() == "zipf 0.5");
  skew.kind = Skew::Kind::loads, skew.loads = {1, 2.5};
  CHECK(skew.text() == "loads [1, 2.5]");
  skew.kind = Skew::Kind::trace, skew.trace = {{{1, 2}, {3, 4}}};
  CHECK(skew.text() == "trace [[[1, 2], [3, 4]]]");
}
