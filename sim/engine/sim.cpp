#include "engine/sim.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/range.hpp"
#include "base/spelling.hpp"
#include "engine/demands.hpp"
#include "engine/prepared.hpp"
#include "graph/validate.hpp"

namespace rehearsal::engine {
namespace {

using backend::Capability;
using backend::RunOptions;

// The first few of the tasks at which ranks are stuck.
std::string blocked(const graph::TaskGraph& graph, const std::vector<TaskId>& tasks) {
  constexpr std::size_t kShown = 16;
  std::string text;
  for (std::size_t i = 0; i < std::min(tasks.size(), kShown); ++i) {
    const RankId rank = graph.rank_of(tasks[i]);
    text += fmt::format("\n  rank {} at {}", rank.value, graph.label(rank, graph.local(tasks[i])));
  }
  if (tasks.size() > kShown) text += fmt::format("\n  and {} more", tasks.size() - kShown);
  return text;
}

[[noreturn]] void report_cycle(const graph::TaskGraph& graph, const std::vector<TaskId>& stuck) {
  throw InternalError(fmt::format("the task graph has a cycle, each waits for the one before:\n  {}\nblocked:{}",
                                  fmt::join(graph::find_cycle(graph), "\n  "), blocked(graph, stuck)));
}

// The clocks add picoseconds without checks: no step takes longer than all tasks of all programs in sequence (ranks of
// one program run in step). Usually a quick upper bound suffices.
void check_range(const graph::TaskGraph& graph, std::span<const Time> durations) {
  const Time longest = durations.empty() ? Time{} : *std::max_element(durations.begin(), durations.end());
  if (to_seconds(longest) * double(graph.tasks()) < kMostSeconds) return;
  double all = 0;
  for (const auto& program : graph.programs())
    for (const WorkId work : program.work) all += to_seconds(durations[work.index()]);
  if (!(all < kMostSeconds)) refuse_time();
}

class SimSession : public backend::Session {
 public:
  explicit SimSession(const graph::TaskGraph& graph) : prepared_(graph) {}

  Timeline run(const RunOptions& options) override {
    const graph::TaskGraph& graph = prepared_.graph();
    INVARIANT(options.durations.size() == graph.works().size(),
              fmt::format("{} durations for {} works", options.durations.size(), graph.works().size()));
    for (Time duration : options.durations) INVARIANT(duration >= Time{}, "a negative duration");
    INVARIANT(options.held.empty() || options.held.size() == graph.works().size(), "one time on the wire per work");
    for (std::size_t w = 0; w < options.held.size(); ++w)
      INVARIANT(options.held[w] >= Time{} && options.held[w] <= options.durations[w],
                "longer on the wire than it takes");
    check_range(graph, options.durations);
    const std::vector<std::string> engines{"auto", "events", "fluid", "replay"};
    if (std::find(engines.begin(), engines.end(), options.engine) == engines.end())
      throw UserError("unknown engine '" + options.engine + "'" + suggestion(options.engine, engines));

    Timeline timeline;
    timeline.backend = "sim";
    Outcome outcome;
    if (options.engine != "events") outcome = evaluate("replay", replay, options, timeline);
    if (options.engine == "replay" && !outcome.stuck.empty()) {
      if (!graph::find_cycle(graph).empty()) report_cycle(graph, outcome.stuck);
      throw UserError("engine 'replay' cannot follow this graph; use 'auto' or 'events'. Blocked:" +
                      blocked(graph, outcome.stuck));
    }
    if (options.engine == "events" || !outcome.stuck.empty())
      outcome = evaluate("events", simulate_events, options, timeline);
    if (!outcome.stuck.empty()) report_cycle(graph, outcome.stuck);
    if (options.places && (options.engine == "auto" || options.engine == "fluid")) {
      const Demands demands(prepared_, {*options.places, options.footprints});
      if (options.engine == "fluid" || overloaded(prepared_, demands, timeline)) {
        const Time without = outcome.makespan;
        reset("fluid", timeline);
        outcome = simulate_shared(prepared_, demands, timeline);
        timeline.contention->without = without;
      }
    }

    // The graph is one iteration behind a barrier: all iterations last equally long.
    timeline.iteration_end.assign(static_cast<std::size_t>(std::max(options.iterations, 1)), outcome.makespan);
    return timeline;
  }

 private:
  void reset(const char* engine, Timeline& timeline) const {
    timeline.engine = engine;
    timeline.start.assign(prepared_.graph().tasks(), Time{});
    timeline.end.assign(prepared_.graph().tasks(), kNever);
  }
  template <class Evaluator>
  Outcome evaluate(const char* name, Evaluator evaluator, const RunOptions& options, Timeline& timeline) const {
    reset(name, timeline);
    const std::vector<Time> nothing(options.held.empty() ? options.durations.size() : 0);
    return evaluator(prepared_, Prices{options.durations, options.held.empty() ? nothing : options.held}, timeline);
  }

  Prepared prepared_;
};

class Sim : public backend::Backend {
 public:
  std::string name() const override { return "sim"; }
  std::string summary() const override {
    return "Predicts when every task runs from the time that each takes alone; needs no hardware.";
  }
  std::vector<Capability> capabilities() const override {
    std::vector<Capability> all;
    for (const char* kind : {"compute", "message", "collective"})
      all.push_back({kind, backend::Fidelity::simulated, "durations from the cost model"});
    return all;
  }
  std::unique_ptr<backend::Session> prepare(const graph::TaskGraph& graph) override {
    return std::make_unique<SimSession>(graph);
  }
};

}  // namespace

std::unique_ptr<backend::Backend> make_sim() { return std::make_unique<Sim>(); }

}  // namespace rehearsal::engine
