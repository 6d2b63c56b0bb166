// Machines that deviate from their description: faults have an effect, the same with and without symmetry and at every
// detail; a worse fault never shortens a step; impossible faults are refused with place and rule.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "answer/predict.hpp"
#include "base/random.hpp"

using namespace rehearsal;

namespace {

// 32 GPUs in 4 nodes: tensor 2, pipeline 4, data 4.
std::string text(const std::string& parallelism, const std::string& faults, const std::string& simulate,
                 std::int64_t hidden = 2048) {
  return fmt::format(
      "{{version: 1, name: x, model: {{family: gpt, layers: 8, hidden: {}, heads: 16, vocabulary: 51200, sequence: "
      "1024}}, cluster: {{use: dgx-a100-80g, nodes: 4}}, parallelism: {}, batch: {{global: 32, micro: 1}}, framework: "
      "megatron-2021, training: {{recompute: selective, attention: unfused, overlap: {{gradients: false}}}}, simulate: "
      "{}{}}}",
      hidden, parallelism, simulate, faults.empty() ? "" : ", faults: " + faults);
}
const std::string kLayout = "{tensor: 2, pipeline: 4, data: 4}";

scenario::Scenario load(const std::string& faults, const std::string& simulate = "{}",
                        const std::string& parallelism = kLayout) {
  return scenario::load_text(text(parallelism, faults, simulate), "test.yaml");
}
answer::Summary ask(const std::string& faults, const std::string& simulate = "{}",
                    const std::string& parallelism = kLayout) {
  return answer::predict(load(faults, simulate, parallelism)).summary;
}
Time iteration(const std::string& faults, const std::string& simulate = "{}",
               const std::string& parallelism = kLayout) {
  return ask(faults, simulate, parallelism).iteration;
}

std::string error_of(const std::string& faults) {
  try {
    answer::predict(load(faults));
  } catch (const UserError& e) {
    std::string all;
    for (const auto& d : e.diagnostics()) all += d.message + "\n";
    return all;
  }
  return "";
}

// One to three faults on different parts.
std::string random_faults(Random& random) {
  std::string list;
  const auto add = [&](const std::string& fault) { list += (list.empty() ? "" : ", ") + fault; };
  if (random.below(2)) add(fmt::format("{{gpu: {}, slowdown: {}}}", random.below(32), 1.05 + .5 * random.fraction()));
  if (random.below(2)) add(fmt::format("{{nic: {}, rate: {}}}", random.below(32), .2 + .7 * random.fraction()));
  if (random.below(2)) add(fmt::format("{{nvlink: {}, rate: {}}}", random.below(32), .2 + .7 * random.fraction()));
  if (random.below(4) == 0) add(fmt::format("{{share: 10%, slowdown: 1.1, seed: {}}}", random.below(100)));
  if (random.below(4) == 0) add(fmt::format("{{jitter: 3%, seed: {}}}", random.below(100)));
  if (list.empty()) add("{jitter: 1%}");
  return "[" + list + "]";
}

}  // namespace

TEST_CASE("symmetry off and auto agree to the picosecond with faults") {
  Random random(1);
  const char* layouts[] = {
      "{tensor: 2, pipeline: 4, data: 4}", "{tensor: 8, pipeline: 2, data: 2}", "{tensor: 1, pipeline: 2, data: 16}",
      "{tensor: 4, sequence: true, pipeline: 1, data: 8, zero: 1}", "{tensor: 1, pipeline: 1, data: 32, zero: 3}"};
  for (int i = 0; i < 40; ++i) {
    const auto faults = random_faults(random);
    const char* network = random.below(3) ? "auto" : "closed-form";
    const char* layout = layouts[random.below(std::size(layouts))];
    CAPTURE(faults);
    CAPTURE(network);
    CAPTURE(layout);
    const auto simulate = [&](const char* symmetry) {
      return fmt::format("{{network: {}, symmetry: {}}}", network, symmetry);
    };
    const auto all = ask(faults, simulate("off"), layout), some = ask(faults, simulate("auto"), layout);
    CHECK(all.iteration == some.iteration);
    CHECK(all.contention == some.contention);
    for (const auto& rank : some.ranks) CHECK(all.ranks[rank.rank].busy == rank.busy);
  }
}

