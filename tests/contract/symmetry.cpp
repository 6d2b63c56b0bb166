// A rank that represents a class does what every rank of the class does: with and without symmetry every task of every
// rank has the same start and end, to the picosecond, whether contention is detected (auto) or simulated throughout
// (fluid).
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "answer/summary.hpp"
#include "random_training.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

constexpr std::size_t kTrainings = 240;

// The starts and ends of a rank of some pipeline rank, and how many ranks had the same ones.
using Life = std::vector<Time>;
using Lives = std::map<std::pair<std::uint32_t, Life>, std::uint32_t>;

Lives lives(const graph::TaskGraph& graph, const timeline::Timeline& timeline) {
  Lives all;
  for (const auto& rank : graph.ranks()) {
    Life life;
    for (const auto* times : {&timeline.start, &timeline.end}) {
      const auto first = times->begin() + std::ptrdiff_t(rank.first_task);
      life.insert(life.end(), first, first + std::ptrdiff_t(graph.program_of(rank).size()));
    }
    all[{rank.place[Axis::pipeline], std::move(life)}] += rank.multiplicity;
  }
  return all;
}

std::multiset<double> peaks(const answer::Summary& summary) {
  std::multiset<double> all;
  for (const auto& rank : summary.ranks)
    for (std::uint32_t i = 0; i < rank.count; ++i) all.insert(rank.peak.allocated);
  return all;
}

}  // namespace

TEST_CASE("with and without symmetry: the same answer") {
  std::size_t tried = 0, folded = 0, in_part = 0, shared = 0, hidden = 0;
  for (std::uint64_t seed = 0; tried < kTrainings; ++seed) {
    const RandomTraining training(seed);
    CAPTURE(seed);
    CAPTURE(training.text());
    // In some cases expert exchanges run beside rows of kernels.
    std::vector<std::string> sets{seed % 4 == 1 ? "framework.shared_expert_overlap=true"
                                                : "framework.expert_overlap=true"};
    if (seed % 4 == 3 || !question(training.text(), sets)) sets.clear();
    const auto classes = question(training.text(), sets);
    sets.emplace_back("simulate.symmetry=off");
    const auto all = question(training.text(), sets);
    REQUIRE(classes.has_value() == all.has_value());
    if (!classes) continue;
    ++tried;
    const auto works = classes->graph.works();
    hidden += std::any_of(works.begin(), works.end(), [&](const graph::Work& work) {
      const auto* both = std::get_if<graph::Overlapped>(&work);
      return both && std::holds_alternative<graph::Dispatch>(works[both->collective.index()]);
    });
    REQUIRE(all->durations == classes->durations);
    const auto ranks = classes->graph.ranks().size();
    folded += ranks < all->graph.ranks().size();
    in_part += ranks < all->graph.ranks().size() && ranks > classes->graph.programs().size();
    for (const char* engine : {"auto", "fluid"}) {
      CAPTURE(engine);
      const auto one = simulate(*classes, engine), every = simulate(*all, engine);
      shared += engine == std::string("auto") && one.engine == "fluid";
      CHECK(one.engine == every.engine);
      CHECK(one.makespan() == every.makespan());
      CHECK(lives(classes->graph, one) == lives(all->graph, every));
      const answer::SummaryParts parts{.memory = tried % 8 == 0, .critical_path = false};
      const auto summary = answer::summarize(*classes, one, parts), whole = answer::summarize(*all, every, parts);
      CHECK(summary.contention == whole.contention);
      CHECK(summary.breakdown == whole.breakdown);
      CHECK(peaks(summary) == peaks(whole));
      CHECK(summary.peak.reserved == whole.peak.reserved);
    }
  }
  MESSAGE(tried << " trainings: " << folded << " with fewer ranks than GPUs, " << in_part
                << " of them with several of a pipeline rank; in " << shared << " something was short, in " << hidden
                << " exchanges were beside kernels");
  CHECK(folded > tried / 2);
  CHECK(in_part > 10);
  CHECK(shared > tried / 2);
  CHECK(hidden > 10);
}
