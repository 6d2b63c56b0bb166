// Ranks with programs of a few tasks, by hand: one linear layer y = x w^T against given rows, trained by SGD or AdamW.
#include "cpu/cpu_worker.hpp"

#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "bench.hpp"
#include "cpu/synthetic.hpp"
#include "oracle.hpp"
#include "run.hpp"

namespace rehearsal::cpu {
namespace {

constexpr std::int64_t T = 6, n = 4, kElements = n * n;
constexpr backend::TrainingData kLearning{
    .seed = 11, .micro_batch = T, .sequence = 1, .microbatches = 1, .vocabulary = 0, .width = n, .learning_rate = .5f};

// The training of the linear layer. Buffers: w, dw, moments, loss (residents), x, y, dy.
struct Layer : Bench {
  explicit Layer(bool keeps_previous = false)
      : previous(keeps_previous ? std::optional(resident(4 * kElements, MemoryCategory::parameters)) : std::nullopt) {
    segment.previous = previous;
  }
  std::optional<BufferId> previous;
  BufferId w = resident(4 * kElements, MemoryCategory::parameters);
  BufferId dw = resident(4 * kElements, MemoryCategory::gradients);
  BufferId moments = resident(8 * kElements, MemoryCategory::optimizer);
  BufferId loss = resident(8);
  BufferId x = buffer(T * n), y = buffer(T * n), dy = buffer(T * n);
  graph::Segment segment{
      .parameters = w, .elements = kElements, .tensors = {{graph::TensorKind::up_weight, 0, 0, 1, n, n, n}}};

  void forward_and_gradient() {
    add(KernelKind::load_rows, {T, n}, {{x, Access::allocate}, {x, Access::write}});
    add(KernelKind::linear, {T, n, n},
        {{y, Access::allocate}, {x, Access::read}, {w, Access::read}, {y, Access::write}});
    add(KernelKind::squared_error, {T, n, T}, {{y, Access::read}, {loss, Access::write}});
    add(KernelKind::squared_error_gradient, {T, n, T},
        {{dy, Access::allocate}, {y, Access::read}, {dy, Access::write}, {y, Access::free}});
    add(KernelKind::linear_weight_gradient, {T, n, n},
        {{dy, Access::read}, {x, Access::read}, {dw, Access::write}, {dy, Access::free}, {x, Access::free}});
  }
  void adamw(KernelKind kind = KernelKind::adamw) {
    add(kind, {kElements}, {{dw, Access::write}, {w, Access::write}, {moments, Access::write}});
  }
  void sgd() { add(KernelKind::sgd, {kElements}, {{dw, Access::write}, {w, Access::write}}); }

