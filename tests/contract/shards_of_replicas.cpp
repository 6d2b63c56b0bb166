// parallelism.shard: groups of replicas that share their states and hold copies of each other's (HSDP). What a group of
// all replicas does must not depend on how it is said; what smaller groups hold, gather and sum is solved by hand.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

#include "answer/estimate.hpp"
#include "answer/predict.hpp"
#include "scenario/scenario.hpp"

using namespace rehearsal;

namespace {

using Sets = std::vector<std::string>;

scenario::Scenario two_nodes(const std::string& parallelism, Sets more = {}) {
  Sets sets{"cluster.nodes=2", "parallelism=" + parallelism, "batch={global: 16, micro: 1}",
            "model={use: llama3-8b, layers: 4}", "framework=titan-2025"};
  sets.insert(sets.end(), more.begin(), more.end());
  return scenario::load(PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml", sets);
}

// Bytes of the collectives of rank 0, and their groups, by kind.
struct Sent {
  double bytes = 0;
  GroupShape group;
};
std::map<CollectiveKind, Sent> collectives(const answer::Result& result) {
  std::map<CollectiveKind, Sent> all;
  const auto& graph = result.graph();
  const auto& program = graph.program_of(graph.ranks().front());
  for (std::size_t i = 0; i < program.size(); ++i)
    if (const auto* c = std::get_if<graph::Collective>(&graph.works()[program.work[i].index()]))
      all[c->kind].bytes += double(c->size.count()), all[c->kind].group = c->group;
  return all;
}
double states(const answer::Result& result) {
  const auto& memory = result.summary.ranks.front().memory;
  return double(memory[static_cast<std::size_t>(graph::MemoryCategory::optimizer)].count());
}

}  // namespace

TEST_CASE("a group of all replicas is none") {
  for (const int zero : {1, 2, 3}) {
    const auto none = answer::predict(two_nodes(fmt::format("{{data: 16, zero: {}}}", zero)));
    const auto all = answer::predict(two_nodes(fmt::format("{{data: 16, zero: {}, shard: 16}}", zero)));
    CHECK(answer::same_answer(none.summary, all.summary));
  }
}

TEST_CASE("eight of sixteen: states as of eight, gathers inside a node, sums of an eighth between the two") {
  for (const int zero : {1, 2, 3}) {
    CAPTURE(zero);
    const auto hybrid = answer::predict(two_nodes(fmt::format("{{data: 16, zero: {}, shard: 8}}", zero)));
    const auto whole = answer::predict(two_nodes(fmt::format("{{data: 16, zero: {}}}", zero)));
    CHECK(states(hybrid) == doctest::Approx(2 * states(whole)).epsilon(1e-6));
    const auto sent = collectives(hybrid), before = collectives(whole);
    CHECK(sent.at(CollectiveKind::all_gather).group == GroupShape{8, 1});
    CHECK(sent.at(CollectiveKind::all_gather).bytes == before.at(CollectiveKind::all_gather).bytes);
    CHECK(sent.at(CollectiveKind::reduce_scatter).group == GroupShape{8, 1});
    CHECK(sent.at(CollectiveKind::reduce_scatter).bytes == before.at(CollectiveKind::reduce_scatter).bytes);
    CHECK(sent.at(CollectiveKind::all_reduce).group == GroupShape{2, 8});
    CHECK(sent.at(CollectiveKind::all_reduce).bytes ==
          doctest::Approx(sent.at(CollectiveKind::reduce_scatter).bytes / 8).epsilon(1e-6));
  }
}

TEST_CASE("every door and every detail gives the same") {
  for (const char* parallelism :
       {"{data: 16, zero: 1, shard: 4}", "{data: 16, zero: 3, shard: 8}", "{tensor: 2, data: 8, zero: 2, shard: 2}",
        "{data: 8, context: 2, zero: 3, shard: 4}", "{pipeline: 2, data: 8, zero: 1, shard: 4}"}) {
    CAPTURE(parallelism);
    const auto off = two_nodes(parallelism, {"simulate.contention=off"});
    const auto time = answer::predict(off).summary.iteration;
    CHECK(answer::estimate(off).iteration == time);
    for (const char* more : {"simulate.symmetry=off", "simulate.detail=layer", "simulate.detail=stage"})
      CHECK(answer::predict(two_nodes(parallelism, {"simulate.contention=off", more})).summary.iteration == time);
  }
}

TEST_CASE("groups that cannot be are refused, with the nearest that can") {
  const auto why = [](const std::string& parallelism, const Sets& more = {}) -> std::string {
    try {
      (void)answer::predict(two_nodes(parallelism, more));
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  const auto says = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(says(why("{data: 16, zero: 3, shard: 3}"), "does not divide 'data' 16"));
  CHECK(says(why("{data: 16, shard: 8}"), "set it to 1, 2 or 3"));
  CHECK(says(why("{data: 16, zero: 1, shard: 8}", {"training.optimizer=lomo"}), "'shard'"));
}
