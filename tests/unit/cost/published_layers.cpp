// Times of whole layers against an independent evaluation of the same equations, and against published stage profiles.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "machines.hpp"
#include "models/framework.hpp"

using namespace rehearsal;
using namespace rehearsal::test;

namespace {

struct Parts {
  double gemm = 0, attention = 0, memory = 0, tensor = 0;  // seconds, without kernel gaps
  double sum() const { return gemm + attention + memory + tensor; }
};

Parts parts(const cost::CostModel& cost, const std::vector<models::Step>& operators, const models::Shard& shard) {
  Parts p;
  for (const auto& op : operators) {
    if (op.name.starts_with("final norm")) continue;  // not in the evaluation that these tests compare with
    if (const auto* g = std::get_if<Gemm>(&op.what)) (g->batch > 1 ? p.attention : p.gemm) += cost.gemm(*g);
    if (const auto* a = std::get_if<FusedAttention>(&op.what)) p.attention += cost.attention(*a);
    if (const auto* m = std::get_if<MemoryBound>(&op.what)) p.memory += cost.memory_bound(*m);
    if (const auto* c = std::get_if<models::GroupCollective>(&op.what)) {
      const auto t = static_cast<std::uint32_t>(shard.tensor);
      p.tensor += cost.collective({c->kind, c->size, {t, 1}});
    }
  }
  return p;
}

struct Row {
  std::int64_t hidden, heads, tensor, micro_batch, microbatches;
  double forward[4], input[4], weight[2], head;  // ms: gemm, attention, memory, tensor | gemm, accumulation
};

}  // namespace

TEST_CASE("layers of Megatron 2021 table 1") {
  // Expected values: a Python evaluation of the equations of models/README.md, which predicts the iteration times of
  // all ten rows of arXiv 2104.04473 table 1 with a mean error of 2 %. Rows 1, 4, 7 and 10: 1.7 B, 18 B, 146 B, 1 T.
  const Row rows[] = {
      {2304, 24, 1, 16, 1, {18.6320, 4.5499, 18.573, 0}, {18.5987, 9.0998, 13.3969, 0}, {16.2237, 0}, 148.8648},
      {6144, 48, 8, 8, 4, {8.3370, 0.6042, 4.1322, 3.342}, {8.3226, 1.2084, 3.1939, 3.342}, {7.3263, .1573}, 21.4259},
      {12288,
       96,
       8,
       2,
       48,
       {8.3910, 0.3027, 2.0661, 1.7416},
       {8.3625, 0.6055, 1.5969, 1.7416},
       {7.3312, .8214},
       10.2522},
      {25600,
       160,
       8,
       1,
       512,
       {17.8473, 0.3161, 1.9528, 1.8144},
       {17.7937, 0.6322, 1.5289, 1.8144},
       {16.0191, 3.6338},
       10.5432},
  };
  auto machine = dgx_a100(4);
  machine.gpu.kernel_gap = Time();
  const cost::CostModel cost(machine, a100_curves(), megatron_2021());
  for (const Row& row : rows) {
    CAPTURE(row.hidden);
    models::Shard shard{row.tensor, false, row.micro_batch, 2048, row.microbatches};
    const auto network = gpt(1, row.hidden, row.heads, 2048);
    const auto work = models::framework_network(network, fp16_unfused(), megatron_2021(), shard).layers.front();
    const auto agree = [](double got, double wanted_ms) {
      CHECK(got * 1e3 == doctest::Approx(wanted_ms).epsilon(.01));
    };
    const Parts f = parts(cost, work.forward, shard), b = parts(cost, work.input_gradient_steps, shard),
                w = parts(cost, work.weight_gradient_steps, shard);
    agree(f.gemm, row.forward[0]), agree(f.attention, row.forward[1]);
    agree(f.memory, row.forward[2]), agree(f.tensor, row.forward[3]);
    agree(b.gemm, row.input[0]);
    // Backward attention: two of the four GEMMs differ in shape from the forward ones.
    CHECK(b.attention * 1e3 == doctest::Approx(row.input[1]).epsilon(.01));
    agree(b.memory, row.input[2]), agree(b.tensor, row.input[3]);
    agree(w.gemm, row.weight[0]), agree(w.memory, row.weight[1]);
    const auto head = models::framework_network(network, fp16_unfused(), megatron_2021(), shard).head;
    agree(parts(cost, head.forward, shard).sum() + parts(cost, head.input_gradient_steps, shard).sum() +
              parts(cost, head.weight_gradient_steps, shard).sum(),
          row.head);
  }
}

TEST_CASE("stage times of Zero Bubble table 9") {
  // arXiv 2401.10241, table 9 (first row of each model), A100 80 GB, no tensor parallelism, ms. A middle stage holds
  // (layers + 2)/p layers. F and B are within 6 %; W of the two models with one sequence per micro-batch comes out 15 %
  // high (the whole of it is the 2 bytes per parameter of a fused accumulation, which would have to hide under the
  // GEMM).
  struct Stage {
    const char* model;
    std::int64_t hidden, heads, micro_batch, layers, microbatches;
    double forward, backward, weight;
  };
  const Stage stages[] = {{"1.5B", 2304, 24, 6, 3, 24, 18.522, 18.086, 9.337},
                          {"6.2B", 4096, 32, 3, 4, 24, 29.718, 29.444, 19.927},
                          {"14.6B", 5120, 40, 1, 3, 48, 11.347, 11.248, 8.132},
                          {"28.3B", 6144, 48, 1, 2, 96, 10.419, 10.207, 7.715}};
  auto framework = megatron_2021();
  framework.fused_accumulation = true;
  const cost::CostModel cost(dgx_a100(4), a100_curves(), framework);
  double mean = 0;
  for (const Stage& s : stages) {
    CAPTURE(s.model);
    models::Shard shard{1, false, s.micro_batch, 1024, s.microbatches};
    const auto work =
        models::framework_network(gpt(1, s.hidden, s.heads, 1024), fp16_unfused(), framework, shard).layers.front();
    const double n = 1e3 * double(s.layers);
    const double f = n * parts(cost, work.forward, shard).sum(),
                 b = n * parts(cost, work.input_gradient_steps, shard).sum(),
                 w = n * parts(cost, work.weight_gradient_steps, shard).sum();
    fmt::print(
        "zero bubble {:>5}: F {:.2f}/{:.2f} ({:+.1f} %)  B {:.2f}/{:.2f} ({:+.1f} %)  W {:.2f}/{:.2f} ({:+.1f} %)\n",
        s.model, f, s.forward, 100 * (f / s.forward - 1), b, s.backward, 100 * (b / s.backward - 1), w, s.weight,
        100 * (w / s.weight - 1));
    CHECK(f == doctest::Approx(s.forward).epsilon(.10));
    CHECK(b == doctest::Approx(s.backward).epsilon(.10));
    CHECK(w == doctest::Approx(s.weight).epsilon(s.micro_batch == 1 ? .16 : .10));
    const double measured = s.forward + s.backward + s.weight;
    mean += std::abs((f + b + w) / measured - 1) / 4;
  }
  CHECK(mean < .03);
}
