// A vocabulary split over the pipeline's ranks (schedules vocab-1, vocab-2, interlaced) as frameworks run it.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "answer/estimate.hpp"
#include "predicted.hpp"

using namespace rehearsal;
using contract::Sets;

namespace {

// A layer: 4 h^2 + 8 h^2 + 13 h = 12,596,224 parameters. Two of them to a stage.
const std::string kModel =
    "version: 1\nmodel: {family: gpt, layers: 8, hidden: 1024, heads: 16, vocabulary: 32000, sequence: 512, "
    "tie_embeddings: false}\ncluster: {use: dgx-a100-80g, nodes: 1}\nparallelism: {pipeline: 4}\n"
    "batch: {global: 32, micro: 1}\ntraining: {precision: bf16}\nframework: megatron-2024\nschedule: vocab-1\n";
constexpr const char* kMethods[] = {"schedule=vocab-1", "schedule=vocab-2", "schedule=interlaced"};

answer::Result run(const Sets& sets) { return contract::predicted(kModel, sets); }
Time step(const Sets& sets) { return run(sets).summary.iteration; }

}  // namespace

TEST_CASE("every rank holds its layers and an equal part of both ends") {
  // Rows of a part: 128 x ceil(32000 / 512) = 8064. Embedding 8064 h and positions 512 h; head 8064 h and a norm 2 h.
  const double part = (8064 + 512 + 8064 + 2) * 1024., tied = part - 8064 * 1024.;
  for (const char* method : kMethods) {
    CAPTURE(method);
    const auto p = run({method}), of_one = run({method, "model.tie_embeddings=true"});
    REQUIRE(p.summary.ranks.size() == 4);
    for (std::size_t r = 0; r < 4; ++r) {
      CHECK(contract::held(p.summary.ranks[r], graph::MemoryCategory::parameters) == 2 * (2 * 12'596'224. + part));
      CHECK(contract::held(of_one.summary.ranks[r], graph::MemoryCategory::parameters) == 2 * (2 * 12'596'224. + tied));
    }
  }
}

TEST_CASE("stage, layer and operator are one answer, with replicas or without, and the estimate is the same") {
  contract::settle();
  for (const char* method : kMethods)
    for (const Sets& more : {Sets{}, Sets{"parallelism.data=2", "parallelism.zero=1"}, Sets{"parallelism.tensor=2"}}) {
      CAPTURE(method);
      const auto sets = contract::with({method, "simulate.contention=off"}, more);
      const Time whole = step(sets);
      for (const char* detail : {"simulate.detail=layer", "simulate.detail=operator", "simulate.symmetry=off"})
        CHECK(step(contract::with(sets, {detail})) == whole);
      CHECK(answer::estimate(scenario::load_text(kModel, "scenario", sets)).iteration == whole);
    }
}

TEST_CASE("a large vocabulary is no longer the last stage's burden") {
  const Sets large{"model.vocabulary=256000"};
  const auto one_f_one_b = run(contract::with(large, {"schedule=1f1b"}));
  for (const char* method : kMethods) {
    CAPTURE(method);
    const auto p = run(contract::with(large, {method}));
    CHECK(to_seconds(p.summary.iteration) < .75 * to_seconds(one_f_one_b.summary.iteration));
    CHECK(p.summary.peak.allocated < one_f_one_b.summary.peak.allocated);
    // Work is the same but for padding, norms and sums.
    CHECK(p.lowered->hardware_flops.value() ==
          doctest::Approx(one_f_one_b.lowered->hardware_flops.value()).epsilon(.01));
  }
}

TEST_CASE("what cannot be cut is refused, with the reason") {
  CHECK(contract::says(contract::refusal(kModel, {"parallelism.pipeline=1"}), "there is one rank"));
  CHECK(contract::says(contract::refusal(kModel, {"parallelism.zero=3", "parallelism.data=2"}), "ZeRO-2 and 3"));
  CHECK(contract::says(contract::refusal(kModel, {"partition=balanced"}), "layers alone are dealt"));
  CHECK(contract::says(contract::refusal(kModel, {"parallelism.chunks=3"}), "at most 2 chunks"));
}
