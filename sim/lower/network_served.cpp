#include "lower/network_served.hpp"

#include "base/error.hpp"
#include "lower/server.hpp"
#include "lower/shard_state.hpp"

namespace rehearsal::lower {
namespace {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::Lane;
using graph::MemoryCategory;
using graph::Pass;
using graph::StagingCopy;

class NativeServer : public Server {
 public:
  NativeServer(const plan::Plan& plan, const graph::Program& worker, std::uint32_t workers, graph::GraphBuilder& works)
      : Server(works, workers, "parameter server"),
        plan_(plan),
        optimizer_(*plan.job.training.optimizer),
        updates_(plan.job.data_parallel.update == plan::DataParallel::Update::server) {
    for (const auto& segment : worker.segments) hold(segment);
  }

  LoweredRank run() && {
    for (std::uint32_t k = 0; k < plan_.iterations(); ++k)
      for (std::size_t p = 0; p < parts_.size(); ++p) {
        serve(p);
        ends_.pushed.push_back(double(parts_[p].elements) * double(plan_.job.data_parallel.servers));
      }
    return {std::move(program_).finish(), std::move(ends_)};
  }

 private:
  struct Part {
    std::int64_t elements = 0;
    models::OwnShard own;
    BufferId sum;
    std::optional<BufferId> parameters, states;
  };

  void hold(const graph::Segment& of_worker) {
    const auto servers = plan_.job.data_parallel.servers;
    Part part;
    part.elements = of_worker.elements / servers;
    part.own = {of_worker.tensors, part.elements, of_worker.precision, of_worker.replicas()};
    if (updates_) {
      part.parameters = program_.resident({sized(part.elements, of_worker.precision), MemoryCategory::parameters});
      if (const auto states = models::kept_elements(optimizer_, part.own); states > 0)
        part.states = program_.resident({sized(states, Precision::fp32), MemoryCategory::optimizer});
      auto segment = of_worker;
      segment.parameters = *part.parameters, segment.shards = servers, segment.sharded_parameters = servers > 1;
      if (models::keeps_master(optimizer_, segment.precision)) segment.master = part.states;
      if (optimizer_.moments > 0) segment.moments = part.states;
      program_.segment(std::move(segment));
    }
    part.sum = program_.resident({sized(part.elements, Precision::fp32), MemoryCategory::gradients});
    parts_.push_back(part);
  }

  // The first gradient initializes the sum.
  LocalTask take(std::size_t piece, std::size_t worker, LocalTask arrived) override {
    const Part& part = parts_[piece];
    const Bytes gradient = sized(part.elements, Precision::fp32);
    const BufferId into = worker == 0 ? part.sum : program_.buffer({gradient, MemoryCategory::buffers});
    std::vector<BufferUse> uses;
    if (worker > 0) uses.emplace_back(into, Access::allocate);
    uses.emplace_back(into, Access::write);
    const auto taken = add(StagingCopy{gradient, true}, Lane::compute, Pass::gradient_reduce, {arrived}, uses);
    if (worker == 0) return taken;
    return add(Kernel{.kind = KernelKind::add, .dims = {part.elements}}, Lane::compute, Pass::gradient_reduce, {},
               {{into, Access::read}, {part.sum, Access::write}, {into, Access::free}});
  }
  LocalTask update(std::size_t piece, LocalTask after) override {
    if (!updates_) return after;
    const Part& part = parts_[piece];
    std::vector<BufferUse> uses{{part.sum, Access::write}, {*part.parameters, Access::write}};
    if (part.states) uses.emplace_back(*part.states, Access::write);
    for (const auto& kernel : optimizer_.kernels(part.own))
      after = add(kernel, Lane::compute, Pass::optimizer, {}, uses);
    return after;
  }
  LocalTask give(std::size_t piece, LocalTask) override {
    const BufferId back = updates_ ? *parts_[piece].parameters : parts_[piece].sum;
    return add(StagingCopy{program_.buffer(back).size, false}, Lane::compute, Pass::parameter_gather, {},
               {{back, Access::read}});
  }

  const plan::Plan& plan_;
  const models::Optimizer& optimizer_;
  const bool updates_;
  std::vector<Part> parts_;  // of the worker's segments
};

}  // namespace

LoweredRank network_server(const plan::Plan& plan, const graph::Program& worker, std::uint32_t workers,
                           graph::GraphBuilder& works) {
  return NativeServer(plan, worker, workers, works).run();
}

graph::Work handed_over(const graph::Work& work, const std::vector<std::uint32_t>& servers) {
  const auto* staging_copy = std::get_if<StagingCopy>(&work);
  if (!staging_copy) return work;
  auto mine = *staging_copy;
  const auto turn = static_cast<std::size_t>(mine.offset.count() / mine.size.count());
  INVARIANT(turn < servers.size(), "a worker hands over the parts of servers");
  mine.offset = mine.size * std::int64_t{servers[turn]};
  return mine;
}

}  // namespace rehearsal::lower
