#include "mpi/mpi_backend.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cpu/cpu_worker.hpp"
#include "dispatch/probe.hpp"
#include "dispatch/rank_loop.hpp"
#include "dispatch/results.hpp"
#include "graph/validate.hpp"
#include "launch/launch.hpp"
#include "launch/machine.hpp"
#include "launch/rank_process.hpp"
#include "mpi/blas.hpp"
#include "mpi/environment.hpp"
#include "mpi/mpi_transport.hpp"

namespace rehearsal::mpi {
namespace {

using backend::Capability;
using backend::Compute;
using backend::Fidelity;
using backend::RunOptions;
using backend::Timeline;
using dispatch::RankResult;

class MpiSession : public backend::Session, public dispatch::LinkProber {
 public:
  MpiSession(const graph::TaskGraph& graph, std::shared_ptr<launch::RankProcess> job)
      : graph_(graph), job_(std::move(job)), rank_(job_->bootstrap().rank()), ranks_here_(mpi::ranks_here()) {
    if (ranks_here_ != job_->bootstrap().size()) clock_ = measure_clock(MPI_COMM_WORLD);
  }

  Timeline run(const RunOptions& options) override {
    return job_->guarded([&] { return report(perform(options), options); });
  }
  backend::TrainingResult trained() const override { return trained_; }

  dispatch::LinkProbe probe_links() override {
    return job_->guarded([&] {
      std::atomic<bool> stop{false};
      MpiTransport transport(graph_, rank_, manner(has_core_each(), &stop));
      dispatch::Progress progress;
      job_->presence().begin(progress, RunOptions().timeout, stop);
      dispatch::LinkProbe mine = dispatch::probe(transport, rank_, graph_.ranks().size(), algorithms_, progress);
      job_->presence().end();
      mine.single_copy = launch::single_copy_works();
      std::vector<dispatch::LinkProbe> all;
      for (const std::string& one : job_->publish(dispatch::write(mine))) all.push_back(dispatch::read_probe(one));
      return all.empty() ? mine : dispatch::merge(all);
    });
  }

 private:
  bool has_core_each() const { return ranks_here_ <= launch::cores(); }
  MpiTransport::Manner manner(bool spin, const std::atomic<bool>* stop) const {
    // `rehearse hosts` makes many hosts of one machine.
    const auto here = std::getenv("REHEARSAL_HOSTS") ? job_->bootstrap().size() : ranks_here_;
    return {spin, static_cast<std::int64_t>((here + launch::cores() - 1) / launch::cores()), clock_, stop};
  }

  RankResult perform(const RunOptions& options) {
    const bool real = options.compute == Compute::real;
    const auto priority = dispatch::raised_for(options, launch::is_rank());
    launch::refuse_crowding(options, ranks_here_);
    std::atomic<bool> stop{false};
    MpiTransport transport(graph_, rank_, manner(real && has_core_each(), &stop));
    std::unique_ptr<dispatch::Worker> worker;
    if (real) worker = cpu::make_worker(graph_, rank_, options, fastest_gemm().function);
    dispatch::Progress progress;
    dispatch::RankLoop loop(graph_, rank_, options, transport, worker.get(), progress);

    job_->presence().begin(progress, options.timeout, stop);
    RankResult result;
    try {
      dispatch::Usage before;
      for (int step = 0; step < options.warmup + std::max(options.iterations, 1); ++step) {
        if (step == options.warmup) before = dispatch::usage();
        timeline::Spans spans = loop.iterate(step, stop);
        if (step >= options.warmup) result.iterations.push_back(std::move(spans));
      }
      result.used = dispatch::usage() - before;
      transport.agree_on_start();  // who has ended still sends what others wait for
      result.clock_error = clock_error();
    } catch (const dispatch::Stopped&) {
      job_->presence().end();
      throw MachineError(fmt::format("nothing has moved for ten times {}; this rank stands at:\n{}",
                                     show(options.timeout), loop.heads()));
    } catch (...) {
      job_->presence().end();
      throw;
    }
    job_->presence().end();
    result.raised_priority = priority && priority->granted();
    if (worker) result.learned = worker->learned();
    return result;
  }

  // At any time of the run: what the clocks have drifted since adds to what is not known of them now.
  Time clock_error() const {
    if (ranks_here_ == graph_.ranks().size()) return {};
    const auto [offset, error] = measure_clock(MPI_COMM_WORLD);
    return std::max(clock_.error, error + std::max(offset - clock_.offset, clock_.offset - offset));
  }

  // Reports to the process that makes the timeline: the parent, or rank 0 of a job without one.
  Timeline report(const RankResult& result, const RunOptions& options) {
    std::vector<RankResult> all;
    for (const std::string& one : job_->publish(dispatch::write(result))) all.push_back(dispatch::read(one));
    if (all.empty()) return {};
    if (options.compute == Compute::real) trained_ = dispatch::trained(graph_, all);
    Timeline timeline = dispatch::assemble(graph_, std::move(all), "mpi", options.compute);
    timeline.engine = "processes";
    return timeline;
  }

  const graph::TaskGraph& graph_;
  std::shared_ptr<launch::RankProcess> job_;
  const RankId rank_;
  const std::size_t ranks_here_;
  ClockOffset clock_;
  backend::TrainingResult trained_;
};

class Mpi : public backend::Backend {
 public:
  std::string name() const override { return "mpi"; }
  std::string summary() const override {
    return "Performs the graph with one process per rank: real messages and collectives by MPI, compute timed or real.";
  }
  std::vector<Capability> capabilities() const override {
    return {{"compute", Fidelity::exact, "kernels on the CPU in fp32; or timed: waits out the predicted time"},
            {"message", Fidelity::exact, "nonblocking sends and receives of all bytes"},
            {"collective", Fidelity::exact,
             "the predicted algorithm's own steps as sends and receives, or MPI's nonblocking collectives"}};
  }

  std::unique_ptr<backend::Session> prepare(const graph::TaskGraph& graph) override {
    if (!job_)
      job_ =
          std::make_shared<launch::RankProcess>(launch::Launchers::mpi, [](const auto&) { return open_bootstrap(); });
    return job_->guarded([&] {
      launch::Bootstrap& all = job_->bootstrap();
      if (all.size() != graph.ranks().size())
        throw MachineError(
            fmt::format("the MPI job has {} ranks and the scenario needs {}{}", all.size(), graph.ranks().size(),
                        all.size() == 1 ? "; does mpirun belong to another MPI library than the one this "
                                          "program was built with?"
                                        : ""));
      dispatch::compare_digests(all.gather_everywhere("graph", graph.digest()));
      graph::validate(graph);
      return std::make_unique<MpiSession>(graph, job_);
    });
  }

 private:
  std::shared_ptr<launch::RankProcess> job_;
};

}  // namespace

std::unique_ptr<backend::Backend> make_mpi() { return std::make_unique<Mpi>(); }

}  // namespace rehearsal::mpi
