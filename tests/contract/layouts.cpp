// Stages with different layouts, and skip connections between stages, performed: they train what one rank trains, every
// rank holds the predicted memory, and the messages are those of the plan.
#include <map>
#include <set>

#include "performing.hpp"

namespace rehearsal {
namespace {

// 4 sequences of 16 tokens a micro-batch, 32 columns of 4 bytes: an activation is 8192 bytes.
const Sets kUntied = with(kSmall, {"batch.micro=4", "model.tie_embeddings=false", "parallelism={}"});
const Sets kU = with(kUntied, {"model.family=u-transformer"});
constexpr std::int64_t kActivation = 4 * 16 * 32 * 4;

std::string stages(const std::vector<const char*>& layouts, const std::vector<const char*>& shardings = {}) {
  std::string text = "stages=[";
  for (std::size_t s = 0; s < layouts.size(); ++s)
    text += fmt::format("{}{{parallelism: {{{}}}{}}}", s ? ", " : "", layouts[s],
                        s < shardings.size() && *shardings[s] ? fmt::format(", sharding: {}", shardings[s]) : "");
  return text + "]";
}

// `micro`: sequences per replica of the first stage, so that a micro-batch has four.
Sets of(const Sets& base, const std::string& layout, int micro, const char* strategy = "auto") {
  return with(base, {layout, fmt::format("batch.micro={}", micro),
                     fmt::format("resharding={{strategy: {}, chunks: 3}}", strategy)});
}

// For the first micro-batch in one direction: what each edge sends, and what every rank receives of it.
struct Traffic {
  std::size_t messages = 0;
  std::int64_t bytes = 0;
  std::map<std::uint32_t, std::int64_t> received;
};
std::map<std::pair<std::uint32_t, graph::Pass>, Traffic> traffic(const graph::TaskGraph& graph) {
  std::map<std::pair<std::uint32_t, graph::Pass>, Traffic> all;  // by receiving pipeline rank
  for (std::uint32_t r = 0; r < graph.ranks().size(); ++r) {
    const auto& rank = graph.ranks()[r];
    const auto& program = graph.program_of(rank);
    for (std::uint32_t t = 0; t < program.size(); ++t) {
      const auto* message = std::get_if<graph::Message>(&graph.work(program.work[t]));
      if (!message || program.coordinates[t].microbatch != 0) continue;
      const auto to = graph.ranks()[graph.rank_of(graph.partner(RankId(r), LocalTask(t))).index()];
      auto& of = all[{to.place[Axis::pipeline], program.coordinates[t].pass}];
      ++of.messages, of.bytes += message->size.count(), of.received[to.job_rank] += message->size.count();
    }
  }
  return all;
}

}  // namespace

TEST_CASE("pairs of layouts train what one rank trains, by every strategy") {
  struct Pair {
    std::vector<const char*> layouts;
    int micro;  // per replica of the first stage
    std::vector<const char*> shardings = {};
  };
  const std::vector<Pair> pairs{
      {{"", "tensor: 2"}, 4},                         // fewer to more
      {{"tensor: 4", ""}, 4},                         // more to fewer
      {{"tensor: 2", "data: 2"}, 4},                  // tensor to data
      {{"data: 2", "tensor: 2"}, 2},                  // and back
      {{"data: 4", "tensor: 2, data: 2"}, 1},         // both
      {{"tensor: 2, data: 2", "tensor: 4"}, 2},       // fewer replicas
      {{"data: 2", "data: 4"}, 2},                    // finer rows
      {{"tensor: 2, sequence: true", "data: 2"}, 4},  // rows that are cut already
      {{"", "tensor: 4, sequence: true"}, 4},         // into rows
      {{"tensor: 4, sequence: true", "tensor: 2, sequence: true, data: 2"}, 4},
      {{"context: 2", "tensor: 2"}, 4},  // two pieces of a sequence each
      {{"context: 2, data: 2", "context: 4"}, 2},
      {{"tensor: 4", "tensor: 2, data: 2"}, 4, {"", "S0RS1"}},  // parts that are gathered
      {{"tensor: 2", "tensor: 4"}, 4, {"RS1R", "RRS1"}},
      {{"data: 2", "", "tensor: 4", "data: 4"}, 2},  // through four
  };
  CHECK(pairs.size() >= 12);
  for (const auto& [layouts, micro, shardings] : pairs)
    for (const char* strategy : {"send-recv", "local-allgather", "global-allgather", "broadcast", "auto"}) {
      const auto text = stages(layouts, shardings);
      CAPTURE(text);
      CAPTURE(strategy);
      check_trains(kGpt, of(kUntied, text, micro, strategy));
    }
}

TEST_CASE("uneven shards: three replicas, and tokens that three ranks cut unevenly") {
  // 6 sequences per micro-batch: thirds and halves meet in sixths. 16 tokens in 3 parts are 6, 6 and 4.
  const Sets three = with(kUntied, {"model.heads=3", "model.hidden=48", "model.ffn=96", "batch.global=12"});
  check_trains(kGpt, of(three, stages({"data: 3", "data: 2"}), 2));
  check_trains(kGpt, of(three, stages({"data: 2", "tensor: 3, data: 1"}), 3));
  check_trains(kGpt, of(three, stages({"tensor: 3", "data: 3"}, {"RS1R", ""}), 6, "send-recv"));
  check_trains(kGpt, of(three, stages({"data: 2", "tensor: 3"}, {"", "RS1R"}), 3, "broadcast"));
}

TEST_CASE("schedules, narrow weights, recomputation, ZeRO and optimizers") {
  const auto layout = stages({"tensor: 2", "data: 2"});
  for (const Sets& sets : std::vector<Sets>{{"schedule=gpipe"},
                                            {"schedule=eager-1f1b"},
                                            {"schedule=zb-h1"},
                                            {"schedule=1f1b", "training.recompute=full"},
                                            {"training.optimizer=adamw", "parallelism.zero=1"},
                                            {"training.optimizer=adamw", "parallelism.zero=3"},
                                            {"training.precision=bf16"}}) {
    CAPTURE(sets.front());
    auto all = of(kUntied, layout, 4);
    all.insert(all.end(), sets.begin(), sets.end());
    check_trains(kGpt, all);
  }
  // Stages with equal layouts can hold both ends of a tied table.
  check_trains(kGpt,
               of(with(kUntied, {"model.tie_embeddings=true"}), stages({"tensor: 2", "data: 2", "tensor: 2"}), 4));
  check_trains(kGpt, of(with(kSmallLlama, {"parallelism={}"}), layout, 4));
}

TEST_CASE("a U-Transformer trains over stages what one rank trains: skip connections overtake stages") {
  for (const Sets& sets : std::vector<Sets>{{"parallelism={pipeline: 2}"},
                                            {"parallelism={pipeline: 4}"},
                                            {"parallelism={pipeline: 4}", "schedule=eager-1f1b"},
                                            {"parallelism={pipeline: 2, chunks: 2}", "schedule=interleaved-1f1b"},
                                            {"parallelism={pipeline: 4, tensor: 2}", "training.recompute=full"},
                                            {"parallelism={pipeline: 2, data: 2, zero: 2}", "model.layers=5"},
                                            {"parallelism={pipeline: 3}", "model.layers=7", "schedule=gpipe"},
                                            {"parallelism={pipeline: 2, context: 2}"}}) {
    CAPTURE(sets.front());
    auto all = with(kU, {"batch.micro=1"});
    all.insert(all.end(), sets.begin(), sets.end());
    check_trains(kGpt, all);
  }
  for (const char* strategy : {"send-recv", "broadcast", "auto"}) {
    CAPTURE(strategy);
    check_trains(kGpt, of(kU, stages({"tensor: 2", "data: 2", "tensor: 4", "data: 2"}), 4, strategy));
    check_trains(kGpt, of(with(kU, {"model.layers=6"}), stages({"data: 4", "tensor: 2"}), 1, strategy));
  }
}

TEST_CASE("the messages are those of the plan") {
  struct Row {
    std::vector<const char*> layouts;
    int micro;
    const char* strategy;
    std::size_t forward, backward;  // messages
    std::int64_t bytes_forward, bytes_backward;
  };
  constexpr auto all = kActivation;
  const std::vector<Row> rows{
      // One rank to two that both need everything; in the backward either of the two sends it.
      {{"", "tensor: 2"}, 4, "send-recv", 2, 1, 2 * all, all},
      {{"", "tensor: 2"}, 4, "broadcast", 2 * 3, 1, 2 * all, all},  // three chunks over two hops
      {{"", "tensor: 2"}, 4, "local-allgather", 2 + 2, 1, 2 * all, all},
      {{"", "tensor: 4"}, 4, "global-allgather", 4 + 4 * 3, 1, 4 * all, all},
      // Halves that two replicas both need; in the backward both halves go to both.
      {{"tensor: 2", "data: 2"}, 4, "send-recv", 2, 4, all, 2 * all},
      {{"tensor: 2", "data: 2"}, 4, "broadcast", 2, 2 * 2 * 3, all, 2 * all},
      // Quarters to the two ranks of each half.
      {{"data: 4", "tensor: 2, data: 2"}, 1, "send-recv", 8, 4, 2 * all, all},
      {{"data: 4", "tensor: 2, data: 2"}, 1, "broadcast", 4 * 2 * 3, 4, 2 * all, all},
  };
  for (const auto& row : rows) {
    CAPTURE(row.layouts);
    CAPTURE(row.strategy);
    const auto what = explore::load_performable(kGpt, of(kUntied, stages(row.layouts), row.micro, row.strategy),
                                                backend::Compute::real, "loopback");
    const auto question = answer::prepare(what.scenario);
    auto found = traffic(question.graph);
    const auto& forward = found[{1, graph::Pass::forward}];
    const auto& backward = found[{0, graph::Pass::backward}];
    CHECK(forward.messages == row.forward);
    CHECK(backward.messages == row.backward);
    CHECK(forward.bytes == row.bytes_forward);
    CHECK(backward.bytes == row.bytes_backward);
    // No rank receives more than it computes with.
    for (const auto& [rank, bytes] : forward.received)
      CHECK(bytes * std::int64_t(forward.received.size()) == forward.bytes);
    // The report's figures for the edge equal what the graph sends.
    REQUIRE(question.edges.size() == 1);
    CHECK(question.edges[0].forward.messages == row.forward);
    CHECK(question.edges[0].backward.bytes == row.bytes_backward);
  }
}

TEST_CASE("a part that is left out, or a skip connection, is found") {
  const auto broken = [](const Sets& sets, const std::function<bool(const graph::Program&, std::size_t)>& which) {
    const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
    const auto question = answer::prepare(what.scenario);
    std::optional<std::pair<std::uint32_t, std::size_t>> victim;
    for (std::uint32_t r = 0; r < question.graph.ranks().size() && !victim; ++r) {
      const auto& program = question.graph.program_of(question.graph.ranks()[r]);
      for (std::size_t t = 0; t < program.size() && !victim; ++t)
        if (which(program, t)) victim = {r, t};
    }
    REQUIRE(victim);
    backend::FaultInjection fault_injection;
    fault_injection.skip = [&](RankId rank, LocalTask task, int) {
      return rank.value == victim->first && task.index() == victim->second;
    };
    return train(kGpt, sets, fault_injection).verified;
  };
  const auto layout = of(kUntied, stages({"data: 4", "tensor: 2"}), 1);
  const auto what = explore::load_performable(kGpt, layout, backend::Compute::real, "loopback");
  const auto works = answer::prepare(what.scenario).graph;
  CHECK(!broken(layout, [&](const graph::Program& program, std::size_t t) {
           const auto* staging_copy = std::get_if<graph::StagingCopy>(&works.work(program.work[t]));
           return staging_copy && staging_copy->incoming && program.coordinates[t].microbatch == 1;
         }).ok);
  const auto skips = with(kU, {"parallelism={pipeline: 2}", "batch.micro=1"});
  const auto graph =
      answer::prepare(explore::load_performable(kGpt, skips, backend::Compute::real, "loopback").scenario);
  CHECK(!broken(skips,
                [&](const graph::Program& program, std::size_t t) {  // sums the gradient of a skip connection
                  const auto* kernel = std::get_if<Kernel>(&graph.graph.work(program.work[t]));
                  return kernel && kernel->kind == KernelKind::add &&
                         program.coordinates[t].pass == graph::Pass::backward && program.coordinates[t].stage == 0 &&
                         program.coordinates[t].microbatch == 1;
                })
             .ok);
}

}  // namespace rehearsal
