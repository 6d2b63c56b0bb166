// How laws are tested (laws.hpp), and that a broken law is detected.
#include "laws.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "random_scenario.hpp"

namespace rehearsal::contract {

namespace {

constexpr double kDefaultCases = 5110;  // of all laws together
constexpr int kMostRefused = 60;        // scenarios per case: a law that finds so few tests nothing

double number_of(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atof(text) : otherwise;
}

std::uint64_t seed_of(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) hash = (hash ^ std::uint8_t(c)) * 0x100000001b3;
  return hash % 1'000'000'000 * 1000 + std::uint64_t(number_of("REHEARSAL_LAW_SEED", 0)) * 1'000'000'007;
}

std::string commands(const Sets& sets) {
  std::string all;
  for (const auto& set : sets) all += fmt::format(" --set '{}'", set);
  return all;
}

}  // namespace

Trial::Trial(std::string text, std::uint64_t seed, bool memory)
    : random(seed ^ 0x5eed),
      text_(std::move(text)),
      scenario_(scenario::load_text(text_, "law.yaml")),
      memory_(memory) {}

bool Trial::settle(const Sets& sets) {
  try {
    scenario_ = scenario::load_text(text_, "law.yaml", with(settled_, sets));
    settled_ = with(settled_, sets);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

std::optional<answer::Result> Trial::ask(const Sets& sets) {
  try {
    const auto& asked = sets.empty() ? scenario_ : scenario::load_text(text_, "law.yaml", with(settled_, sets));
    return answer::predict(asked, {.summary = {.memory = memory_, .critical_path = false}, .assumptions = false});
  } catch (const UserError&) {
    return std::nullopt;
  }
}

void Trial::hold(bool holds, const Sets& sets, const std::string& what) {
  ++cases;
  if (holds) return;
  broken.push_back(
      fmt::format("{}\n  rehearse run law.yaml{}\n{}  of law.yaml:\n{}", what, commands(with(settled_, sets)),
                  sets.empty() ? "" : fmt::format("  rehearse run law.yaml{}\n", commands(settled_)), text_));
}

void Trial::within(double value, double low, double high, const Sets& sets, const std::string& what,
                   const Allowed* allowed) {
  const bool holds = value >= low && value <= high;
  const bool allows = !holds && allowed && value >= low / (1 + allowed->bound) && value <= high * (1 + allowed->bound);
  if (allows)
    ++exceptions[allowed->why];
  else
    worst = std::max({worst, high > 0 ? value / high : 1, value > 0 ? low / value : 1});
  hold(holds || allows, sets, fmt::format("{}: {:.6g}, where {:.6g} to {:.6g} are right", what, value, low, high));
}

void keeps(const Law& law, const std::function<void(Trial&)>& question) {
  settle();
  const int wanted = std::max(1, int(law.cases * number_of("REHEARSAL_LAW_CASES", kDefaultCases) / kDefaultCases));
  int cases = 0, scenarios = 0, broken = 0;
  double worst = 1;
  std::map<std::string, int> exceptions;
  const int told_at_most = int(number_of("REHEARSAL_LAW_TOLD", 3));
  const std::uint64_t first = seed_of(law.name);
  for (std::uint64_t seed = first; cases < wanted && seed < first + std::uint64_t(wanted) * kMostRefused; ++seed) {
    // One in five is from the generator of other tests: machines whose links intersect in every way.
    const auto text = seed % 5 == 0 ? RandomTraining(seed).text() : RandomScenario(seed).text();
    std::optional<Trial> trial;
    try {
      trial.emplace(text, seed, law.memory);
    } catch (const UserError&) {
      continue;
    }
    question(*trial);
    cases += trial->cases, scenarios += trial->cases > 0, worst = std::max(worst, trial->worst);
    for (const auto& [why, times] : trial->exceptions) exceptions[why] += times;
    for (const auto& what : trial->broken)
      if (broken++ < told_at_most)
        FAIL_CHECK("broken: " << std::string(law.name) << " (seed " << seed << ")\n" << what);
  }
  std::string told = fmt::format("{}: {} cases of {} scenarios, {} broken", law.name, cases, scenarios, broken);
  for (const auto& [why, times] : exceptions) told += fmt::format("; {} by exception: {}", times, why);
  MESSAGE(told);
  CHECK(broken == 0);
  CHECK(cases >= wanted);
}

// A law that every scenario breaks, one that none does, and one within its exception.
TEST_CASE("a broken law is reported with a reproducer, and an exception has a bound") {
  settle();
  Trial trial(RandomScenario(5).text(), 5, false);
  trial.within(2, 1, 3, {}, "inside");
  CHECK(trial.broken.empty());
  constexpr Allowed kTenth{"a reason", .1};
  trial.within(3.2, 1, 3, {}, "a little above", &kTenth);
  CHECK(trial.broken.empty());
  CHECK(trial.exceptions == std::map<std::string, int>{{"a reason", 1}});
  trial.within(3.4, 1, 3, {"batch.micro=1"}, "far above", &kTenth);
  trial.within(.8, 1, 3, {}, "below");
  CHECK(trial.cases == 4);
  REQUIRE(trial.broken.size() == 2);
  for (const char* word : {"far above: 3.4, where 1 to 3 are right", "--set 'batch.micro=1'", "version: 1"})
    CHECK_MESSAGE(trial.broken[0].find(word) != std::string::npos, trial.broken[0]);
}

}  // namespace rehearsal::contract
