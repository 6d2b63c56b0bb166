#include "lower/served.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/error.hpp"
#include "lower/graph_assembler.hpp"
#include "lower/job_actors.hpp"
#include "lower/network_served.hpp"
#include "lower/programs.hpp"
#include "lower/server.hpp"
#include "models/traffic.hpp"

namespace rehearsal::lower {
namespace {

using graph::EndpointId;
using graph::Lane;
using graph::MemoryCategory;
using graph::Pass;

std::uint32_t servers_of(const plan::Job& job) { return static_cast<std::uint32_t>(job.data_parallel.servers); }
bool servers_update(const plan::Job& job) { return job.data_parallel.update == plan::DataParallel::Update::server; }
// Sums of gradients that are open at once: of the iteration that the slowest worker has not finished, and of those that
// others are ahead. If gradients are applied at once, there is no sum.
double open_sums(const plan::DataParallel& data) { return data.unbounded() ? 0 : double(data.delay) + 1; }

// The turn in which a worker talks to a server. Every turn is a permutation of whole nodes and, within each, of its
// GPUs: with a plain rotation, workers that finish their turns inside the node early would collide at the first server
// of the next node.
std::uint32_t turn_of(const plan::Job& job, std::uint32_t worker, std::uint32_t server) {
  const auto servers = servers_of(job), per_node = static_cast<std::uint32_t>(job.cluster.gpus_per_node);
  const auto nodes = job.workers() / std::min(per_node, job.workers());
  const bool beside = job.data_parallel.placement == plan::DataParallel::Placement::colocated;
  const auto each = servers / nodes;  // servers of a node
  if (!beside || servers % nodes != 0 || per_node % std::max(each, 1u) != 0)
    return (server + servers - worker % servers) % servers;
  const auto first = worker % per_node * each / per_node;  // of its own node
  return (server / each + nodes - worker / per_node) % nodes * each + (server % each + each - first) % each;
}

std::vector<std::uint32_t> servers_by_turn(const plan::Job& job, std::uint32_t worker) {
  std::vector<std::uint32_t> servers(servers_of(job));
  for (std::uint32_t s = 0; s < servers.size(); ++s) servers[turn_of(job, worker, s)] = s;
  return servers;
}

// The workers of a server in the order of their turns, which is the order of its messages; each has an endpoint.
std::vector<std::uint32_t> workers_by_turn(const plan::Job& job, std::uint32_t server) {
  std::vector<std::uint32_t> workers(job.workers());
  std::iota(workers.begin(), workers.end(), 0u);
  std::stable_sort(workers.begin(), workers.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return turn_of(job, a, server) < turn_of(job, b, server); });
  return workers;
}

// The server of a framework, or its thread for one worker. Sends get their sizes and ways once it is known which ranks
// are at their other ends.
class FrameworkServer : public Server {
 public:
  FrameworkServer(const plan::Plan& plan, const std::vector<double>& pushed, graph::GraphBuilder& works,
                  std::size_t workers, bool holds_states)
      : Server(works, workers, plan.job.threads() > 1 ? "thread of a parameter server" : "parameter server"),
        job_(plan.job),
        pushed_(pushed) {
    if (holds_states) resident_states();
    ends_.pushed = pushed;
  }

  LoweredRank run() && {
    for (std::size_t bucket = 0; bucket < pushed_.size(); ++bucket) serve(bucket);
    return {std::move(program_).finish(), std::move(ends_)};
  }

 private:
  double parameters(std::size_t bucket) const { return pushed_[bucket] / servers_of(job_); }

  void resident_states() {
    const auto states = server_states(job_);
    const double all = std::accumulate(pushed_.begin(), pushed_.end(), 0.) / servers_of(job_);
    const auto hold = [&](double size, MemoryCategory category) {
      if (size > 0) program_.resident({bytes(size), category});
    };
    hold(all * states.parameters, MemoryCategory::parameters);
    hold(all * states.gradients, MemoryCategory::gradients);
    hold(all * states.optimizer, MemoryCategory::optimizer);
    // A receive buffer for a bucket from each worker, until it has been added.
    const double largest = *std::max_element(pushed_.begin(), pushed_.end()) / servers_of(job_);
    hold(largest * served_bytes(job_).pushed * job_.workers(), MemoryCategory::buffers);
  }

  LocalTask take(std::size_t bucket, std::size_t worker, LocalTask arrived) override {
    if (job_.data_parallel.unbounded()) return step(bucket, arrived);
    // The first gradient is copied, all others are added: read, with the sum read and written.
    const MemoryBound sum{bytes(parameters(bucket) * served_bytes(job_).pushed * (worker == 0 ? 2 : 3)), 1};
    return add(sum, Lane::compute, Pass::gradient_reduce, {arrived});
  }
  LocalTask update(std::size_t bucket, LocalTask after) override {
    return servers_update(job_) && !job_.data_parallel.unbounded() ? step(bucket, after) : after;
  }
  LocalTask give(std::size_t, LocalTask done) override { return done; }

