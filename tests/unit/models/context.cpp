// Attention of sequences split over the context group, as frameworks run it: h 1024, 16 heads of 64, 4 of keys and
// values; 2 sequences of 4096 tokens over 4 ranks, so 1024 tokens of each here.
#include <doctest/doctest.h>

#include "models/framework.hpp"
#include "models/lives.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

constexpr double kRows = 2 * 1024, kKeys = 4 * 64, kQueries = 16 * 64;
constexpr double kKeysAndValues = 2 * kRows * 2 * kKeys;  // bytes of a rank's own

Transformer llama() {
  Transformer m;
  m.family = Family::llama, m.ffn_kind = FfnKind::swiglu, m.tie_embeddings = false;
  m.layers = 1, m.hidden = 1024, m.heads = 16, m.kv_heads = 4, m.head_dim = 64, m.ffn = 2816;
  m.vocabulary = 51200, m.sequence = 4096;
  return m;
}
Training training(ContextKind context = ContextKind::ring, bool balance = true, bool causal = true) {
  Training t;
  t.context = context, t.context_balance = balance, t.causal = causal;
  return t;
}
Part layer(const Training& training, std::int64_t context = 4, std::int64_t tensor = 1,
           const Transformer& m = llama()) {
  Shard shard{.tensor = tensor, .micro_batch = 2, .sequence = 4096, .context = context};
  return framework_network(m, training, Framework{}, shard, {}).layers.front();
}

struct Attention {
  std::vector<FusedAttention> blocks;
  std::vector<GroupCollective> travels;  // of the context group
  std::size_t beside = 0;                // of these, those that run beside a block
  double sums = 0;                       // bytes
  double flops() const {
    double all = 0;
    for (const auto& b : blocks) all += b.flops().value();
    return all;
  }
  double bytes() const {
    double all = 0;
    for (const auto& t : travels) all += double(t.size.count());
    return all;
  }
};
Attention attention(const std::vector<Step>& steps) {
  Attention found;
  for (const auto& step : steps) {
    if (const auto* kernel = std::get_if<FusedAttention>(&step.what)) found.blocks.push_back(*kernel);
    if (const auto* travels = std::get_if<GroupCollective>(&step.what); travels && travels->axis == Axis::context)
      found.travels.push_back(*travels);
    if (const auto* both = std::get_if<OverlappedKernel>(&step.what)) {
      if (const auto* kernel = std::get_if<FusedAttention>(&both->piece)) {
        CHECK(both->pieces == 1);
        found.blocks.push_back(*kernel), found.travels.push_back(both->collective), ++found.beside;
      }
    }
    if (const auto* memory = std::get_if<MemoryBound>(&step.what); memory && step.name.ends_with(" sum"))
      found.sums += double(memory->traffic.count());
  }
  return found;
}
// Causal attention of 2 whole sequences with all heads: half of 2 s^2 2 d for each.
constexpr double kWhole = 2. * 16 * 4096 * 4096 * 2 * 64;

}  // namespace

TEST_CASE("a ring: a block while the next keys and values arrive") {
  const auto part = layer(training());
  const auto forward = attention(part.forward), back = attention(part.input_gradient_steps);
  for (const auto* pass : {&forward, &back}) {
    REQUIRE(pass->blocks.size() == 4);
    REQUIRE(pass->travels.size() == 3);
    CHECK(pass->beside == 3);
    for (const auto& t : pass->travels) CHECK(t.kind == CollectiveKind::shift);
    for (const auto& b : pass->blocks) CHECK(b.flops() == pass->blocks[0].flops());  // balanced
  }
  // All blocks together: a quarter of the whole; 2.5 times that in the backward.
  CHECK(forward.flops() == kWhole / 4);
  CHECK(back.flops() == 2.5 * kWhole / 4);
  // Keys and values three times, and with their gradients as often in the backward.
  CHECK(forward.bytes() == 3 * kKeysAndValues);
  CHECK(back.bytes() == 2 * forward.bytes());
  // Three parts are added up: 10 B per result; per gradient of a query, and of a key or value that was met: a half.
  CHECK(forward.sums == 3 * 10 * kRows * kQueries);
  CHECK(back.sums == 3 * 10 * kRows * (kQueries + .5 * 2 * kKeys));
}

TEST_CASE("in the order of the sequence the last rank of a ring works c - 1 whole blocks and half of one") {
  const auto part = layer(training(ContextKind::ring, false));
  const auto forward = attention(part.forward);
  // Of 4 x 4 blocks of which 8 are not masked it has 3 1/2.
  CHECK(forward.flops() == kWhole * 3.5 / 8);
  CHECK(forward.blocks[0].causal);
  CHECK(!forward.blocks[3].causal);
  CHECK(forward.blocks[3].keys == 1024);
  CHECK(forward.bytes() == 3 * kKeysAndValues);
  // Without a mask every rank has four.
  for (const bool balance : {true, false})
    CHECK(attention(layer(training(ContextKind::ring, balance, false)).forward).flops() == 2 * kWhole / 4);
}

