// What `rehearse collective` says of a collective step by step is what scenarios are priced with, and the choice is the
// fastest that applies. Its text, pictures and errors: tests/cli/collective.cli.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "../rehearse.hpp"
#include "cost/one_collective.hpp"
#include "scenario/cluster_file.hpp"

using namespace rehearsal;
using doctest::Approx;

TEST_CASE("times are those that scenarios are priced with, and the choice is the fastest that applies") {
  for (const char* machine : {"dgx-h100", "dgx-a100-80g", "gb200-nvl72", "l40s-pcie", "dgx-v100-16g"})
    for (const char* kind : {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast"})
      for (const auto& [ranks, per_node] : {std::pair{2U, 2}, {4U, 4}, {16U, 4}, {16U, 2}, {8U, 1}}) {
        CAPTURE(machine);
        CAPTURE(kind);
        CAPTURE(ranks);
        CAPTURE(per_node);
        auto question = cost::named_collective(kind);
        question.ranks = ranks, question.per_node = per_node, question.size = Bytes(1 << 26);
        auto cluster = scenario::load_named_cluster(machine);
        const auto group = cost::place(question, cluster.spec, cluster.sized);
        const cost::CommunicationModel model(cluster.spec, cluster.curves);
        const auto one = cost::step_by_step(model, question, group);
        const auto choice = model.choose(group, question.kind, question.size);
        CHECK(one.seconds == choice.seconds);
        CHECK(one.algorithm == choice.algorithm);
        const bool across = !model.machine().reach(group).out.empty();
        const double priced = one.form.seconds() * (across ? 1 : one.correction.value_or(1));
        CHECK(std::max(priced, one.shared) == Approx(one.seconds).epsilon(1e-9));
        for (const auto& c : one.quote.candidates)
          if (c.refusal == collective::Refusal::none) {
            REQUIRE(c.form);
            CHECK(std::max(c.form->seconds(), c.shared) == Approx(c.seconds).epsilon(1e-9));
            if (across) CHECK(c.seconds >= one.seconds);
          }
        // Whatever leaves a GPU arrives at one.
        double out = 0, in = 0, sent = 0;
        for (const auto& link : one.links) {
          if (link.from.kind == cluster::DeviceKind::gpu) out += link.bytes;
          if (link.to.kind == cluster::DeviceKind::gpu) in += link.bytes;
        }
        for (const auto& step : one.steps) sent += double(step.size()) * one.part_bytes();
        if (one.algorithm->switches == 0) CHECK(out >= Approx(sent).epsilon(1e-9));
        CHECK(out == Approx(in).epsilon(1e-9));
      }
  const auto one = nlohmann::json::parse(
      rehearse("collective all-reduce --ranks 16 --cluster dgx-a100-80g --size 256MiB --format json").out);
  auto question = cost::named_collective("all-reduce");
  question.ranks = 16, question.size = Bytes(1 << 28);
  auto cluster = scenario::load_named_cluster("dgx-a100-80g");
  const auto group = cost::place(question, cluster.spec, cluster.sized);
  CHECK(one["time_s"] == cost::CommunicationModel(cluster.spec, cluster.curves)
                             .choose(group, CollectiveKind::all_reduce, question.size)
                             .seconds);
}
