// A bigram model: logits of the next token = head . table[token], by the kernels of this room on the synthetic tokens.
#include "bench.hpp"
#include "run.hpp"

namespace rehearsal::cpu {
namespace {

constexpr std::int64_t kTokens = 256, kVocabulary = 30, kWidth = 16, kTable = kVocabulary * kWidth;

}  // namespace

// Initially all tokens are about equally likely: a loss of about log 30 = 3.4. Nine in ten next tokens follow one map,
// so the best that a bigram model can reach is about 0.1 log 30 + H(0.1) = 0.34 + 0.33.
TEST_CASE("the synthetic tokens can be learnt within a few steps") {
  Bench bench;
  const BufferId table = bench.resident(4 * kTable), head = bench.resident(4 * kTable);
  const BufferId dtable = bench.resident(4 * kTable), dhead = bench.resident(4 * kTable);
  const BufferId table_moments = bench.resident(8 * kTable), head_moments = bench.resident(8 * kTable);
  const BufferId loss = bench.resident(8);
  const BufferId x = bench.buffer(kTokens * kWidth), logits = bench.buffer(kTokens * kVocabulary);
  const BufferId parts = bench.buffer(kTokens * 3), lse = bench.buffer(kTokens), dx = bench.buffer(kTokens * kWidth);
  bench.add(KernelKind::embed, {kTokens, kWidth, kVocabulary},
            {{x, Access::allocate}, {table, Access::read}, {x, Access::write}});
  bench.add(KernelKind::linear, {kTokens, kVocabulary, kWidth},
            {{logits, Access::allocate}, {x, Access::read}, {head, Access::read}, {logits, Access::write}});
  bench.add(KernelKind::cross_entropy_local, {kTokens, kVocabulary, kVocabulary, 1},
            {{parts, Access::allocate}, {logits, Access::read}, {parts, Access::write}});
  bench.add(KernelKind::cross_entropy, {kTokens, kVocabulary, kVocabulary, 1, kTokens},
            {{lse, Access::allocate},
             {parts, Access::read},
             {lse, Access::write},
             {loss, Access::write},
             {parts, Access::free}});
  bench.add(KernelKind::cross_entropy_gradient, {kTokens, kVocabulary, kVocabulary, kTokens},
            {{lse, Access::read}, {logits, Access::write}, {lse, Access::free}});
  bench.add(KernelKind::linear_weight_gradient, {kTokens, kVocabulary, kWidth},
            {{logits, Access::read}, {x, Access::read}, {dhead, Access::write}, {x, Access::free}});
  bench.add(KernelKind::linear_input_gradient, {kTokens, kVocabulary, kWidth},
            {{dx, Access::allocate},
             {logits, Access::read},
             {head, Access::read},
             {dx, Access::write},
             {logits, Access::free}});
  bench.add(KernelKind::embed_gradient, {kTokens, kWidth, kVocabulary},
            {{dx, Access::read}, {dtable, Access::write}, {dx, Access::free}});
  bench.add(KernelKind::adamw, {kTable},
            {{dtable, Access::write}, {table, Access::write}, {table_moments, Access::write}});
  bench.add(KernelKind::adamw, {kTable},
            {{dhead, Access::write}, {head, Access::write}, {head_moments, Access::write}});
  const auto matrix = [](graph::TensorKind kind) {
    return graph::Tensor{kind, 0, 0, 1, kVocabulary, kWidth, kVocabulary};
  };
  bench.program.segment({.parameters = table, .elements = kTable, .tensors = {matrix(graph::TensorKind::token_table)}});
  bench.program.segment({.parameters = head, .elements = kTable, .tensors = {matrix(graph::TensorKind::head_weight)}});
  const graph::TaskGraph graph = bench.one_rank();

  const auto worker = make_worker(
      graph, RankId(0),
      training({.seed = 1, .micro_batch = 8, .sequence = 32, .vocabulary = kVocabulary, .learning_rate = 3e-2f}));
  for (int s = 0; s < 60; ++s) step(*worker, graph, s);
  const std::vector<double> losses = worker->learned().loss;
  CHECK(losses[0] == doctest::Approx(std::log(30.)).epsilon(0.02));
  for (int s = 1; s < 10; ++s) CHECK(losses[s] < losses[s - 1]);
  CHECK(losses[59] < 1);
  CHECK(worker->learned().squared_gradients[0] > 0);
}

}  // namespace rehearsal::cpu
