// How shards of ZeRO-3 travel: second copies and parts kept after a forward, fewer bits for gathers and reductions
// (ZeRO++, arXiv 2306.10209; FSDP2). Who sends how much, and what is kept for it, is solved by hand.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "answer/estimate.hpp"
#include "answer/predict.hpp"
#include "graph/validate.hpp"
#include "scenario/scenario.hpp"

using namespace rehearsal;
using doctest::Approx;

namespace {

using Sets = std::vector<std::string>;

// Two micro-batches on 2 nodes of 8 GPUs.
scenario::Scenario two_nodes(Sets more) {
  Sets sets{"cluster.nodes=2",
            "parallelism={data: 16, zero: 3}",
            "batch={global: 32, micro: 1, sequence: 1024}",
            "model={use: llama3-8b, layers: 4}",
            "framework=titan-2025",
            "training={recompute: full, gradient_precision: bf16}"};
  sets.insert(sets.end(), more.begin(), more.end());
  return scenario::load(PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml", sets);
}
answer::Result run(Sets more) { return answer::predict(two_nodes(std::move(more))); }

// Of Llama 3 8B: a layer, its matrices alone, and both tables with the last norm.
constexpr double kLayer = 218'112'000, kVectors = 2 * 4096, kEnds = 2 * 128256. * 4096 + 4096;
constexpr double kAll = 4 * kLayer + kEnds;

// Bytes of the collectives of rank 0, by kind and group.
struct Key {
  CollectiveKind kind;
  GroupShape group;
  friend auto operator<=>(const Key&, const Key&) = default;
};
std::map<Key, double> collectives(const answer::Result& result) {
  std::map<Key, double> all;
  const auto& graph = result.graph();
  const auto& program = graph.program_of(graph.ranks().front());
  const auto add = [&](WorkId work, double times) {
    if (const auto* c = std::get_if<graph::Collective>(&graph.works()[work.index()]))
      all[{c->kind, c->group}] += double(c->size.count()) * times;
  };
  for (std::size_t i = 0; i < program.size(); ++i) {
    add(program.work[i], 1);
    if (const auto* several = std::get_if<graph::Sequence>(&graph.works()[program.work[i].index()]))
      for (const auto& item : several->items) add(item.work, item.count);
  }
  return all;
}
double memory(const answer::Result& result, graph::MemoryCategory category) {
  return double(result.summary.ranks.front().memory[static_cast<std::size_t>(category)].count());
}
Time without_contention(Sets more) {
  more.push_back("simulate.contention=off");
  return run(std::move(more)).summary.iteration;
}

constexpr Key kFromAll{CollectiveKind::all_gather, {16, 1}}, kFromNode{CollectiveKind::all_gather, {8, 1}},
    kScattered{CollectiveKind::reduce_scatter, {16, 1}};
const Sets kCopy{"parallelism={data: 16, zero: 3, secondary_shard: 8}"},
    kParts{"training.fsdp={reshard_after_forward: 8}"}, kInt8{"training.quantised_gathers=int8"},
    kInt4{"training.quantised_reductions=int4"};
// Slower than any NIC, so that everything that crosses nodes shows.
const std::string kSlow = "cluster.links.scale_out.bandwidth=10Gb/s";

}  // namespace

TEST_CASE("a second copy: one gather a step from all, the others inside the node, and a copy that is held") {
  const auto usual = run({}), second = run(kCopy);
  graph::validate(second.graph());
  const auto before = collectives(usual), sent = collectives(second);
  // Weights have 2 bytes. In each of two micro-batches layers are gathered twice and ends once.
  CHECK(before.at(kFromAll) == Approx(2 * 2 * (2 * 4 * kLayer + kEnds)).epsilon(1e-9));
  CHECK(sent.at(kFromAll) == Approx(2 * kAll).epsilon(1e-9));
  CHECK(sent.at(kFromNode) == Approx(2 * (3 * 4 * kLayer + kEnds)).epsilon(1e-9));
  CHECK(sent.at(kScattered) == before.at(kScattered));
  using graph::MemoryCategory;
  CHECK(memory(second, MemoryCategory::parameters) - memory(usual, MemoryCategory::parameters) ==
        Approx(2 * kAll / 8).epsilon(1e-6));
  auto slow = kCopy;
  slow.push_back(kSlow);
  CHECK(without_contention(slow) < without_contention({kSlow}));
}

TEST_CASE("parts kept after a forward: its gathers from all, those of the backward inside the node") {
  const auto usual = run({}), parts = run(kParts);
  graph::validate(parts.graph());
  const auto sent = collectives(parts);
  CHECK(sent.at(kFromAll) == Approx(2 * 2 * kAll).epsilon(1e-9));
  CHECK(sent.at(kFromNode) == Approx(2 * 2 * 4 * kLayer).epsilon(1e-9));
  // Nothing stays behind the step: what is held at most at once grows by the parts of the layers, or less.
  using graph::MemoryCategory;
  CHECK(memory(parts, MemoryCategory::parameters) == memory(usual, MemoryCategory::parameters));
  const double more = parts.summary.peak.allocated - usual.summary.peak.allocated;
  CHECK(more >= 0);
  CHECK(more <= 2 * 4 * kLayer / 8);
  CHECK(without_contention({kSlow, kParts.front()}) < without_contention({kSlow}));
  // Kept whole, they need no second gather and more memory.
  const auto kept = run({"training.fsdp={reshard_after_forward: false}"});
  CHECK(kept.summary.peak.allocated > parts.summary.peak.allocated);
}

TEST_CASE("gathers in 8 bits: half the bytes and a scale for each 8000, kernels on either side") {
  const auto usual = run({}), narrow = run(kInt8);
  graph::validate(narrow.graph());
  const double wide = collectives(usual).at(kFromAll), sent = collectives(narrow).at(kFromAll);
  CHECK(sent == Approx(wide * (1 + 4. / 8000) / 2).epsilon(1e-6));
  // Each of 2 (2 x 4 + 2) gathers is two, behind a kernel and before one.
  const auto tasks = [](const answer::Result& r) {
    const auto& program = r.graph().program_of(r.graph().ranks().front());
    return std::count_if(program.coordinates.begin(), program.coordinates.end(),
                         [](const auto& at) { return at.pass == graph::Pass::parameter_gather; });
  };
  CHECK(tasks(narrow) == 4 * tasks(usual));
  CHECK(without_contention({kSlow, kInt8.front()}) < without_contention({kSlow}));
  // A second copy has 16 bits and is gathered in 8.
  const auto both = collectives(run({kCopy.front(), kInt8.front()}));
  CHECK(both.at(kFromAll) == Approx((1 + 4. / 8000) * kAll).epsilon(1e-6));
  CHECK(both.at(kFromNode) == Approx((1 + 4. / 8000) * (3 * 4 * kLayer + kEnds)).epsilon(1e-6));
}

TEST_CASE("reductions in 4 bits: a quarter inside the node, of that an eighth across") {
  const auto usual = run({}), narrow = run(kInt4);
  graph::validate(narrow.graph());
  const auto sent = collectives(narrow);
  CHECK(sent.count(kScattered) == 0);
  // Gradients have 2 bytes. Scales: of a layer q and o have 4096 rows or columns, k and v with 1024 x 4096 too, gate,
  // up and down 14336; of a table 128,256. Tensors of a framework: q, k and v as one of 6144 rows, gate and up of
  // 28672.
  const double inside = sent.at({CollectiveKind::all_to_all, {8, 1}}),
               across = sent.at({CollectiveKind::all_to_all, {2, 8}});
  const double values = 2 * kAll / 2;
  CHECK(inside > values);
  CHECK(inside < values * (1 + 3 * 4. / 2048));
  CHECK(across == Approx(inside / 8).epsilon(1e-5));
  CHECK(collectives(usual).at(kScattered) == Approx(2 * 2 * kAll).epsilon(1e-9));
  CHECK(without_contention({kSlow, kInt4.front()}) < without_contention({kSlow}));
}

TEST_CASE("what is sent is what theory says: ZeRO++ sends .75 of what the parameters have, where ZeRO-3 sends thrice") {
  const auto of = [](Sets more) {
    more.insert(more.begin(), "batch={global: 16, micro: 1, sequence: 1024}");
    return *run(std::move(more)).summary.traffic.data_parallel;
  };
  const double all = 15. / 16, in_node = 7. / 8, ends = 2 * kEnds;
  const auto usual = of({}), copy = of(kCopy), parts = of(kParts);
  CHECK(usual.form == "3 Psi");
  CHECK(copy.form == "3 Psi, 1 of these among 8");
  CHECK(copy.form == parts.form);
  CHECK(usual.bytes == Approx(all * (3 * 2 * kAll - ends)).epsilon(1e-6));
  CHECK(copy.bytes == Approx(all * 2 * 2 * kAll + in_node * (2 * kAll - ends)).epsilon(1e-6));
  CHECK(parts.bytes == Approx(copy.bytes).epsilon(1e-9));
  const auto plus = of({kCopy.front(), kInt8.front(), kInt4.front()});
  CHECK(plus.bytes == Approx(plus.closed_form_bytes - in_node * ends / 2).epsilon(3e-3));
  // Forward .5, backward 0 outside of nodes, gradients .25 (section 3.4, table 1): what crosses is 1/8 of the latter.
  CHECK(plus.bytes < .55 * copy.bytes);
}

TEST_CASE("every door and every detail gives the same") {
  for (const Sets& sets :
       {kCopy, kParts, kInt8, kInt4, Sets{kCopy.front(), kInt8.front(), kInt4.front()},
        Sets{"parallelism={data: 16, zero: 3, secondary_shard: 2}", "training.fsdp={prefetch: 2}"},
        Sets{"parallelism={data: 8, context: 2, zero: 3, secondary_shard: 4}"},
        Sets{"parallelism={data: 16, zero: 3, shard: 8}", "training.fsdp={reshard_after_forward: 4}"},
        Sets{"parallelism={tensor: 2, data: 8, zero: 3, secondary_shard: 4}", kInt4.front()},
        Sets{"parallelism={pipeline: 2, data: 8, zero: 3}", "training.fsdp={reshard_after_forward: 4}",
             kInt8.front()}}) {
    CAPTURE(fmt::format("{} {}", sets.front(), sets.back()));
    const auto off = [&](const char* more) {
      auto all = sets;
      all.push_back("simulate.contention=off");
      if (more) all.emplace_back(more);
      return two_nodes(all);
    };
    const auto time = answer::predict(off(nullptr)).summary.iteration;
    CHECK(answer::estimate(off(nullptr)).iteration == time);
    for (const char* more : {"simulate.symmetry=off", "simulate.detail=layer", "simulate.detail=stage"})
      CHECK(answer::predict(off(more)).summary.iteration == time);
    // With contention ranks are told apart or not, and the answer is the same.
    auto on = sets;
    const auto shared = run(on).summary.iteration;
    on.emplace_back("simulate.symmetry=off");
    CHECK(run(on).summary.iteration == shared);
    CHECK(shared >= time);
  }
}

TEST_CASE("what cannot act is refused by name") {
  const auto why = [](const Sets& sets) -> std::string {
    try {
      (void)run(sets);
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  const auto says = [&](const Sets& sets, const char* part) { return why(sets).find(part) != std::string::npos; };
  const std::string two = "parallelism={data: 16, zero: 2, secondary_shard: 8}";
  CHECK(says({two}, "'secondary_shard'"));
  CHECK(says({"parallelism={data: 16, zero: 3, secondary_shard: 16}"}, "be less"));
  CHECK(says({"parallelism={data: 16, zero: 3, secondary_shard: 3}"}, "must divide the 16 GPUs"));
  CHECK(says({"parallelism={data: 16, zero: 3, shard: 8, secondary_shard: 4}"}, "'shard'"));
  CHECK(says({kCopy.front(), kParts.front()}, "leave one of them out"));
  CHECK(says({"training.fsdp={reshard_after_forward: 3}"}, "must divide"));
  CHECK(says({"training.fsdp={reshard_after_forward: 1}"}, "'reshard_after_forward'"));
  CHECK(says({"parallelism={tensor: 2, data: 8, zero: 3}", "training.fsdp={reshard_after_forward: 4}"}, "FSDP2"));
  CHECK(says({"parallelism={data: 16, zero: 1}", kInt8.front()}, "'quantised_gathers'"));
  CHECK(says({kInt8.front(), "training.precision=fp8"}, "'quantised_gathers'"));
  CHECK(says({kInt4.front(), "training.gradient_precision=fp32"}, "'gradient_precision'"));
  CHECK(says({kInt4.front(), "cluster.nodes=1", "parallelism={data: 8, zero: 3}"}, "several nodes"));
  CHECK(says({kInt4.front(), "parallelism={data: 8, context: 2, zero: 3}"}, "'context'"));
  CHECK(says({kInt8.front(), "training.offload={parameters: host, optimizer: host, gradients: host}"},
             "'training.offload'"));
}
