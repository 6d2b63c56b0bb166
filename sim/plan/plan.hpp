// The plan of a job: the layers of each stage, the shard of each GPU, the places of groups and neighbours, and what is
// kept in memory.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/faults.hpp"
#include "cluster/machine.hpp"
#include "models/experts.hpp"
#include "models/framework.hpp"
#include "models/part.hpp"
#include "plan/parallelism.hpp"
#include "plan/partition.hpp"
#include "plan/rank_layout.hpp"
#include "plan/stage_boundaries.hpp"

namespace rehearsal::plan {

struct Job {
  models::Transformer model;
  models::Training training;
  models::Framework framework;
  Parallelism parallelism;
  Batch batch;
  std::int64_t microbatches = 1;
  // Copies of the model that are trained at once, in opposite directions (schedule::Placement::bidirectional): a rank
  // holds stages of both, and their gradients add up.
  std::int64_t copies = 1;
  // Both ends of the model are cut over the pipeline ranks: stages of their own, one on each, behind those of the
  // layers (schedule::Placement::vocabulary).
  bool vocabulary = false;
  std::int64_t pieces = 1;  // of a sequence, which go through the pipeline one after the other (Seq1F1B)
  Partition partition;
  cluster::ClusterSpec cluster;
  AxisOrder placement = kUsualOrder;
  std::vector<cluster::Fault> faults;
  // The nodes of the cluster that it runs on, in order; empty: the first ones.
  std::vector<std::uint32_t> on;
  models::ExpertSettings experts{};  // of a model that has some
  DataParallel data_parallel{};
  Resharding resharding{};                // between stages with layouts of their own
  std::vector<std::uint32_t> seats = {};  // of each rank (seat()); empty: they follow each other

  std::uint32_t node(std::uint32_t nth) const { return on.empty() ? nth : on[nth]; }
  // The ranks of parameter servers follow those of the mesh: the threads of each, server after server.
  std::uint32_t workers() const { return static_cast<std::uint32_t>(parallelism.gpus()); }
  std::uint32_t threads() const { return static_cast<std::uint32_t>(data_parallel.threads(parallelism.gpus())); }
  // The GPU of a server: the first one of its own node; the one after the workers if the only node has no NIC; or that
  // of a worker, spread evenly over them.
  std::uint32_t server_gpu(std::uint32_t server) const {
    const auto servers = static_cast<std::uint32_t>(data_parallel.servers);
    if (data_parallel.placement == DataParallel::Placement::colocated)
      return gpu(static_cast<std::uint32_t>(std::uint64_t{server} * workers() / servers));
    if (cluster.nodes == 1) return workers() + server;
    return static_cast<std::uint32_t>((cluster.nodes - servers + server) * cluster.gpus_per_node);
  }
  // The GPU of a rank.
  std::uint32_t gpu(std::uint32_t rank) const {
    if (rank >= workers()) return server_gpu((rank - workers()) / threads());
    return gpu_of_seat(seat(rank));
  }
  // Its index among the GPUs of the job, counted node by node, and the GPU there.
  std::uint32_t seat(std::uint32_t rank) const { return seats.empty() ? rank : seats[rank]; }
  std::uint32_t gpu_of_seat(std::uint32_t seat) const {
    const auto per_node = static_cast<std::uint32_t>(cluster.gpus_per_node);
    return on.empty() ? seat : on[seat / per_node] * per_node + seat % per_node;
  }
};

// A pipeline hop: the slowest of its replicas, given as the first equivalent pair of GPUs.
struct Hop {
  std::uint32_t from = 0, to = 0;
};

// Bytes per parameter of the states of mixed-precision training (ZeRO, arXiv 1910.02054, section 3.1): fp16 or bf16
// weights 2, gradients 2 or 4, fp32 master, momentum and variance 4 each; fp32 training keeps no master copy.
struct StateBytes {
  double parameters, gradients, optimizer;
};
StateBytes state_bytes(const models::Training& training);

struct Plan {
  Job job;
  Mesh mesh;                       // of its ranks, all stages cut alike
  RankLayout rank_layout{Mesh{}};  // of all ranks
  // For each pipeline rank, if layouts differ: the plan as if all stages had its layout. Else empty.
  std::vector<std::shared_ptr<const Plan>> of_stages;
  std::vector<StageBoundary> borders;               // the same
  std::shared_ptr<const cluster::Machine> machine;  // where they stand
  std::shared_ptr<const cluster::Health> health;    // what is wrong with it; null: nothing
  std::vector<Stage> stages;                        // of one copy, in model order
  models::Shard shard;
  // As a framework or the native kernels run it: one network per piece of a sequence (one, unless the schedule splits
  // sequences). All have the same parameters.
  std::vector<std::shared_ptr<const models::Network>> networks;
  const models::Network& network() const { return *networks.front(); }
  // Of the ranks that communicate along each axis. Along `data` and `shard` with the context; along
  // `pipeline` its ends, which share a tied embedding.
  std::array<GroupShape, kAxes> groups{};
  const GroupShape& group(Axis axis) const { return groups[index(axis)]; }
  Bytes message, message_gathered;  // a pipeline send of one GPU; what its receivers gather afterwards
  double kept = 1;                  // of the rows that tokens send to experts: Routed::kept
  std::vector<std::string> warnings, assumptions;

