#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "dispatch/clock.hpp"
#include "dispatch/rank_loop.hpp"
#include "dispatch/results.hpp"
#include "dispatch/watchdog.hpp"
#include "dispatch/zero_buffer.hpp"
#include "graph/validate.hpp"
#include "loopback/in_process_transport.hpp"
#include "loopback/loopback.hpp"

namespace rehearsal::loopback {
namespace {

using backend::Capability;
using backend::Compute;
using backend::Fidelity;
using backend::RunOptions;
using backend::Timeline;

constexpr std::size_t kMaxThreads = 512;  // with more, the scheduler rather than the graph decides the times

// One run of all ranks: their threads, their results and the watchdog.
class RankThreads {
 public:
  RankThreads(const graph::TaskGraph& graph, const RunOptions& options, const WorkerFactory& workers)
      : graph_(graph),
        options_(options),
        workers_(workers),
        hub_(graph),
        progress_(graph.ranks().size()),
        results_(graph.ranks().size()),
        errors_(graph.ranks().size()),
        set_up_(static_cast<std::ptrdiff_t>(graph.ranks().size())) {}

  std::vector<dispatch::RankResult> run() {
    std::vector<std::thread> threads;
    try {
      for (std::size_t r = 0; r < progress_.size(); ++r) threads.emplace_back([this, r] { perform(RankId(r)); });
    } catch (const std::system_error& error) {
      hub_.stop();
      for (std::thread& thread : threads) thread.join();
      throw MachineError(fmt::format("loopback could not start thread {} of {}: {}", threads.size() + 1,
                                     progress_.size(), error.what()));
    }
    const std::string hang = watch();
    for (std::thread& thread : threads) thread.join();
    for (std::size_t r = 0; r < errors_.size(); ++r)
      if (errors_[r]) rethrow_with_name(r);
    if (!hang.empty()) throw MachineError(hang);
    return std::move(results_);
  }

 private:
  // The thread of a rank.
  void perform(RankId rank) {
    dispatch::Progress& progress = progress_[rank.index()];
    bool counted = false;
    const auto priority = dispatch::raised_for(options_);
    try {
      dispatch::wake_precisely();
      std::unique_ptr<dispatch::Worker> worker;
      if (options_.compute == Compute::real) worker = workers_(graph_, rank, options_);
      dispatch::RankLoop loop(graph_, rank, options_, hub_.transport(rank), worker.get(), progress);
      counted = true;
      set_up_.count_down();

      dispatch::RankResult& result = results_[rank.index()];
      dispatch::Usage before;
      for (int i = 0; i < options_.warmup + std::max(options_.iterations, 1); ++i) {
        if (i == options_.warmup) before = dispatch::usage();
        auto spans = loop.iterate(i, hub_.stopped());
        if (i >= options_.warmup) result.iterations.push_back(std::move(spans));
      }
      result.used = dispatch::usage() - before;
      result.raised_priority = priority && priority->granted();
      if (worker) result.learned = worker->learned();
    } catch (const dispatch::Stopped&) {
    } catch (...) {
      errors_[rank.index()] = std::current_exception();
      hub_.stop();
    }
    if (!counted) set_up_.count_down();
    std::lock_guard lock(control_);
    ++finished_;
    moved_.notify_one();
  }

  // Waits until all have finished; returns the report if there is no more progress.
  std::string watch() {
    set_up_.wait();
    std::vector<const dispatch::Progress*> ranks;
    for (const dispatch::Progress& progress : progress_) ranks.push_back(&progress);
    dispatch::Watchdog watchdog(options_.timeout);
    const std::chrono::nanoseconds quarter(options_.timeout.count() / 1000 / 4);
    const auto look_again =
        std::clamp<std::chrono::nanoseconds>(quarter, std::chrono::milliseconds(1), std::chrono::seconds(1));
    std::unique_lock lock(control_);
    while (!moved_.wait_for(lock, look_again, [this] { return finished_ == progress_.size(); })) {
      if (options_.progress) options_.progress(iterations());
      if (hub_.stopped() || !watchdog.expired(ranks, dispatch::now())) continue;
      std::vector<dispatch::Positions> positions;
      for (const dispatch::Progress* rank : ranks) positions.push_back(dispatch::positions(*rank));
      hub_.stop();
      return fmt::format("loopback: nothing has moved for {}; {}", show(options_.timeout),
                         dispatch::hang_report(graph_, positions));
    }
    return {};
  }