TEST_CASE("stage, layer and operator detail agree with faults") {
  Random random(2);
  for (int i = 0; i < 12; ++i) {
    const auto faults = random_faults(random);
    CAPTURE(faults);
    const auto coarse = iteration(faults, "{detail: stage}");
    CHECK(coarse == iteration(faults, "{detail: layer}"));
    // A slow GPU in a tensor group: finer tasks meet at each collective and not at their last kernels.
    const double fine = to_seconds(iteration(faults, "{detail: operator}"));
    CHECK(fine == doctest::Approx(to_seconds(coarse)).epsilon(2e-3));
  }
}

// Large enough that no kernel waits for the host.
static answer::Result large(const std::string& parallelism, const std::string& faults) {
  return answer::predict(scenario::load_text(text(parallelism, faults, "{contention: off}", 8192), "test.yaml"));
}

TEST_CASE("a slow GPU slows its kernels by its factor, and all ranks wait for it") {
  const auto prediction = large("{tensor: 1, pipeline: 1, data: 32}", "[{gpu: 5, slowdown: 1.5}]");
  const auto& slow = prediction.summary;
  const auto sound = large("{tensor: 1, pipeline: 1, data: 32}", "").summary;
  REQUIRE(slow.ranks.size() == 2);  // the slow one, and one for all others
  CHECK(slow.ranks[0].count == 31);
  CHECK(slow.ranks[1].rank == 5);
  CHECK(slow.ranks[0].busy == sound.ranks[0].busy);
  const double slower = slow.ranks[1].busy / sound.ranks[0].busy;
  CHECK(slower > 1.499);  // except for the few kernels that still wait for the host
  CHECK(slower <= 1.5);
  // Gradients are reduced when the slow rank has ended; its optimizer is slow too.
  const Time longer = slow.iteration - sound.iteration;
  CHECK(longer == slow.ranks[1].busy - sound.ranks[0].busy);

  const auto faulted = answer::faulted(*prediction.lowered, prediction.timeline);
  CHECK(faulted.without == sound.iteration);
  REQUIRE(faulted.each.size() == 1);
  CHECK(faulted.each[0].cost == longer);
  REQUIRE(!faulted.waits.empty());
  CHECK(faulted.waits[0].awaited == 5);
  CHECK(faulted.waits[0].gpus == 31);
  CHECK(faulted.waits[0].axes == Axes(Axis::data));
}

TEST_CASE("a NIC at half its rate halves what its group moves") {
  const auto exposed = [](const std::string& faults) {
    const auto s = large("{tensor: 8, pipeline: 1, data: 4}", faults).summary;
    return to_seconds(s.breakdown[static_cast<std::size_t>(graph::Category::data_comm)]);
  };
  const double ratio = exposed("[{nic: 3, rate: 0.5}]") / exposed("");
  CHECK(ratio > 1.99);  // all but the latencies
  CHECK(ratio <= 2);
}

TEST_CASE("a worse fault never makes a step shorter") {
  for (const char* fault : {"[{{gpu: 9, slowdown: {}}}]", "[{{nic: 3, rate: {}}}]", "[{{nvlink: 6, rate: {}}}]",
                            "[{{share: 20%, slowdown: {}, seed: 4}}]", "[{{share: 20%, rate: {}, seed: 4}}]"}) {
    const bool slows = std::string(fault).find("slowdown") != std::string::npos;
    Time before = iteration("");
    for (const double step : {1., 2., 4.}) {
      const auto faults = fmt::format(fmt::runtime(fault), slows ? 1 + .1 * step : 1 / (1 + step));
      CAPTURE(faults);
      const Time now = iteration(faults);
      CHECK(now >= before);
      before = now;
    }
    CHECK(before > iteration(""));  // each acts
  }
}