  // The plan as the ranks of a pipeline rank see it.
  const Plan& of(std::uint32_t pipeline_rank) const { return of_stages.empty() ? *this : *of_stages[pipeline_rank]; }
  bool laid_out() const { return !of_stages.empty(); }
  bool performed() const { return job.framework.native_kernels; }
  // Iterations in one graph.
  std::uint32_t iterations() const { return static_cast<std::uint32_t>(std::max(1, job.data_parallel.performed)); }
  // Skip connections (models::Transformer::skips): the one that a layer gives or takes, and the stages that it
  // connects, which are equal if both layers are in one stage.
  std::optional<std::uint32_t> skip_of_layer(std::int64_t layer) const;
  struct Skip {
    std::uint32_t from = 0, to = 0;
  };
  Skip skip(std::uint32_t number) const;
  // Hidden states that go from this stage to the next: one, and one more for each module of multi-token prediction
  // whose loss is further on.
  std::int64_t carried(std::uint32_t from) const;
  std::uint32_t stage_of_layer(std::int64_t layer) const;
  // The hop from the GPUs of one pipeline rank to those of another.
  Hop hop(std::int64_t from, std::int64_t to) const;
  // Parameters that a GPU holds of these stages (a tied embedding on first and last stage exists twice when they are
  // on different ranks): of experts, whose replicas are fewer, and all others.
  struct HeldParameters {
    double dense = 0, experts = 0;
    double spared = 0, expert_spared = 0;  // models::Part::spared
    double all() const { return dense + experts; }
    // As many, of the bytes of training, as these take.
    HeldParameters stored() const { return {dense - (spared - expert_spared), experts - expert_spared}; }
  };
  // `stages_held`: those of the second copy follow those of the first.
  HeldParameters held(const std::vector<std::uint32_t>& stages_held) const;
  double parameters(const std::vector<std::uint32_t>& stages_held) const { return held(stages_held).all(); }
  // Neither adapters beside frozen weights nor a frozen tower.
  bool learns_all() const { return !job.training.frozen() && !(job.model.vision && job.model.vision->frozen); }
  // The trainable ones among these: they have gradients, optimizer states and updates that replicas exchange.
  HeldParameters learning(const std::vector<std::uint32_t>& stages_held) const;
  // Bytes per parameter that replicas gather for a layer; for the ends, state_bytes().parameters.
  double gathered_bytes() const;
  // Whether one table serves both ends of a tied embedding because a rank holds both: of one copy, or one of each.
  bool one_table(const std::vector<std::uint32_t>& stages_held) const;
  // GPUs that gather again what a step has gathered once from all that share the parameters, from a second copy or from
  // parts kept after a forward; 0: nothing is kept.
  std::int64_t gathered_again_over() const {
    if (zero() != 3) return 0;
    return job.parallelism.secondary_shard > 0 ? job.parallelism.secondary_shard : job.training.reshard_over;
  }
  // Parameters that share a scale of fp32 when they are gathered in 8 bits (DeepSpeed, partition_parameters.py,
  // CUDAQuantizer.target_group_size).
  static constexpr double kQuantisedBlock = 8000;
  // GPUs that hold the same parameters, those of the other direction included: of experts along Axis::expert_data, of
  // everything else along Axis::data.
  std::int64_t replicas() const { return job.parallelism.data * job.parallelism.context * job.copies; }
  std::int64_t expert_replicas() const { return mesh.size(Axis::expert_data) * job.copies; }
  // The ranks among those that share their states, which are along `shard` where these are not all; and how many groups
  // of them hold copies.
  bool copies_states() const { return job.parallelism.shard > 0 && job.parallelism.shard < job.parallelism.data; }
  Axis shared_along(Axis replicas) const { return replicas == Axis::data && copies_states() ? Axis::shard : replicas; }
  std::int64_t shards(Axis along = Axis::data) const {
    return replicas(along) / (copies_states() ? mesh.size(Axis::copy) : 1);
  }
  std::int64_t replicas(Axis along) const { return along == Axis::expert_data ? expert_replicas() : replicas(); }
  const Stage& stage(std::uint32_t of_any_copy) const { return stages[of_any_copy % stages.size()]; }
  double table_parameters() const;  // of the slice of the vocabulary that a GPU embeds
  bool shares_embedding() const;    // tied and on two ranks: its gradient is all-reduced between them
  // Gradients go through a separate buffer (Training::buffers); with ZeRO-2 and 3 they are in no other.
  bool fuses_gradients() const;
  // Bytes of gradients per reduction, under the backward or through a buffer.
  Bytes reduced_at_a_time() const;
  // ZeRO level that has an effect: alone, a GPU shares nothing.
  int zero() const { return replicas() > 1 ? job.parallelism.zero : 0; }
  std::uint32_t vocabulary_parts() const { return job.vocabulary ? rank_layout.pipeline() : 0; }
  // Bytes of an element of the activations between stages.
  std::int64_t border_element() const {
    if (job.framework.fp32_stream) return 4;
    return std::min<std::int64_t>(4, std::max<std::int64_t>(2, bytes_per_element(job.training.precision)));
  }
  // The activation of one micro-batch on one GPU, at a stage boundary.
  Bytes stage_output() const { return message_gathered > Bytes{} ? message_gathered : message; }
  // Bytes per parameter that a GPU keeps between passes, with ZeRO's shards over `replicas` ranks; in its own memory,
  // or on its behalf on another tier.
  StateBytes resident_bytes(std::int64_t replicas, Tier tier = Tier::device) const;
  bool keeps_checkpoints_apart() const {
    return job.training.cuts_checkpoints() || job.training.checkpoints_on() != Tier::device;
  }
};

// Throws UserError if there are more servers than tensors to distribute over them.
void check_servers(const Plan& plan);

// Throws UserError when degrees, batch, model and cluster do not fit together.
Plan make_plan(Job job);

}  // namespace rehearsal::plan
