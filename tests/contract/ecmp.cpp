// Flows that a switch hashes to one of several equal paths: some collide, and none is faster than with even spreading.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "answer/predict.hpp"

using namespace rehearsal;

namespace {

answer::Summary ask(int seed, const std::string& simulate = "{}") {
  return answer::predict(
             scenario::load_text(
                 fmt::format(
                     "version: 1\nmodel: {{family: gpt, layers: 8, hidden: 4096, heads: 32, vocabulary: 51200, "
                     "sequence: 2048}}\ncluster: {{use: dgx-a100-80g, nodes: 8, topology: {{name: fat-tree, radix: 64, "
                     "ecmp: {}}}}}\nparallelism: {{tensor: 8, data: 8}}\nbatch: {{global: 32, micro: 1}}\nframework: "
                     "megatron-2021\ntraining: {{recompute: selective, attention: flash}}\nsimulate: {}\n",
                     seed, simulate),
                 "test.yaml"))
      .summary;
}

}  // namespace

TEST_CASE("hashed flows collide by seed, and never gain") {
  const auto spread = ask(0);
  int slower = 0;
  for (int seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    const auto hashed = ask(seed);
    CHECK(hashed.iteration >= spread.iteration);
    CHECK(hashed.iteration == ask(seed).iteration);
    slower += hashed.iteration > spread.iteration;
    if (hashed.iteration == spread.iteration) continue;
    REQUIRE(!hashed.contended.empty());
    const auto& worst = hashed.contended.front().name;
    CHECK_MESSAGE(worst.find("spine") != std::string::npos, worst);
  }
  // Eight rings cross the leaves in each direction on 32 ways up: two meet with probability 1 - (32!/24!/32^8)^2 = .85.
  CHECK(slower >= 3);
  CHECK(slower <= 12);
}

TEST_CASE("hashed flows: symmetry off and auto agree to the picosecond") {
  for (int seed = 1; seed <= 6; ++seed) CHECK(ask(seed).iteration == ask(seed, "{symmetry: off}").iteration);
}

TEST_CASE("a hash takes nothing from a price") {
  for (int seed = 1; seed <= 3; ++seed)
    CHECK(ask(seed, "{contention: off}").iteration == ask(0, "{contention: off}").iteration);
}