TEST_CASE("keys and values that are gathered") {
  const auto part = layer(training(ContextKind::all_gather));
  const auto forward = attention(part.forward), back = attention(part.input_gradient_steps);
  REQUIRE(forward.blocks.size() == 1);
  CHECK(forward.blocks[0].queries == 1024);
  CHECK(forward.blocks[0].keys == 4096);
  CHECK(forward.flops() == kWhole / 4);
  REQUIRE(forward.travels.size() == 1);
  CHECK(forward.travels[0].kind == CollectiveKind::all_gather);
  CHECK(forward.bytes() == 4 * kKeysAndValues);
  // Gathered again, and their gradients scattered.
  REQUIRE(back.travels.size() == 2);
  CHECK(back.travels[0].kind == CollectiveKind::all_gather);
  CHECK(back.travels[1].kind == CollectiveKind::reduce_scatter);
  CHECK(back.bytes() == 8 * kKeysAndValues);
  CHECK(forward.beside + back.beside == 0);
  // The last rank in the order of the sequence, and no mask at all.
  CHECK(attention(layer(training(ContextKind::all_gather, false)).forward).flops() == kWhole * 3.5 / 8);
  CHECK(attention(layer(training(ContextKind::all_gather, true, false)).forward).flops() == kWhole / 2);
}

TEST_CASE("heads cut instead of the sequence") {
  const auto part = layer(training(ContextKind::all_to_all));
  const auto forward = attention(part.forward), back = attention(part.input_gradient_steps);
  for (const auto* pass : {&forward, &back}) {
    REQUIRE(pass->travels.size() == 4);  // queries, keys, values and results
    for (const auto& t : pass->travels) CHECK(t.kind == CollectiveKind::all_to_all);
    CHECK(pass->bytes() == 2 * kRows * (2 * kQueries + 2 * kKeys));
  }
  REQUIRE(forward.blocks.size() == 1);
  CHECK(forward.blocks[0].heads == 4);
  CHECK(forward.blocks[0].queries == 4096);
  CHECK(forward.flops() == kWhole / 4);
  CHECK(back.flops() == 2.5 * kWhole / 4);
  // As many keys as queries: 4 T h, of which (c - 1)/c leave the rank. Over 16 ranks each head of keys goes to four.
  auto many = llama();
  many.kv_heads = 16;
  CHECK(attention(layer(training(ContextKind::all_to_all), 4, 1, many).forward).bytes() == 4 * 2 * kRows * 1024);
  CHECK(attention(layer(training(ContextKind::all_to_all), 16).forward).bytes() ==
        2 * kRows / 4 * (2 * kQueries + 4 * 2 * kKeys));
}

TEST_CASE("what a rank holds of a cut sequence") {
  // A quarter of the tokens: a quarter of what is kept. Where heads are cut, what attention was given and gave is kept
  // as it came to attention: results twice.
  const auto whole = lives(layer(training(), 1));
  CHECK(lives(layer(training())).activations.count() * 4 == whole.activations.count());
  CHECK(lives(layer(training(ContextKind::all_gather))).activations.count() * 4 == whole.activations.count());
  for (const auto kind : {ContextKind::ring, ContextKind::all_gather, ContextKind::all_to_all})
    for (const auto mode : {Recompute::none, Recompute::selective, Recompute::full})
      for (const auto selects : {SelectiveRecompute::attention, SelectiveRecompute::operators}) {
        auto t = training(kind);
        t.recompute = mode;
        Framework framework;
        framework.selective_recompute = selects;
        const Shard shard{.micro_batch = 2, .sequence = 4096, .context = 4};
        const auto part = framework_network(llama(), t, framework, shard, {}).layers.front();
        CHECK(lives(part).activations.count() <= whole.activations.count() / 3);
        // Attention is repeated where its core is: by Megatron's selection, and by a full one.
        const bool repeats =
            mode == Recompute::full || (mode == Recompute::selective && selects == SelectiveRecompute::attention);
        std::size_t again = 0;
        for (const auto& step : part.backward) again += step.repeats && step.name == "attention";
        CHECK((again > 0) == repeats);
      }
  // Two buffers of keys and values in a ring, or all of them; four times the bytes in the backward of a ring.
  const auto gathered = [](const Part& part, const std::vector<Step>& steps) {
    std::vector<bool> named(part.values.size());
    for (const auto& step : steps)
      for (const auto& o : step.operands) named[o.index] = true;
    double all = 0;
    for (std::size_t v = 0; v < named.size(); ++v)
      if (named[v] && part.values[v].holds == Value::Holds::gathered) all += double(part.values[v].size.count());
    return all;
  };
  const auto ring = layer(training()), all = layer(training(ContextKind::all_gather));
  CHECK(gathered(ring, ring.forward) == 2 * kKeysAndValues);
  CHECK(gathered(ring, ring.input_gradient_steps) == 4 * kKeysAndValues);
  CHECK(gathered(all, all.forward) == 4 * kKeysAndValues);
  CHECK(gathered(all, all.input_gradient_steps) == 8 * kKeysAndValues);
}

TEST_CASE("latent heads travel whole") {
  auto m = llama();
  m.kv_heads = 16;
  m.mla = Mla{};
  m.mla->query_rank = 64, m.mla->kv_rank = 64, m.mla->rotary_dim = 16, m.mla->head_dim = 32, m.mla->value_dim = 16;
  const double keys = 16 * 48, values = 16 * 16;
  CHECK(attention(layer(training(), 4, 1, m).forward).bytes() == 3 * 2 * kRows * (keys + values));
  CHECK(attention(layer(training(ContextKind::all_to_all), 4, 1, m).forward).bytes() ==
        2 * kRows * (2 * keys + 2 * values));
  // Over 2 tensor ranks each has half of the heads.
  CHECK(attention(layer(training(), 4, 2, m).forward).bytes() == 3 * 2 * kRows * (keys + values) / 2);
}
