// `rehearse check` refuses what `rehearse run` refuses, in the same words, with the place in the file.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>

#include "../program.hpp"
#include "answer/predict.hpp"
#include "base/error.hpp"
#include "schedule/registry.hpp"

using namespace rehearsal;

namespace {

// Eight stages of a real model: shows what framework operators and a schedule are refused for.
constexpr const char* kModel =
    "version: 1\n"
    "model: llama3-8b\n"
    "cluster: {use: dgx-h100, nodes: 1}\n"
    "parallelism: {pipeline: 8}\n"
    "batch: {global: 32, micro: 1}\n";

template <class Act>
std::string refusal(Act&& act) {
  try {
    act();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every schedule is checked as it is run") {
  int refused = 0, accepted = 0;
  for (const auto& name : schedule::registry().names())
    for (const char* more : {"", "parallelism.chunks=2", "framework=native", "schedule.memory_limit=1GiB"}) {
      if (name == "exact" || name == "best") continue;  // a search too long for a test
      CAPTURE(name);
      CAPTURE(more);
      std::vector<std::string> sets{"schedule=" + name};
      if (*more) sets.emplace_back(more);
      scenario::Scenario scenario;
      if (!refusal([&] { scenario = scenario::load_text(kModel, "file.yaml", sets); }).empty()) continue;
      const auto run = refusal([&] { answer::predict(scenario); });
      CHECK(refusal([&] { answer::check(scenario); }) == run);
      (run.empty() ? accepted : refused)++;
    }
  CHECK(accepted > 10);
  CHECK(refused > 4);
}

TEST_CASE("what has no price is refused in one message, after every rule was checked") {
  const auto refused = [](const std::vector<std::string>& sets) {
    return refusal([&] { answer::predict(scenario::load_text(kModel, "file.yaml", sets)); });
  };
  CHECK(refused({"model=mixtral-8x7b", "parallelism.expert=3"}).find("'expert' 3 does not divide the 8 experts") !=
        std::string::npos);
  CHECK(refused({"model=mixtral-8x7b", "cluster.nodes=8", "parallelism={expert: 8, context: 2}",
                 "framework.expert_overlap=true"}) ==
        "--set parallelism={expert: 8, context: 2}: error: framework.expert_overlap beside a ring of context is not "
        "priced yet: the scenario is valid, but this program cannot predict its time");
}

TEST_CASE("a sequence that is cut over GPUs, in every way") {
  for (const char* way : {"ring", "all-gather", "all-to-all"})
    for (const char* balance : {"true", "false"}) {
      const auto scenario = scenario::load_text(kModel, "file.yaml",
                                                {"parallelism={context: 8}", "training.context=" + std::string(way),
                                                 "training.context_balance=" + std::string(balance)});
      CHECK(refusal([&] { answer::check(scenario); }).empty());
      CHECK(refusal([&] { answer::predict(scenario); }).empty());
    }
  CHECK(refusal([&] {
          scenario::load_text(kModel, "file.yaml", {"parallelism={context: 8}", "training.attention=unfused"});
        }).find("set 'attention' to flash") != std::string::npos);
}

TEST_CASE("check names the place of what run would refuse, and exits with 2") {
  const Scratch scratch;
  const std::string file = (scratch.folder / "model.yaml").string();
  for (const std::string name : {"seq1f1b", "pipedream", "zb-1p"}) {
    CAPTURE(name);
    std::ofstream(file) << kModel << "schedule: " << name << "\n";
    const auto command = [&](const char* verb) {
      return shell("REHEARSAL_PROFILES=/nowhere '" REHEARSE_BINARY "' " + std::string(verb) + " '" + file + "' 2>&1");
    };
    const auto check = command("check"), run = command("run");
    CHECK(check.status == run.status);
    if (run.status == 0) continue;
    CHECK(run.status == 2);
    CHECK(contains(check.out, file + ":6:11: error: "));
    CHECK(contains(run.out, file + ":6:11: error: "));
  }
  std::ofstream(file) << kModel;
  const auto set = shell("'" REHEARSE_BINARY "' check --set schedule=pipedream '" + file + "' 2>&1");
  CHECK(set.status == 2);
  CHECK(contains(set.out, "--set schedule=pipedream: error: schedule pipedream runs in `rehearse schedule`"));
  // Layers that cannot be divided: the plan knows, the partition decides.
  std::ofstream(file) << kModel << "partition: balanced\n";
  CHECK(shell("'" REHEARSE_BINARY "' check '" + file + "'").status == 0);
}
