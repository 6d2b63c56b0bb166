#include "loopback/loopback.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "graph/validate.hpp"
#include "loopback/iteration.hpp"

namespace rehearsal::loopback {
namespace {

using backend::Capability;
using backend::Fidelity;
using backend::RunOptions;
using backend::Timeline;

constexpr std::size_t kMaxThreads = 512;  // beyond this the scheduler, not the graph, decides the times

class LoopbackSession : public backend::Session {
 public:
  explicit LoopbackSession(const graph::TaskGraph& graph) : graph_(graph), lists_(dispatch::issue_lists(graph)) {
    if (lists_.size() > kMaxThreads)
      throw MachineError(
          fmt::format("loopback needs {} threads, one per rank and lane, and runs at most {}; use fewer "
                      "ranks",
                      lists_.size(), kMaxThreads));
    graph::validate(graph);
  }

  Timeline run(const RunOptions& options) override {
    INVARIANT(options.durations.size() == graph_.works().size(),
              fmt::format("{} durations for {} works", options.durations.size(), graph_.works().size()));
    Timeline timeline;
    timeline.fidelity = Fidelity::timed;
    timeline.backend = "loopback";
    timeline.engine = "threads";
    for (int i = 0; i < options.warmup + std::max(options.iterations, 1); ++i) {
      Iteration iteration(graph_, lists_, options.durations);
      iteration.run(options.timeout);
      if (i < options.warmup) continue;
      const auto last = std::max_element(iteration.end.begin(), iteration.end.end());
      timeline.iteration_end.push_back(last == iteration.end.end() ? Time{} : *last);
      timeline.start = std::move(iteration.start);
      timeline.end = std::move(iteration.end);
    }
    return timeline;
  }

 private:
  const graph::TaskGraph& graph_;
  std::vector<dispatch::IssueList> lists_;
};

class Loopback : public backend::Backend {
 public:
  std::string name() const override { return "loopback"; }
  std::string summary() const override {
    return "Performs the graph with threads of this process: real order and waiting, timed compute and messages.";
  }
  std::vector<Capability> capabilities() const override {
    return {{"compute", Fidelity::timed, "waits out the predicted time"},
            {"message", Fidelity::timed, "arrives after the predicted time; no bytes are copied"},
            {"collective", Fidelity::timed, "the members really meet, then wait out the predicted time"}};
  }
  std::unique_ptr<backend::Session> prepare(const graph::TaskGraph& graph, const cluster::Cluster&) override {
    return std::make_unique<LoopbackSession>(graph);
  }
};

}  // namespace

std::unique_ptr<backend::Backend> make_loopback() { return std::make_unique<Loopback>(); }

}  // namespace rehearsal::loopback
