#include "lower/programs.hpp"

#include <utility>

namespace rehearsal::lower {

std::uint64_t jitter_key(const graph::Coordinates& at) {
  using graph::Pass;
  const bool backward = at.pass == Pass::recompute || at.pass == Pass::input_gradient;
  const auto pass = static_cast<std::uint64_t>(backward ? Pass::backward : at.pass);
  return pass << 48 | std::uint64_t{at.stage} << 32 | at.microbatch;
}

Programs::Programs(std::vector<graph::Program> of_programs, const JobActors& actors, const Conditions* conditions,
                   const cluster::Health* health, std::vector<std::uint32_t> jitters, graph::GraphBuilder& builder)
    : of_programs_(std::move(of_programs)),
      actors_(actors),
      conditions_(conditions),
      health_(health),
      jitters_(std::move(jitters)),
      builder_(builder) {
  if (!conditions_) {
    for (auto& program : of_programs_) sound_.push_back(builder_.add(std::move(program)));
    return;
  }
  endpoints_.resize(actors_.ranks());
  for (std::uint32_t r = 0; r < actors_.ranks(); ++r)
    endpoints_[r].resize(of_programs_[actors_.programs[r]].endpoints.size());
  for (std::size_t g = 0; g < actors_.groups.size(); ++g)
    for (const auto r : actors_.groups[g].ranks) {
      const auto& group = actors_.groups[g];
      endpoints_[r][actors_.endpoint(group, r).index()] = conditions_->of[actors_.group(g)];
    }
  for (std::size_t c = 0; c < actors_.channels.size(); ++c)
    endpoints_[actors_.channels[c].from][actors_.channels[c].send.index()] = conditions_->of[actors_.channel(c)];
}

ProgramId Programs::of(std::uint32_t rank) {
  const auto stage = actors_.programs[rank];
  if (!conditions_) return sound_[stage];
  const Key key{stage, conditions_->of[rank], conditions_->inside[rank], endpoints_[rank],
                jitters_.empty() ? 0 : jitters_[rank]};
  const auto [at, fresh] = known_.try_emplace(key);
  if (fresh) at->second = builder_.add(variant(key));
  return at->second;
}

graph::Program Programs::variant(const Key& key) {
  const auto& [stage, kernels, inside, endpoints, jitters] = key;
  graph::Program program = of_programs_[stage];
  for (std::size_t i = 0; i < program.size(); ++i) {
    auto mine = kernels;
    if (health_ && health_->jitters())
      mine.slowdown *= health_->jitter(health_->level(jitters, jitter_key(program.coordinates[i])));
    const auto endpoint = program.endpoint[i];
    program.work[i] = under(program.work[i], mine, endpoint == graph::kNoEndpoint ? inside : endpoints[endpoint]);
  }
  return program;
}

WorkId Programs::under(WorkId work, const graph::Condition& kernels, const graph::Condition& links) {
  const auto [at, fresh] = works_.try_emplace({work, kernels, links});
  if (fresh) at->second = builder_.under(work, kernels, links);
  return at->second;
}

}  // namespace rehearsal::lower