  // Of the rank with the fewest ended iterations.
  int iterations() const {
    std::uint32_t fewest = UINT32_MAX;
    for (const dispatch::Progress& progress : progress_) fewest = std::min(fewest, progress.iterations.load());
    return static_cast<int>(fewest);
  }

  [[noreturn]] void rethrow_with_name(std::size_t rank) {
    const std::string where = fmt::format("loopback, rank {}: ", rank);
    try {
      std::rethrow_exception(errors_[rank]);
    } catch (const MachineError& error) {
      throw MachineError(where + error.what());
    } catch (const InternalError& error) {
      throw InternalError(where + error.what());
    } catch (const std::bad_alloc&) {
      throw MachineError(where + "out of memory");
    }  // UserError is self-explanatory
  }

  const graph::TaskGraph& graph_;
  const RunOptions& options_;
  const WorkerFactory& workers_;
  InProcessTransport hub_;
  std::vector<dispatch::Progress> progress_;
  std::vector<dispatch::RankResult> results_;
  std::vector<std::exception_ptr> errors_;
  std::latch set_up_;  // `progress_` must not be read before

  std::mutex control_;
  std::condition_variable moved_;
  std::size_t finished_ = 0;
};

class LoopbackSession : public backend::Session {
 public:
  LoopbackSession(const graph::TaskGraph& graph, const WorkerFactory& workers) : graph_(graph), workers_(workers) {
    if (graph.ranks().size() > kMaxThreads)
      throw MachineError(fmt::format("loopback needs {} threads, one per rank, and runs at most {}; use fewer ranks",
                                     graph.ranks().size(), kMaxThreads));
    graph::validate(graph);
    dispatch::check_zero_buffer(graph);
  }

  Timeline run(const RunOptions& options) override {
    trained_ = {};
    auto results = RankThreads(graph_, options, workers_).run();
    if (options.compute == Compute::real) trained_ = dispatch::trained(graph_, results);
    Timeline timeline = dispatch::assemble(graph_, std::move(results), "loopback", options.compute);
    timeline.engine = "threads";
    return timeline;
  }

  backend::TrainingResult trained() const override { return trained_; }

 private:
  const graph::TaskGraph& graph_;
  WorkerFactory workers_;
  backend::TrainingResult trained_;
};

class Loopback : public backend::Backend {
 public:
  explicit Loopback(WorkerFactory workers) : workers_(std::move(workers)) {}
  std::string name() const override { return "loopback"; }
  std::string summary() const override {
    return "Performs the graph with threads of this process: real order and waiting, real or timed compute.";
  }
  std::vector<Capability> capabilities() const override {
    return {
        {"compute", Fidelity::exact, "real: kernels in plain C++, fp32, for framework 'native'"},
        {"compute", Fidelity::timed, "timed: waits out the predicted time"},
        {"message", Fidelity::exact, "real: bytes are copied from thread to thread; timed: the predicted time"},
        {"collective", Fidelity::exact,
         "real: the predicted algorithm's own steps from thread to thread, or sums in rank order by one thread; timed: "
         "the members meet, then the predicted time"}};
  }
  std::unique_ptr<backend::Session> prepare(const graph::TaskGraph& graph) override {
    return std::make_unique<LoopbackSession>(graph, workers_);
  }

 private:
  WorkerFactory workers_;
};

}  // namespace

std::unique_ptr<backend::Backend> make_loopback(WorkerFactory workers) {
  return std::make_unique<Loopback>(std::move(workers));
}

}  // namespace rehearsal::loopback