  graph::TaskGraph finish(std::uint32_t data = 0) { return program.segment(segment), one_rank(0, data); }
};

backend::RunOptions options() { return training(kLearning); }

// Loss of the linear layer with weights w on the synthetic rows: sum of squared errors / (2 T n).
double loss_of(const Doubles& weights, const Sample& data) {
  const Doubles y = oracle::product(T, n, n, wide(data.rows), false, weights, true);
  double loss = 0;
  for (std::size_t i = 0; i < y.size(); ++i) loss += std::pow(y[i] - double(data.row_targets[i]), 2) / (2. * T * n);
  return loss;
}

}  // namespace

// Residents 64 + 64 + 128 + 8 bytes; x, y and dy take 96 each and are all alive in the fourth task, which frees y at
// its end.
TEST_CASE("the high-water mark is the sum of the sizes of the buffers") {
  Layer layer;
  layer.forward_and_gradient();
  layer.sgd();
  const graph::TaskGraph graph = layer.finish();
  const auto worker = make_worker(graph, RankId(0), options());
  CHECK(worker->learned().peak == Bytes(264));
  worker->begin_step(0);
  worker->enter(LocalTask(0));
  CHECK(worker->learned().peak == Bytes(264 + 96));
  worker->leave(LocalTask(0));
  for (std::size_t t = 1; t < graph.programs()[0].size(); ++t) worker->enter(LocalTask(t)), worker->leave(LocalTask(t));
  CHECK(worker->learned().peak == Bytes(264 + 3 * 96));
  step(*worker, graph, 1);  // freed blocks that are used again do not count twice
  CHECK(worker->learned().peak == Bytes(264 + 3 * 96));
}

TEST_CASE("steps of SGD follow the gradient of the loss, which falls") {
  Layer layer;
  layer.forward_and_gradient();
  layer.sgd();
  const graph::TaskGraph graph = layer.finish();
  const auto worker = make_worker(graph, RankId(0), options());
  Doubles weights = wide(worker->learned().parameters.at(0));
  CHECK(weights[5] == double(initial(kLearning.seed, layer.segment.tensors[0], 5)));

  const Sample data = sample(kLearning, 0);
  Doubles losses, squares;
  for (int s = 0; s < 5; ++s) {
    step(*worker, graph, s);
    losses.push_back(loss_of(weights, data));
    const Doubles gradient = slopes([&](const Doubles& v) { return loss_of(v, data); }, weights);
    squares.push_back(inner(gradient, gradient));
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= .5 * gradient[i];
  }
  const dispatch::Learned learned = worker->learned();
  CHECK(distance(learned.parameters.at(0), weights) < 1e-6);
  REQUIRE(learned.loss.size() == 5);
  REQUIRE(learned.squared_gradients.size() == 5);
  for (std::size_t s = 0; s < 5; ++s) {
    CHECK(learned.loss[s] == doctest::Approx(losses[s]).epsilon(1e-6));
    CHECK(learned.squared_gradients[s] == doctest::Approx(squares[s]).epsilon(1e-5));
    if (s > 0) CHECK(learned.loss[s] < learned.loss[s - 1]);
  }
}

TEST_CASE("the version before the last update starts as the first one") {
  Layer layer(true);
  layer.add(KernelKind::copy, {kElements}, {{*layer.previous, Access::read}, {layer.w, Access::write}});
  const graph::TaskGraph graph = layer.finish();
  const auto worker = make_worker(graph, RankId(0), options());
  const Floats before = worker->learned().parameters.at(0);
  step(*worker, graph, 0);
  CHECK(worker->learned().parameters.at(0) == before);
  CHECK(before[0] != 0);
}

// Two micro-batches with the same data, each followed by its update, in one iteration: two iterations of one each.
TEST_CASE("AdamW counts updates, not iterations") {
  Layer once, twice;
  once.forward_and_gradient(), once.adamw();
  for (int i = 0; i < 2; ++i) twice.forward_and_gradient(), twice.adamw();
  const graph::TaskGraph single = once.finish(), both = twice.finish();
  const auto two_steps = make_worker(single, RankId(0), options()), one_step = make_worker(both, RankId(0), options());
  step(*two_steps, single, 0), step(*two_steps, single, 1), step(*one_step, both, 0);
  const dispatch::Learned a = two_steps->learned(), b = one_step->learned();
  CHECK(a.parameters == b.parameters);
  CHECK(a.squared_gradients[0] + a.squared_gradients[1] == b.squared_gradients[0]);
  CHECK(a.loss[0] + a.loss[1] == b.loss[0]);
}

TEST_CASE("a step that is taken back and taken again is one step") {
  Layer plain, validated;
  plain.forward_and_gradient(), plain.adamw();
  validated.forward_and_gradient();
  for (const auto kind : {KernelKind::adamw_keep, KernelKind::adamw_rollback, KernelKind::adamw}) validated.adamw(kind);
  const graph::TaskGraph straight = plain.finish(), detour = validated.finish();
  const auto a = make_worker(straight, RankId(0), options()), b = make_worker(detour, RankId(0), options());
  for (int s = 0; s < 3; ++s) step(*a, straight, s), step(*b, detour, s);
  CHECK(distance(b->learned().parameters[0], wide(a->learned().parameters[0])) < 1e-5);
  for (int s = 0; s < 3; ++s)
    CHECK(b->learned().squared_gradients[s] == doctest::Approx(a->learned().squared_gradients[s]).epsilon(1e-4));
}

TEST_CASE("data of another micro-batch is another loss") {
  Layer layer;
  layer.forward_and_gradient();
  const graph::TaskGraph graph = layer.finish();
  backend::RunOptions tampered = options();
  tampered.fault_injection.other_microbatch = [](RankId, LocalTask, std::uint32_t microbatch) {
    return microbatch + 1;
  };
  const auto honest = make_worker(graph, RankId(0), options()), other = make_worker(graph, RankId(0), tampered);
  step(*honest, graph, 0), step(*other, graph, 0);
  const Doubles weights = wide(honest->learned().parameters.at(0));
  CHECK(honest->learned().loss[0] == doctest::Approx(loss_of(weights, sample(kLearning, 0))).epsilon(1e-6));
  CHECK(other->learned().loss[0] == doctest::Approx(loss_of(weights, sample(kLearning, 1))).epsilon(1e-6));
  CHECK(std::abs(honest->learned().loss[0] - other->learned().loss[0]) > 1e-3);
}

// Three micro-batches each: data rank 1 begins with number 3 of the global batch.
TEST_CASE("every data rank has its own part of the data set") {
  Layer layer;
  layer.forward_and_gradient();
  const graph::TaskGraph graph = layer.finish(1);
  backend::TrainingData learning = kLearning;
  learning.microbatches = 3;
  const auto worker = make_worker(graph, RankId(0), training(learning));
  step(*worker, graph, 0);
  const Doubles weights = wide(worker->learned().parameters.at(0));
  CHECK(worker->learned().loss[0] == doctest::Approx(loss_of(weights, sample(learning, 3))).epsilon(1e-6));
}

TEST_CASE("unwritten memory reads as NaN") {
  Layer layer;
  layer.add(KernelKind::squared_error, {T, n, T},
            {{layer.y, Access::allocate}, {layer.y, Access::read}, {layer.loss, Access::write}});
  const graph::TaskGraph graph = layer.finish();
  auto untimed = options();
  untimed.times_matter = false;
  const auto worker = make_worker(graph, RankId(0), untimed);
  step(*worker, graph, 0);
  CHECK(std::isnan(worker->learned().loss[0]));
}

// One segment of 16 elements on every place of two tensor ranks and two replicas, by data or by context: eight of a
// tensor that all tensor ranks hold, eight of one that is split. All gradients are 1, so the square sum of a rank is
// the number that it counts.
TEST_CASE("the norm of the gradients counts every parameter once") {
  struct Case {
    std::uint32_t tensor, data;
    double plain, sharded;
    std::uint32_t context = 0;
  };
  // Without ZeRO the first replica counts both tensors, where the tensor rank is the first one, else only the split
  // one. With ZeRO the replicas count their shards: 0 has the first tensor, 1 the second.
  for (const Case& c : {Case{0, 0, 16, 8}, Case{1, 0, 8, 0}, Case{0, 1, 0, 8}, Case{1, 1, 0, 8}, Case{0, 0, 0, 8, 1}})
    for (const bool copy : {false, true})
      for (const std::int64_t shards : {1, 2}) {
        CAPTURE(c.tensor);
        CAPTURE(c.data);
        CAPTURE(shards);
        Bench bench;
        const BufferId w = bench.resident(64), dw = bench.resident(64);
        const BufferId moments = bench.resident(8 * 16 / shards), ones = bench.buffer(16);
        const std::int64_t e = 16 / shards, flat = static_cast<std::int64_t>(shards > 1 ? Flat::part : Flat::own);
        bench.add(KernelKind::add, {16}, {{ones, Access::allocate}, {ones, Access::read}, {dw, Access::write}});
        // A step, its rollback and the step once more: the gradient is used up twice and counted once.
        for (const KernelKind kind : {KernelKind::adamw_keep, KernelKind::adamw_rollback, KernelKind::adamw})
          bench.add(kind, {e, flat, flat}, {{dw, Access::write}, {w, Access::write}, {moments, Access::write}});
        bench.program.segment({.parameters = w,
                               .elements = 16,
                               .shards = shards,
                               .copy = copy,
                               .tensors = {{graph::TensorKind::out_bias, 0, 0, 1, 8, 1, 8, graph::Split::none},
                                           {graph::TensorKind::up_bias, 0, 8, 1, 8, 1, 16, graph::Split::tensor}}});
        const graph::TaskGraph graph = bench.one_rank(c.tensor, c.data, c.context);
        const auto worker = make_worker(graph, RankId(0), options());
        worker->begin_step(0);
        worker->enter(LocalTask(0));
        const std::span<std::byte> bytes = worker->payload(LocalTask(0));  // of `ones`
        const Floats values(16, 1);
        std::memcpy(bytes.data(), values.data(), bytes.size());
        for (std::size_t t = 0; t < 4; ++t) worker->perform(LocalTask(t));
        CHECK(worker->learned().squared_gradients.at(0) == (copy ? 0 : shards > 1 ? c.sharded : c.plain));
      }
}

// Three ranks; the group lists them as 2, 0, 1, so rank 0 has the second part.
TEST_CASE("operands of collectives, in place and from one buffer into another") {
  Bench bench;
  const BufferId whole = bench.resident(4 * 12), part = bench.resident(4 * 4);
  const graph::EndpointId group = bench.program.endpoint(graph::EndpointKind::group);
  const auto add = [&](CollectiveKind kind, std::vector<BufferUse> uses) {
    bench.add(graph::Collective{kind, Bytes(48), {.ranks = 3}}, std::move(uses), group.value);
  };
  add(CollectiveKind::all_reduce, {{whole, Access::write}});
  add(CollectiveKind::all_gather, {{whole, Access::write}});
  add(CollectiveKind::reduce_scatter, {{whole, Access::write}});
  add(CollectiveKind::all_gather, {{part, Access::read}, {whole, Access::write}});
  const ProgramId program = bench.graph.add(std::move(bench.program).finish());
  for (int r = 0; r < 3; ++r) bench.graph.add_rank(program);
  bench.graph.add_group(Axes{}, {{RankId(2), group}, {RankId(0), group}, {RankId(1), group}});
  const graph::TaskGraph graph = std::move(bench.graph).finish();
  const auto worker = make_worker(graph, RankId(0), options());

  const auto reduce = worker->operands(LocalTask(0));
  const std::byte* base = reduce.out.data();
  CHECK(reduce.in.data() == base);
  CHECK((reduce.in.size() == 48 && reduce.out.size() == 48));
  const auto gather = worker->operands(LocalTask(1));
  CHECK((gather.in.data() == base + 16 && gather.in.size() == 16));
  CHECK((gather.out.data() == base && gather.out.size() == 48));
  const auto scatter = worker->operands(LocalTask(2));
  CHECK((scatter.in.data() == base && scatter.in.size() == 48));
  CHECK((scatter.out.data() == base + 16 && scatter.out.size() == 16));
  const auto apart = worker->operands(LocalTask(3));
  CHECK((apart.in.size() == 16 && apart.in.data() != base));
  CHECK((apart.out.data() == base && apart.out.size() == 48));
  CHECK(worker->payload(LocalTask(3)).size() == 16);  // of the first buffer it names
}

TEST_CASE("a task that reaches beyond its buffers is refused") {
  Layer layer;
  layer.add(KernelKind::load_rows, {T + 1, n}, {{layer.x, Access::allocate}, {layer.x, Access::write}});
  layer.add(KernelKind::add, {n}, {{layer.w, Access::write}});
  const graph::TaskGraph graph = layer.finish();
  const auto worker = make_worker(graph, RankId(0), options());
  worker->begin_step(0);
  worker->enter(LocalTask(0));
  CHECK_THROWS_WITH_AS(worker->perform(LocalTask(0)), doctest::Contains("elements 0 to 28 of a buffer of 24"),
                       InternalError);
  CHECK_THROWS_WITH_AS(worker->perform(LocalTask(1)), doctest::Contains("has 2 operands, 1 are named"), InternalError);
}

#if !defined(__SANITIZE_ADDRESS__)  // the sanitizer ends the program where operator new would throw
TEST_CASE("running out of memory says who wanted how much") {
  Layer layer;
  const BufferId huge = layer.program.buffer({Bytes(std::int64_t{1} << 60), MemoryCategory::activations});
  layer.add(KernelKind::clear, {1}, {{huge, Access::allocate}, {huge, Access::write}});
  const graph::TaskGraph graph = layer.finish();
  const auto worker = make_worker(graph, RankId(0), options());
  CHECK_THROWS_WITH_AS(
      worker->enter(LocalTask(0)),
      "rank 0: out of memory for 'F0 s0 l0 clear': 1152921504606846976 bytes wanted while 264 are in use",
      MachineError);
}
#endif

}  // namespace rehearsal::cpu
