// What is written as Chakra's traces is read back: the sums of each rank are those of its program and its prices.
#include "report/chakra.hpp"

#include <doctest/doctest.h>

#include "interchange/chakra.hpp"

using namespace rehearsal;
using interchange::chakra::NodeType;

namespace {

// What rank r does, by the task graph itself.
struct Expected {
  double kernels = 0, kernel_picoseconds = 0, sends = 0, sent_bytes = 0;
  std::map<std::string, double> bytes;  // of collectives by kind
};

Expected expected_of(const answer::LoweredJob& job, std::size_t r) {
  Expected all;
  const auto& program = job.graph.program_of(job.graph.ranks()[r]);
  for (std::size_t i = 0; i < program.size(); ++i) {
    const auto& work = job.graph.work(program.work[i]);
    const auto duration = double(job.durations[program.work[i].index()].count());
    if (const auto* c = std::get_if<graph::Collective>(&work)) {
      all.bytes[name(c->kind)] += double(c->size.count());
    } else if (const auto* message = std::get_if<graph::Message>(&work)) {
      ++all.sends, all.sent_bytes += double(message->size.count());
    } else if (program.endpoint[i] == graph::kNoEndpoint) {
      ++all.kernels, all.kernel_picoseconds += duration;
    }
  }
  return all;
}

}  // namespace

TEST_CASE("traces hold the bytes of each collective and the time of each kernel") {
  const auto scenario =
      scenario::load(std::string(PROJECT_ROOT) + "/scenarios/llama3-8b-dgx-h100.yaml",
                     {"model.layers=4", "batch.global=16", "parallelism.tensor=2", "parallelism.pipeline=2",
                      "parallelism.data=2", "parallelism.zero=1", "simulate.symmetry=off", "simulate.detail=operator"});
  const auto job = answer::prepare(scenario, nullptr, false);
  REQUIRE(job.graph.ranks().size() == 8);
  for (std::size_t r = 0; r < 8; ++r) {
    std::string text;
    report::write_chakra(job, r, [&text](std::string_view part) { text += part; });
    REQUIRE(interchange::chakra::is_trace(text));
    const auto trace = interchange::chakra::read_trace(text, "rank");
    const auto expected = expected_of(job, r);
    CHECK(trace.version == "0.0.4");
    CHECK(trace.host.nodes == 0);
    CHECK(double(trace[NodeType::compute].nodes) == expected.kernels);
    CHECK(trace[NodeType::compute].picoseconds == expected.kernel_picoseconds);
    CHECK(double(trace[NodeType::send].nodes) == expected.sends);
    CHECK(trace[NodeType::send].bytes == expected.sent_bytes);
    std::map<std::string, double> bytes;
    for (const auto& [what, sum] : trace.between) bytes[what.substr(0, what.find(" in group "))] += sum.bytes;
    CHECK(bytes == expected.bytes);
    CHECK(bytes.size() >= 2);
  }
}
