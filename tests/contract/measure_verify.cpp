// Verification of a training with AdamW can fail.
#include <doctest/doctest.h>

#include "explore/perform.hpp"
#include "explore/verify.hpp"
#include "loopback/loopback.hpp"

using namespace rehearsal;

namespace {

constexpr int kSteps = 3;
const std::string kGpt = PROJECT_ROOT "/scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml";

explore::Verified train(const std::vector<std::string>& sets, const backend::Tamper& tamper = {}) {
  const auto [scenario, compute] = explore::load_performable(kGpt, sets, std::nullopt, "loopback");
  REQUIRE(compute == backend::Compute::real);
  const auto backend = loopback::make_loopback();
  explore::PerformOptions options;
  options.compute = compute, options.times_matter = false, options.warmup = 0, options.iterations = kSteps;
  const auto serial = explore::serial_reference(scenario);
  const auto reference = explore::perform(serial, explore::prepare(serial), *backend, options).trained;
  options.tamper = tamper;
  const auto trained = explore::perform(scenario, explore::prepare(scenario), *backend, options).trained;
  return explore::verify(trained, reference, explore::weight_tolerance(scenario.concrete->training.optimizer));
}

bool mentions(const explore::Verified& v, const std::string& part) {
  for (const auto& f : v.failures)
    if (f.find(part) != std::string::npos) return true;
  return false;
}

// The first task of a rank that runs this kernel.
LocalTask first_of(const graph::TaskGraph& graph, RankId rank, KernelKind kind) {
  const auto& program = graph.program_of(graph.ranks()[rank.index()]);
  for (std::size_t i = 0; i < program.size(); ++i)
    if (const auto* kernel = std::get_if<Kernel>(&graph.work(program.work[i])); kernel && kernel->kind == kind)
      return LocalTask(i);
  FAIL("no such kernel");
  return LocalTask(0);
}

}  // namespace

// AdamW's tolerance is ten times that of SGD, and its steps do not grow with the gradient: still one task is enough.
TEST_CASE("AdamW: what a backend leaves out or mixes up is found") {
  const std::vector<std::string> sets{"training.optimizer=adamw"};
  const auto scenario = explore::load_performable(kGpt, sets, std::nullopt, "loopback").scenario;
  const auto prepared = explore::prepare(scenario);
  REQUIRE(train(sets).ok);
  // One task of one micro-batch of four, on one rank of eight, in one step of three: each alone spoils the training.
  for (const auto kind : {KernelKind::linear_weight_gradient, KernelKind::bias_gradient, KernelKind::gelu_gradient}) {
    const auto task = first_of(prepared.graph, RankId(1), kind);
    CAPTURE(std::string(name(kind)));
    backend::Tamper tamper;
    tamper.skip = [&](RankId rank, LocalTask local, int step) {
      return rank == RankId(1) && local == task && step == 1;
    };
    CHECK_FALSE(train(sets, tamper).ok);
  }
  // Micro-batch 0 again in place of 1, on every rank: each of them computes, and none of it is wrong but the data.
  backend::Tamper tamper;
  tamper.other_microbatch = [](RankId, LocalTask, std::uint32_t m) { return m == 1 ? 0u : m; };
  const auto other = train(sets, tamper);
  CHECK_FALSE(other.ok);
  CHECK(mentions(other, "the loss differs"));
}