  // Memory traffic of a worker's own optimizer; one kernel per bucket, without host time and launches.
  LocalTask step(std::size_t bucket, LocalTask after) {
    const double moved = models::optimizer_bytes(job_.training, job_.framework);
    return add(MemoryBound{bytes(parameters(bucket) * moved), 1}, Lane::compute, Pass::optimizer, {after});
  }

  const plan::Job& job_;
  const std::vector<double>& pushed_;
};

// All ranks and channels. Programs: 0 for workers, 1 for servers, 2 for server threads that hold no state.
JobActors cast_of(const plan::Job& job, const std::vector<Ends>& ends) {
  const auto workers = job.workers(), servers = servers_of(job), threads = job.threads();
  std::vector<std::uint32_t> program(workers, 0);
  for (std::uint32_t s = 0; s < servers; ++s)
    for (std::uint32_t t = 0; t < threads; ++t) program.push_back(t == 0 ? 1 : 2);
  std::vector<JobActors::Channel> channels;
  for (std::uint32_t s = 0; s < servers; ++s) {
    const auto by_turn = workers_by_turn(job, s);
    for (std::uint32_t i = 0; i < by_turn.size(); ++i) {
      const auto worker = by_turn[i], turn = turn_of(job, worker, s);
      const auto thread = workers + s * threads + (threads > 1 ? i : 0);
      const auto& theirs = ends[program[thread]];
      const auto end = threads > 1 ? 0 : i;
      channels.push_back({worker, thread, ends[0].out[turn], theirs.in[end]});
      channels.push_back({thread, worker, theirs.out[end], ends[0].in[turn]});
    }
  }
  return {ends, std::move(program), std::move(channels)};
}

// The programs of ranks: that of their kind, with messages that take the ways and conditions of its channels.
class Variants {
 public:
  Variants(const plan::Plan& plan, const JobActors& actors, const std::vector<graph::Program>& kinds,
           const Conditions* conditions, graph::GraphBuilder& builder)
      : plan_(plan), actors_(actors), kinds_(kinds), conditions_(conditions), builder_(builder), ways_(actors.ranks()) {
    for (std::size_t c = 0; c < actors.channels.size(); ++c) {
      const auto& channel = actors.channels[c];
      const auto from = plan.job.gpu(channel.from), to = plan.job.gpu(channel.to);
      Way way;
      if (from != to) {
        const auto like = plan.machine->alike(from, to);
        way.from = static_cast<std::uint32_t>(like.first), way.to = static_cast<std::uint32_t>(like.second);
      }
      if (conditions) way.links = conditions->of[actors.channel(c)];
      ways_[channel.from].emplace(channel.send, way);
    }
  }

  ProgramId of(std::uint32_t rank) {
    const auto* health = plan_.health.get();
    const Key key{actors_.programs[rank], conditions_ ? conditions_->of[rank] : graph::Condition{},
                  health && health->jitters() ? rank : 0, ways_[rank],
                  plan_.performed() && actors_.programs[rank] == 0 ? servers_by_turn(plan_.job, rank)
                                                                   : std::vector<std::uint32_t>{}};
    const auto [at, fresh] = known_.try_emplace(key);
    if (fresh) at->second = builder_.add(variant(key));
    return at->second;
  }

 private:
  struct Way {  // of a send; from = to: to a rank on the same GPU
    std::uint32_t from = 0, to = 0;
    graph::Condition links;
    friend auto operator<=>(const Way&, const Way&) = default;
  };
  // The last entry: servers of a worker's staging copies, which take parts of its own arrays.
  using Key =
      std::tuple<std::uint32_t, graph::Condition, std::uint32_t, std::map<EndpointId, Way>, std::vector<std::uint32_t>>;

  graph::Program variant(const Key& key) {
    const auto& [kind, kernels, jitters, ways, servers] = key;
    graph::Program program = kinds_[kind];
    const auto each = served_bytes(plan_.job);
    const double bytes_each = (kind == 0 ? each.pushed : each.pulled) / servers_of(plan_.job);
    for (std::size_t i = 0; i < program.size(); ++i) {
      auto mine = kernels;
      if (plan_.health && plan_.health->jitters())
        mine.slowdown *= plan_.health->jitter(plan_.health->level(jitters, jitter_key(program.coordinates[i])));
      const auto way =
          program.endpoint[i] == graph::kNoEndpoint ? ways.end() : ways.find(EndpointId(program.endpoint[i]));
      if (way == ways.end()) {
        if (!servers.empty())
          program.work[i] = builder_.intern(handed_over(builder_.works()[program.work[i].index()], servers));
        program.work[i] = under(program.work[i], mine, {});
        continue;
      }
      const auto& [from, to, links] = way->second;
      if (from == to && !plan_.performed()) {  // the data is in the GPU's memory already
        program.lane[i] = Lane::send;
        continue;
      }
      const Bytes size = bytes(actors_.ends[kind].pushed[program.sequence[i]] * bytes_each);
      program.lane[i] = from != to && plan_.machine->reach(from, to).leaves_domain ? Lane::send_out : Lane::send;
      program.work[i] = under(builder_.intern(graph::Message{size, from, to, {}, {}, true}), mine, links);
    }
    return program;
  }
  WorkId under(WorkId work, const graph::Condition& kernels, const graph::Condition& links) {
    if (!conditions_) return work;
    const auto [at, fresh] = works_.try_emplace({work, kernels, links});
    if (fresh) at->second = builder_.under(work, kernels, links);
    return at->second;
  }

