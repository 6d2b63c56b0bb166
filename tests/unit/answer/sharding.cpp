// Predicted ZeRO-2, ZeRO-3 and buckets: bytes against the formulas of the ZeRO paper (arXiv 1910.02054), times against
// a recurrence that may refer to starts where the task graph only refers to ends.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "answer/predict.hpp"
#include "graph/validate.hpp"

using namespace rehearsal;
using namespace rehearsal::answer;
using graph::Lane;
using graph::Pass;

namespace {

using Sets = std::vector<std::string>;

scenario::Scenario one_node(Sets sets) {
  Sets all = {"parallelism={data: 8, zero: 3}", "batch={global: 24, micro: 1}", "training={recompute: full}",
              "simulate.detail=layer", "framework=titan-2024"};
  all.insert(all.end(), sets.begin(), sets.end());
  return scenario::load(PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml", all);
}
Result run(Sets sets) { return predict(one_node(std::move(sets))); }

struct Sums {
  double gathered = 0, scattered = 0, reduced = 0;  // bytes over the data group
  std::size_t gathers = 0, scatters = 0, reductions = 0;
};
Sums data_traffic(const Result& r, std::size_t rank = 0) {
  const auto& graph = r.graph();
  const auto& program = graph.program_of(graph.ranks()[rank]);
  Sums sums;
  for (std::size_t i = 0; i < program.size(); i++) {
    const auto* work = std::get_if<graph::Collective>(&graph.work(program.work[i]));
    if (!work || program.lane[i] != Lane::data_comm || program.coordinates[i].pass == Pass::embedding_reduce) continue;
    const double size = double(work->size.count());
    if (work->kind == CollectiveKind::all_gather) sums.gathered += size, sums.gathers++;
    if (work->kind == CollectiveKind::reduce_scatter) sums.scattered += size, sums.scatters++;
    if (work->kind == CollectiveKind::all_reduce) sums.reduced += size, sums.reductions++;
  }
  return sums;
}

double residents(const Result& r) {
  const auto& graph = r.graph();
  double sum = 0;
  for (const auto& buffer : graph.program_of(graph.ranks()[0]).resident())
    if (buffer.category != graph::MemoryCategory::workspace) sum += double(buffer.size.count());
  return sum;
}

// Llama 3 8B on one GPU of tensor degree 1: 32 layers, and two tables of 128,256 x 4,096 that are not tied; 128,256 is
// 1,002 x 128, so nothing is padded.
constexpr double kEnds = 2 * 128256. * 4096 + 4096, kLayers = 8030261248. - kEnds;

}  // namespace

TEST_CASE("model states of the ZeRO paper: 16, 4 + 12/N, 2 + 14/N, 16/N bytes per parameter") {
  const Sets job = {"model=gpt-7.5b", "cluster={use: dgx-a100-80g, nodes: 8}", "batch={global: 64, micro: 1}",
                    "training={precision: fp16, attention: unfused, recompute: full}", "framework=megatron-2021"};
  const auto states = [&](int zero, std::string more = "") {
    auto sets = job;
    sets.push_back(fmt::format("parallelism={{data: 64, zero: {}}}", zero));
    if (!more.empty()) sets.push_back(more);
    return residents(run(sets));
  };
  const double parameters = states(0) / 16;
  CHECK(parameters == doctest::Approx(7.5e9).epsilon(.03));
  CHECK(states(1) == doctest::Approx((4 + 12. / 64) * parameters).epsilon(1e-9));  // 31.4 GB of 7.5 B
  CHECK(states(2) == doctest::Approx((2 + 14. / 64) * parameters).epsilon(1e-9));  // 16.6 GB
  CHECK(states(3) == doctest::Approx(16. / 64 * parameters).epsilon(1e-9));        // 1.9 GB
  // bf16 with fp32 gradients: 18 bytes, but FSDP's shard is the master copy itself: 4 + 4 + 8.
  CHECK(states(0, "training.precision=bf16") == doctest::Approx(18 * parameters).epsilon(1e-9));
  CHECK(states(2, "training.precision=bf16") == doctest::Approx((2 + 16. / 64) * parameters).epsilon(1e-9));
  CHECK(states(3, "training.precision=bf16") == doctest::Approx(16. / 64 * parameters).epsilon(1e-9));
}

TEST_CASE("bytes over the wire: what is gathered and reduced in each of three micro-batches") {
  // Weights 2 bytes, gradients 4. The ends are gathered once per micro-batch, layers again for the backward.
  const double m = 3, all = kLayers + kEnds;
  const auto full = data_traffic(run({}));
  CHECK(full.gathered == doctest::Approx(m * 2 * (2 * kLayers + kEnds)).epsilon(1e-9));
  CHECK(full.gathers == 3 * (2 * 32 + 2));
  CHECK(full.scattered == doctest::Approx(m * 4 * all).epsilon(1e-9));
  CHECK(full.scatters == 3 * 34);
  CHECK(full.reductions == 0);
  const auto kept = data_traffic(run({"training.fsdp={reshard_after_forward: false}"}));
  CHECK(kept.gathered == doctest::Approx(m * 2 * all).epsilon(1e-9));
  CHECK(kept.scattered == full.scattered);
  // ZeRO-2 reduces in every micro-batch and gathers once, after the step; ZeRO-1 reduces once.
  const auto two = data_traffic(run({"parallelism.zero=2"})), one = data_traffic(run({"parallelism.zero=1"}));
  CHECK(two.scattered == doctest::Approx(m * 4 * all).epsilon(1e-9));
  CHECK(two.gathered == doctest::Approx(2 * all).epsilon(1e-9));
  CHECK(one.scattered == doctest::Approx(4 * all).epsilon(1e-9));
  CHECK(one.gathered == two.gathered);
}

namespace {

// Time of the whole step by hand. Units in the order of computation: for each micro-batch embedding, layers, head and
// back again. The gather of unit i + n is requested when unit i starts, the reduction of unit i when it has ended; the
// data lane serves requests in order, and gathers requested at a unit's start precede its reduction. No contention.
Time by_hand(const Result& r, int microbatches, int layers, bool reshard, int prefetch) {
  const auto& graph = r.graph();
  const auto& program = graph.program_of(graph.ranks()[0]);
  const int ends_and_layers = layers + 2;
  // Durations by kind of unit: 0 embedding, 1 layer, 2 head.
  Time forward[3], backward[3], gather[3], reduce[3], step;
  int seen_forward = 0, seen_backward = 0;
  for (std::size_t i = 0; i < program.size(); i++) {
    const Time d = r.lowered->durations[program.work[i].index()];
    const auto pass = program.coordinates[i].pass;
    const auto kind_of = [&](int position) { return position == 0 ? 0 : position == ends_and_layers - 1 ? 2 : 1; };
    if (pass == Pass::forward && seen_forward < ends_and_layers) forward[kind_of(seen_forward++)] = d;
    if (pass == Pass::backward && seen_backward < ends_and_layers)
      backward[kind_of(ends_and_layers - 1 - seen_backward++)] = d;
    if (pass == Pass::parameter_gather) {  // gathers come just before what they are for
      const bool end = program.coordinates[i].layer == graph::kNoLayer;
      gather[!end ? 1 : seen_forward == 0 ? 0 : 2] = d;
    }
    if (pass == Pass::gradient_reduce) reduce[program.coordinates[i].layer == graph::kNoLayer ? 0 : 1] = d;
    if (pass == Pass::optimizer) step = d;
  }
  gather[0] = gather[2];  // tables of one size; the head has a norm more, which no bucket of a size curve notices
  reduce[2] = reduce[0];

  struct Unit {
    int kind;
    bool down, gathers;
  };
  std::vector<Unit> units;
  for (int m = 0; m < microbatches; m++) {
    for (int i = 0; i < ends_and_layers; i++)
      units.push_back({i == 0 ? 0 : i + 1 == ends_and_layers ? 2 : 1, false, true});
    for (int i = ends_and_layers; i-- > 0;) {
      const bool end = i == 0 || i + 1 == ends_and_layers;
      units.push_back({i == 0 ? 0 : i + 1 == ends_and_layers ? 2 : 1, true, reshard && !end});
    }
  }
  const int n = int(units.size());
  std::vector<Time> gathered(std::size_t(n), Time{});
  Time lane, clock;
  int asked = 0;  // gathers up to here are on the lane
  const auto ask = [&](int until, Time when) {
    for (; asked < std::min(until, n); asked++)
      if (units[std::size_t(asked)].gathers)
        lane = gathered[std::size_t(asked)] = std::max(lane, when) + gather[units[std::size_t(asked)].kind];
  };
  ask(prefetch, Time{});
  for (int i = 0; i < n; i++) {
    const Unit& unit = units[std::size_t(i)];
    if (prefetch == 0) ask(i + 1, clock);  // nothing ahead: asked for when its turn comes
    const auto compute = [&](int j) {
      const Unit& u = units[std::size_t(j)];
      return (u.down ? backward : forward)[u.kind];
    };
    const Time asked_at = std::max(clock, gathered[std::size_t(i)]);
    const Time start = std::max(clock, gathered[std::size_t(i)]);
    if (prefetch > 0) ask(i + prefetch + 1, asked_at);
    clock = start + compute(i);
    if (unit.down) lane = std::max(lane, clock) + reduce[unit.kind];
  }
  return std::max(lane, clock) + step;
}

}  // namespace

TEST_CASE("gathers and reductions under computation, by recurrence") {
  for (const bool reshard : {true, false})
    for (const int prefetch : {0, 1, 2}) {
      CAPTURE(reshard);
      CAPTURE(prefetch);
      // Short sequences, so that communication shows.
      const auto r = run({fmt::format("training.fsdp={{prefetch: {}, reshard_after_forward: {}}}", prefetch, reshard),
                          "batch.sequence=512", "simulate.contention=off"});
      graph::validate(r.graph());
      const Time expected = by_hand(r, 3, 32, reshard, prefetch);
      // The head's norm (4,096 of 525 M parameters) is left out by hand.
      CHECK(to_seconds(r.timeline.makespan()) == doctest::Approx(to_seconds(expected)).epsilon(1e-4));
    }
}

TEST_CASE("more overlap never takes longer, and memory pays for it") {
  const auto period = [](Sets sets) {
    sets.push_back("batch.sequence=512");
    return run(sets).timeline.makespan();
  };
  const Time usual = period({});
  CHECK(usual < period({"training.fsdp={prefetch: 0}"}));
  CHECK(period({"training.overlap={parameters: false}"}) == period({"training.fsdp={prefetch: 0}"}));
  CHECK(usual < period({"training.overlap={gradients: false, parameters: true}"}));
  CHECK(period({"training.overlap={gradients: false, parameters: true}"}) <
        period({"training.overlap={gradients: false}"}));
  CHECK(period({"training.fsdp={reshard_after_forward: false}"}) < usual);
}

TEST_CASE("nothing overlapped is the sum of its parts") {
  const auto r = run({"training.overlap={gradients: false}", "batch.sequence=512"});
  const auto& graph = r.graph();
  const auto& program = graph.program_of(graph.ranks()[0]);
  Time sum;
  for (const auto work : program.work) sum += r.lowered->durations[work.index()];
  CHECK(r.timeline.makespan() == sum);
}

TEST_CASE("reductions of data parallelism wait for a full bucket") {
  // GPT 1.7B in fp16, 24 layers of 12 h^2 + 13 h = 63.7 M parameters = 127.5 MB at h = 2304, vocabulary 51,200 padded
  // to itself: embedding 236 + 9.4 MB of positions; of the head, whose table is the embedding's, the norm alone. The
  // backward of a layer completes down (8 h^2 bytes = 42.5 MB), up (42.5), out (10.6) and qkv with the vectors (31.9).
  // At 25 MB down, up and out + qkv fill a bucket each: 3 x 24 and the embedding, 73. At 300 MB seven times 42.5 are
  // 297, so eight make a bucket: 72 / 8 = 9, then the embedding: 10.
  const auto job = [](const std::string& bucket) {
    return predict(scenario::load(PROJECT_ROOT "/scenarios/megatron21-t1/gpt-1.7b-32xa100.yaml",
                                  {"training.bucket=" + bucket, "simulate.detail=layer"}));
  };
  const auto usual = job("25MB"), large = job("300MB"), whole = job("100GB");
  CHECK(data_traffic(usual).reductions == 73);
  CHECK(data_traffic(large).reductions == 10);
  CHECK(data_traffic(whole).reductions == 1);
  CHECK(data_traffic(large).reduced == doctest::Approx(data_traffic(usual).reduced).epsilon(1e-9));
  // A single bucket is full when the backward has ended; smaller ones go under it.
  CHECK(usual.timeline.makespan() < whole.timeline.makespan());
  const auto& graph = large.graph();
  const auto& program = graph.program_of(graph.ranks()[0]);
  Time first = large.timeline.makespan(), last_backward;
  for (std::size_t i = 0; i < program.size(); i++) {
    if (program.coordinates[i].pass == Pass::gradient_reduce) first = std::min(first, large.timeline.start[i]);
    if (program.coordinates[i].pass == Pass::backward) last_backward = std::max(last_backward, large.timeline.end[i]);
  }
  CHECK(first < last_backward);
}

TEST_CASE("buckets of ZeRO-2 hold gradients until they are reduced") {
  // Llama 3 8B: a layer has 218,112,000 parameters, 872 MB in fp32: down 235, gate and up 470, out 67, qkv 101; head
  // and embedding 2101 MB each. 4 GB are head + 2 layers + down of the third (4081 MB); up to out of the 7th (4027); up
  // to gate and up of the 12th (4295), and of every fifth from there, 17th, 22nd, 27th and 32nd (4362); what is left of
  // that and the embedding. 8 per micro-batch.
  const auto large = run({"parallelism.zero=2", "training.bucket=4GB"});
  CHECK(data_traffic(large).scatters == 3 * 8);
  CHECK(data_traffic(large).scattered == doctest::Approx(data_traffic(run({"parallelism.zero=2"})).scattered));
}

TEST_CASE("a tied table is gathered and reduced once where both ends are on one rank") {
  const auto traffic = data_traffic(run({"model.tie_embeddings=true", "model.use=llama3-8b"}));
  CHECK(traffic.scattered == doctest::Approx(3 * 4 * (kLayers + kEnds - 128256. * 4096)).epsilon(1e-9));
}

// ZeRO-3 with parameters on the host alone (DeepSpeed's offload_param): the masters stay, so the GPU steps and hands
// its share back in 16 bits; passes fetch it from there.
TEST_CASE("a GPU that updates hands parameters of the host back, a share of 2 bytes each") {
  const auto away = run({"training.offload.parameters=host"}), here = run({});
  const auto& graph = away.graph();
  const auto& program = graph.program_of(graph.ranks()[0]);
  double back = 0, fetched = 0;
  for (std::size_t i = 0; i < program.size(); i++)
    if (const auto* copy = std::get_if<graph::Copy>(&graph.work(program.work[i])))
      (copy->to == Tier::host ? back : fetched) += double(copy->size.count());
  const double all = kEnds + kLayers;
  CHECK(back == doctest::Approx(2 * all / 8));
  CHECK(fetched >= 2 * all / 8 * 3);  // forward and backward of 3 micro-batches, as far as they gather again
  const auto sum = [](const Result& r, Tier tier) {
    double bytes = 0;
    const auto& program = r.graph().program_of(r.graph().ranks()[0]);
    for (const auto& buffer : program.resident())
      if (buffer.tier == tier && buffer.category != graph::MemoryCategory::workspace)
        bytes += double(buffer.size.count());
    return bytes;
  };
  CHECK(sum(away, Tier::host) == doctest::Approx(2 * all / 8));
  // With gradients in fp32 a shard on the device is its masters alone.
  CHECK(sum(away, Tier::device) == doctest::Approx(sum(here, Tier::device)));
  CHECK(away.summary.iteration > here.summary.iteration);
  for (const char* set : {"training.precision=fp32", "training.master_copy=false", "training.offload.owner=one"})
    CHECK_THROWS_AS(run({"training.offload.parameters=host", set}), UserError);
}

TEST_CASE("experts that no other GPU shares leave as everything else does") {
  const std::string all_on_host = "training.offload={parameters: host, gradients: host, optimizer: host}";
  const Sets sets{"model={use: granite-3.0-3b-a800m}", "training.gradient_precision=bf16", all_on_host};
  const auto away = run(sets);
  double on_host = 0;
  for (const auto& buffer : away.graph().program_of(away.graph().ranks()[0]).resident())
    if (buffer.tier == Tier::host) on_host += double(buffer.size.count());
  // 2 bytes of parameters, 2 of gradients, 12 of masters and moments, a share of each; the vocabulary is padded.
  CHECK(on_host == doctest::Approx(16 * models::parameters(away.scenario().concrete->model) / 8).epsilon(1e-4));
  auto shared = sets;
  shared.push_back("parallelism.expert=2");
  CHECK_THROWS_AS(run(shared), UserError);
}
