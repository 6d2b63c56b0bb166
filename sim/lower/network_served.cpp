#include "lower/network_served.hpp"

#include "base/error.hpp"

namespace rehearsal::lower {
namespace {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::EndpointId;
using graph::EndpointKind;
using graph::Lane;
using graph::MemoryCategory;
using graph::Pass;
using graph::StagingCopy;

Coordinates in_step(Pass pass) { return {pass, 0, graph::kNoLayer, graph::kNoMicrobatch}; }

class NetworkServer {
 public:
  NetworkServer(const plan::Plan& plan, const graph::Program& worker, std::uint32_t workers, graph::GraphBuilder& works)
      : plan_(plan),
        optimizer_(*plan.job.training.optimizer),
        updates_(plan.job.data_parallel.update == plan::DataParallel::Update::server),
        works_(works),
        program_("parameter server") {
    for (const auto& segment : worker.segments) hold(segment);
    for (std::uint32_t w = 0; w < workers; ++w) {
      ends_.in.push_back(program_.endpoint(EndpointKind::receive));
      ends_.out.push_back(program_.endpoint(EndpointKind::send));
    }
  }

  LoweredRank run() && {
    for (std::uint32_t k = 0; k < plan_.iterations(); ++k)
      for (const auto& part : parts_) serve(part);
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

  void serve(const Part& part) {
    const Bytes gradient = sized(part.elements, Precision::fp32);
    for (std::size_t w = 0; w < ends_.in.size(); ++w) {
      const auto arrived = program_.add(
          {works_.intern(graph::Receive{}), Lane::receive, in_step(Pass::gradient_reduce), ends_.in[w].value});
      const auto take = [&](BufferId into, bool fresh) {
        std::vector<BufferUse> uses;
        if (fresh) uses.emplace_back(into, Access::allocate);
        uses.emplace_back(into, Access::write);
        program_.add({works_.intern(StagingCopy{gradient, true}), Lane::compute, in_step(Pass::gradient_reduce)},
                     std::vector{arrived}, uses);
      };
      if (w == 0) {  // the first one initializes the sum
        take(part.sum, false);
        continue;
      }
      const BufferId other = program_.buffer({gradient, MemoryCategory::buffers});
      take(other, true);
      compute({.kind = KernelKind::add, .dims = {part.elements}}, Pass::gradient_reduce,
              {{other, Access::read}, {part.sum, Access::write}, {other, Access::free}});
    }
    if (updates_) {
      std::vector<BufferUse> uses{{part.sum, Access::write}, {*part.parameters, Access::write}};
      if (part.states) uses.emplace_back(*part.states, Access::write);
      for (const auto& kernel : optimizer_.kernels(part.own)) compute(kernel, Pass::optimizer, uses);
    }
    const BufferId back = updates_ ? *part.parameters : part.sum;
    const std::vector<BufferUse> read{{back, Access::read}};
    for (const auto end : ends_.out) {
      const auto handed = program_.add({works_.intern(StagingCopy{program_.buffer(back).size, false}), Lane::compute,
                                        in_step(Pass::parameter_gather)},
                                       {}, read);
      program_.add({works_.intern(graph::FixedDelay{}), Lane::send_out, in_step(Pass::parameter_gather), end.value},
                   std::vector{handed});
    }
    ends_.pushed.push_back(double(part.elements) * double(plan_.job.data_parallel.servers));
  }

  void compute(const Kernel& kernel, Pass pass, const std::vector<BufferUse>& uses) {
    program_.add({works_.intern(kernel), Lane::compute, in_step(pass)}, {}, uses);
  }

  const plan::Plan& plan_;
  const models::Optimizer& optimizer_;
  bool updates_;
  graph::GraphBuilder& works_;
  graph::ProgramBuilder program_;
  Ends ends_;
  std::vector<Part> parts_;  // of the worker's segments
};

}  // namespace

ServedSegments::ServedSegments(ProgramDraft& draft, Sequencer& sequencer) : draft_(draft), sequencer_(sequencer) {
  for (std::int64_t turn = 0; turn < draft.pipe.plan->job.data_parallel.servers; ++turn) {
    draft.ends.out.push_back(draft.program.endpoint(EndpointKind::send));
    draft.ends.in.push_back(draft.program.endpoint(EndpointKind::receive));
  }
}

void ServedSegments::push(std::int64_t elements, BufferId gradients) {
  const auto& out = draft_.ends.out;
  const auto here = in_step(Pass::gradient_reduce);
  const Bytes part = sized(elements / static_cast<std::int64_t>(out.size()), Precision::fp32);
  const std::vector<BufferUse> read{{gradients, Access::read}};
  for (std::size_t turn = 0; turn < out.size(); ++turn) {
    const auto handed = sequencer_.compute(
        draft_.works.intern(StagingCopy{part, false, part * static_cast<std::int64_t>(turn)}), here, read);
    draft_.program.add({draft_.works.intern(graph::FixedDelay{}), Lane::send_out, here, out[turn].value},
                       std::vector{handed});
  }
  draft_.ends.pushed.push_back(double(elements));
}

void ServedSegments::pull(std::int64_t elements, Precision precision, BufferId into) {
  const auto& in = draft_.ends.in;
  const auto here = in_step(Pass::parameter_gather);
  const Bytes part = sized(elements / static_cast<std::int64_t>(in.size()), precision);
  const std::vector<BufferUse> write{{into, Access::write}};
  for (std::size_t turn = 0; turn < in.size(); ++turn) {
    const auto arrived =
        draft_.program.add({draft_.works.intern(graph::Receive{}), Lane::receive, here, in[turn].value});
    sequencer_.compute(draft_.works.intern(StagingCopy{part, true, part * static_cast<std::int64_t>(turn)}), here,
                       write, graph::kNoEndpoint, arrived);
  }
}

LoweredRank network_server(const plan::Plan& plan, const graph::Program& worker, std::uint32_t workers,
                           graph::GraphBuilder& works) {
  return NetworkServer(plan, worker, workers, works).run();
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