  const plan::Plan& plan_;
  const JobActors& actors_;
  const std::vector<graph::Program>& kinds_;
  const Conditions* conditions_;
  graph::GraphBuilder& builder_;
  std::vector<std::map<EndpointId, Way>> ways_;  // of each rank
  std::map<Key, ProgramId> known_;
  std::map<std::tuple<WorkId, graph::Condition, graph::Condition>, WorkId> works_;
};

}  // namespace

ServedBytes served_bytes(const plan::Job& job) {
  const auto states = plan::state_bytes(job.training);
  return {states.gradients, servers_update(job) ? states.parameters : states.gradients};
}

// With a delay, gradients of one iteration are sent while the next ones are computed; likewise, parameters arrive while
// others are in use, or, if workers update, there is a sum for each iteration of delay.
plan::StateBytes worker_states(const plan::Job& job) {
  const auto states = plan::state_bytes(job.training);
  const auto& data = job.data_parallel;
  const double ahead = data.synchronous() ? 0 : 1;
  if (servers_update(job)) return {states.parameters * (1 + ahead), states.gradients * (1 + ahead), 0};
  return {states.parameters, states.gradients * (1 + ahead + double(data.delay)), states.optimizer};
}

plan::StateBytes server_states(const plan::Job& job) {
  const auto states = plan::state_bytes(job.training);
  const double sums = states.gradients * open_sums(job.data_parallel);
  if (!servers_update(job)) return {0, sums, 0};
  return {states.parameters, sums, states.optimizer};
}

std::optional<ResourceMap> join_served(LoweredRank worker, const plan::Plan& plan, const Options& options,
                                       graph::GraphBuilder& builder) {
  const auto& job = plan.job;
  const auto* health = plan.health.get();
  const bool threads = job.threads() > 1;
  const auto pushed = worker.ends.pushed;
  std::vector<Ends> ends;
  std::vector<graph::Program> kinds;
  const auto add = [&](LoweredRank rank) {
    ends.push_back(std::move(rank.ends)), kinds.push_back(std::move(rank.program));
  };
  auto serves = plan.performed() ? network_server(plan, worker.program, job.workers(), builder)
                                 : FrameworkServer(plan, pushed, builder, threads ? 1 : job.workers(), true).run();
  add(std::move(worker)), add(std::move(serves));
  if (threads) add(FrameworkServer(plan, pushed, builder, 1, false).run());

  const JobActors actors = cast_of(job, ends);
  const bool uneven = health || !job.cluster.groups.empty();
  std::optional<Conditions> under;
  std::vector<std::uint32_t> jitters;
  if (uneven) under = conditions(actors, plan, options.detail != Detail::operators);
  if (health && health->jitters())
    for (std::uint32_t r = 0; r < actors.ranks(); ++r) jitters.push_back(r);

  // Symmetry needs resources even without contention: they distinguish the places of ranks.
  cluster::Resources resources(*plan.machine, health);
  const auto loaded = loads(actors, plan.rank_layout, job, resources);
  std::vector<std::uint32_t> of(actors.size());
  std::iota(of.begin(), of.end(), 0u);
  std::optional<Classes> classes;
  if (options.symmetry) {
    classes = equitable_classes(loaded_actors(actors, loaded, resources.all(), under ? &*under : nullptr, jitters));
    of = classes->of_actor;
  }
  Variants variants(plan, actors, kinds, under ? &*under : nullptr, builder);
  GraphAssembler assembler(actors, of);
  assembler.ranks(builder, [&](std::uint32_t r) {
    const auto server = r < job.workers() ? 0 : (r - job.workers()) / job.threads();
    const auto node = job.gpu(r) / static_cast<std::uint32_t>(job.cluster.gpus_per_node);
    if (r < job.workers()) return GraphAssembler::GpuSlot{variants.of(r), 1, r, node, plan.mesh.at(r)};
    RankPlace place;  // its number among ranks that share the parameters
    place.replica = place.expert_replica = server;
    return GraphAssembler::GpuSlot{variants.of(r), 1, job.workers() + server, node, place};
  });
  assembler.connect(builder);
  if (!options.shares) return std::nullopt;
  return ResourceMap{assembler.places(loaded, resources.all(), classes ? &*classes : nullptr, *plan.machine),
                     resources.all(), 0};
}

}  // namespace rehearsal::lower