TEST_CASE("jitter: by seed, and slower than none") {
  const auto sound = iteration("");
  CHECK(iteration("[{jitter: 3%, seed: 1}]") == iteration("[{jitter: 3%, seed: 1}]"));
  CHECK(iteration("[{jitter: 3%, seed: 1}]") != iteration("[{jitter: 3%, seed: 2}]"));
  CHECK(load("[{jitter: 3%, seed: 1}]").digest != load("[{jitter: 3%, seed: 2}]").digest);
  CHECK(load("").digest != load("[{gpu: 1, slowdown: 1.5}]").digest);
  double mean = 0;
  for (int seed = 0; seed < 8; ++seed)
    mean += to_seconds(iteration(fmt::format("[{{jitter: 3%, seed: {}}}]", seed))) / 8;
  CHECK(mean > to_seconds(sound));
}

TEST_CASE("a NIC that is down leaves its traffic to the others of its node, and a slow node is its GPUs") {
  const Time sound = iteration(""), down = iteration("[{nic: 1, rate: 0}]");
  CHECK(sound < down);
  // The node has 8 NICs: as if each had 7/8.
  std::string each;
  for (int nic = 0; nic < 8; ++nic) each += fmt::format("{}{{nic: {}, rate: 0.875}}", nic ? ", " : "", nic);
  CHECK(down == iteration("[" + each + "]"));
  CHECK(down <= iteration("[{nic: 1, rate: 0}, {nic: 2, rate: 0}]"));
  std::string gpus;
  for (int gpu = 8; gpu < 16; ++gpu) gpus += fmt::format("{}{{gpu: {}, slowdown: 1.2}}", gpu > 8 ? ", " : "", gpu);
  CHECK(iteration("[{node: 1, slowdown: 1.2}]") == iteration("[" + gpus + "]"));
}

TEST_CASE("impossible input is refused with its rule") {
  const std::pair<const char*, const char*> cases[] = {
      {"[{gpu: 32, slowdown: 1.2}]", "'faults' names GPU 32, and the cluster has GPU 0 to 31"},
      {"[{nic: 32, rate: 0.5}]", "'faults' names NIC 32, and the cluster has NIC 0 to 31"},
      {"[{gpu: 1, slowdown: 1.2}, {gpu: 1, slowdown: 1.3}]", "two on one part"},
      {"[{nic: 1, rate: 0.2}, {nic: 1, rate: 0.3}]", "two on one part"},
      {"[{jitter: 1%}, {jitter: 2%}]", "'jitter' twice"},
      {"[{gpu: 1, slowdown: 0.5}]", "slowdown"},
      {"[{nic: 1, rate: 1.5}]", "rate"},
      {"[{nvlink: 1, rate: 0}]", "a NIC may be down"},
      {"[{node: 4, slowdown: 1.2}]", "names node 4, and the cluster has node 0 to 3"},
      {"[{node: 1, slowdown: 1.2}, {gpu: 9, slowdown: 1.2}]", "two on one part"},
      {"[{gpu: 1, nic: 2, rate: 0.5}]", "give two faults"},
      {"[{gpu: 1}]", "slowdown"},
      {"[{gpu: 1, slowdown: 1.2, rate: 0.5}]", "'rate' does not go with 'gpu'"},
      {"[{link: [leaf 0, leaf 1], rate: 0.5}]", "is no device"},
      {"[{link: [node 0 NIC 0, core 7], rate: 0.5}]", "nothing of this job goes over"},
      {"[{share: 1%, slowdown: 1.2}]", "is none"},
      {"[{}]", "a fault is"},
      {"{gpu: 1}", "'faults' must be a list"},
      {"[]", "'faults' must be a list"}};
  for (const auto& [faults, rule] : cases) {
    CAPTURE(faults);
    const auto said = error_of(faults);
    CAPTURE(said);
    CHECK(said.find(rule) != std::string::npos);
  }
}
