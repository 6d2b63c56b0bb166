#include "plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "models/rehearsal.hpp"
#include "models/shapes.hpp"
#include "plan/layouts.hpp"
#include "plan/partition.hpp"
#include "plan/refusals.hpp"
#include "plan/routing.hpp"
#include "plan/state_policy.hpp"

namespace rehearsal::plan {
namespace {

void note_sharding(Plan& plan) {
  if (plan.performed() || plan.zero() < 2) return;
  plan.assumptions.push_back(fmt::format(
      "ZeRO-{}: {}, two batches of gradients at most unreduced, so passes are simulated part by part also at detail "
      "stage.",
      plan.zero(),
      plan.zero() == 3 ? "parameters are gathered and gradients reduced layer by layer, in every micro-batch"
                       : "gradients are reduced bucket by bucket, in every micro-batch"));
  const auto& training = plan.job.training;
  const auto over = plan.gathered_again_over();
  if (state_policy(plan).again == StatePolicy::Again::from_copy)
    plan.assumptions.push_back(fmt::format(
        "A second copy of the parameters over {} GPUs: made as a step has gathered them from all, once, counted all "
        "the time, and gathered from for all other passes of the step.",
        over));
  else if (over > 0)
    plan.assumptions.push_back(fmt::format(
        "What a forward has gathered stays in parts on {} GPUs until the next pass gathers it from there; both ends "
        "stay whole.",
        over));
  if (training.quantised_gathers || training.quantised_reductions)
    plan.assumptions.emplace_back(
        "Fewer bits on the way: kernels that quantise and widen run where the collective does, at the rate of memory; "
        "scales are messages of their own; gradients of vectors go like the rest.");
}

void note_tiles(Plan& plan) {
  if (plan.job.training.offload.tiles == 1) return;
  plan.assumptions.push_back(fmt::format(
      "Tiles: each linear operator of a layer but those of routed experts is run as {}, whose parameters are there for "
      "it alone, also where a layer computes again; simulated operator by operator. The ends of the model are whole.",
      plan.job.training.offload.tiles));
}

void note_servers(Plan& plan) {
  const auto& data = plan.job.data_parallel;
  if (!data.served()) return;
  if (plan.performed()) {
    plan.assumptions.emplace_back(
        "Parameter servers: ranks of their own, which go through the segments of the network one after the other; "
        "gradients leave when the last backward has ended.");
    return;
  }
  plan.assumptions.push_back(fmt::format(
      "Parameter servers: each {}, adds up in the memory of that GPU and is reached over its NICs; every bucket of "
      "gradients is cut evenly over all of them and {} as soon as its sum is complete, without a norm over all; a "
      "worker sends to one server "
      "after the other; what requests cost their hosts is not counted.",
      data.placement == DataParallel::Placement::dedicated ? "sits on the first GPU of a node of its own"
                                                           : "shares the GPU of a worker",
      data.update == DataParallel::Update::server ? "updated" : "sent back"));
}

void note_routing(Plan& plan, const models::Routed& routed) {
  if (routed.load != routed.kept)
    plan.assumptions.push_back(
        fmt::format("Experts: every GPU is as busy as the busiest of its group, which gets {:.3g} times the mean.",
                    routed.load / routed.kept));
  if (routed.kept < 1)
    plan.warnings.push_back(
        fmt::format("experts.capacity drops {:.3g} % of what tokens are sent to experts", 100 * (1 - routed.kept)));
}

void note_scaling(Plan& plan) {
  const auto& training = plan.job.training;
  if (!training.scales_loss()) return;
  const std::string flag = "what ranks tell each other of an overflow is not priced.";
  plan.assumptions.push_back(
      training.overflow_rate
          ? fmt::format("Loss scaling: {:g} % of the steps overflow, as given; {}", 100 * *training.overflow_rate, flag)
          : fmt::format("Loss scaling: the scale doubles after {:g} steps that went well and overflows every time: "
                        "{:.2g} % of the steps are skipped; {}",
                        models::Training::kScaleWindow, 100 * training.overflows(), flag));
}

void note_documents(Plan& plan) {
  const auto& batch = plan.job.batch;
  if (batch.lengths.empty()) return;
  plan.assumptions.push_back(fmt::format(
      "Documents of {:.5g} tokens on average, {}. Micro-batches of a replica are alike.", batch.mean_length(),
      batch.packed ? fmt::format("packed without padding, in an order that knows nothing of their lengths; attention "
                                 "needs {:.3g} % of the scores of whole sequences, and {:.3g} % on the replica that "
                                 "has most of them and that all wait for",
                                 100 * batch.needed(), 100 * plan.shard.attended)
                   : fmt::format("each padded to {}: {:.3g} % of the tokens are documents, which rates and model FLOPs "
                                 "count alone",
                                 batch.sequence, 100 * batch.useful())));
}

void note_losses(Plan& plan) {
  if (std::all_of(plan.stages.begin(), plan.stages.end(),
                  [](const Stage& stage) { return stage.bodies == 0 && stage.losses == 0; }))
    return;
  plan.assumptions.emplace_back(
      "Modules of multi-token prediction away from their losses have no table of their own, and what stages with "
      "losses "
      "tell each other of the gradient of the head's table is not priced.");
}

void note_kernels(Plan& plan) {
  if (plan.performed()) return;
  auto& notes = plan.assumptions;
  if (plan.shard.pieces > 1)
    notes.push_back(
        "Pieces of a sequence see the keys and values of earlier ones where those stand, and add to sums of their "
        "gradients of 2 bytes; no framework's way was compared.");
  if (plan.job.training.kernels == models::Kernels::unfused)
    notes.push_back(
        "Unfused kernels: traffic, and what is kept for the backward, are counted from what each operation reads and "
        "writes, and never compared with a run.");
}

}  // namespace

StateBytes state_bytes(const models::Training& training) {
  const bool full = bytes_per_element(training.precision) == 4;
  if (training.updates_at_once()) return {full ? 4. : 2., full ? 4. : 2., training.optimizer_state_bytes()};
  return {full ? 4. : 2., double(bytes_per_element(training.gradient_precision)), training.optimizer_state_bytes()};
}

// The replicas of both directions: each NVLink domain has as many as the first and the last pipeline rank have there
// together, which are the farthest apart: an evenly strided group that communicates like them.
GroupShape mirrored(const Mesh& mesh, Axes axes, std::int64_t domain) {
  GroupShape shape = mesh.shape(axes);
  std::map<std::int64_t, std::int64_t> in_domain;
  const auto mirror = std::int64_t(mesh.size(Axis::pipeline) - 1) * mesh.stride(Axis::pipeline);
  for (const auto rank : mesh.group(axes, 0)) ++in_domain[rank / domain], ++in_domain[(rank + mirror) / domain];
  shape.stride = std::min(shape.ranks > 1 ? shape.stride : mesh.stride(Axis::pipeline), mesh.stride(Axis::pipeline));
  shape.ranks *= 2;
  if (in_domain.size() > 1) {
    std::int64_t most = 0;
    for (const auto& [of, ranks] : in_domain) most = std::max(most, ranks);
    const auto apart = static_cast<std::uint32_t>((domain + most - 1) / most);
    shape.stride = std::max(shape.stride, std::min(apart, mesh.ranks() / shape.ranks));
  }
  return shape;
}

models::Network network_of(const Job& job, const models::Shard& shard, const models::Routed& routed) {
  if (!job.framework.native_kernels)
    return models::framework_network(job.model, job.training, job.framework, shard, routed);
  const auto& framework = job.framework;
  // Scores that a mask of documents leaves, on average: what attention is priced by.
  const bool documents = job.batch.packed && job.batch.document_mask;
  const auto share = std::max<std::int64_t>(1, std::llround(shard.attended * double(Sight::kShares)));
  const bool chunks = framework.loss == models::LossKernels::chunked && job.model.family != models::Family::mlp;
  // Padding makes the vocabulary divisible; a single GPU does not need it.
  return models::performed_network(job.model, {.shard = shard,
                                               .data = job.parallelism.data,
                                               .causal = job.training.causal,
                                               .context = job.training.context,
                                               .context_balance = job.training.balances_context(),
                                               .pad_vocabulary = job.parallelism.gpus() > 1,
                                               .precision = job.training.precision,
                                               .recompute = job.training.recompute,
                                               .capacity = job.experts.capacity,
                                               .steps_whole = job.training.optimizer->steps_whole,
                                               .documents = documents ? share : 0,
                                               .loss_chunks = !chunks                     ? 0
                                                              : framework.loss_chunks > 0 ? framework.loss_chunks
                                                                                          : models::kLossChunks});
}

void check_servers(const Plan& plan) {
  const auto& data = plan.job.data_parallel;
  if (!data.served()) return;
  std::size_t tensors = 0;
  const auto add = [&](const models::Part& part) {
    tensors += part.gradients.size();  // of a framework; own kernels have them in segments
    for (const auto& segment : part.segments) tensors += plan.performed() ? segment.tensors.size() : 0;
  };
  const auto& model = plan.job.model;
  for (std::int64_t l = 0; l < model.layers; ++l) add(plan.network().layer(l));
  if (plan.stages.front().embedding) add(plan.network().embedding);
  if (plan.stages.back().head) add(plan.network().head);
  if (static_cast<std::size_t>(data.servers) > tensors)
    throw UserError(
        fmt::format("'servers' {} are more than the {} tensors of model '{}', of which each has one at least "
                    "a part; at most {}",
                    data.servers, tensors, model.name, tensors));
}

Plan make_plan(Job job) {
  const auto& p = job.parallelism;
  if (!p.layouts.empty()) {
    refuse_copies(job);
    return plan_of_layouts(std::move(job));
  }
  if (p.gpus() > job.cluster.gpus())
    throw UserError(fmt::format("tensor {} x context {} x pipeline {} x data {} = {} GPUs, but the cluster has {}",
                                p.tensor, p.context, p.pipeline, p.data, p.gpus(), job.cluster.gpus()));
  return plan_alike(std::move(job), nullptr);
}

// The shape of the groups along an axis, of both copies of the model where they hold the same parameters.
GroupShape group_shape(const Mesh& mesh, Axis axis, const Job& job, const cluster::Machine& machine) {
  if (axis == Axis::pipeline) return job.vocabulary ? mesh.shape(axis) : mesh.ends(axis);
  const bool of_data = axis == Axis::data || axis == Axis::shard || axis == Axis::secondary;
  if (index(axis) >= kFactors && !cuts_data(axis) && !job.model.is_moe()) return {};
  const Axes axes = of_data ? mesh.with_context(axis) : Axes(axis);
  const bool both = job.copies > 1 && (axis == Axis::data || axis == Axis::expert_data);
  return both ? mirrored(mesh, axes, machine.domain()) : mesh.shape(axes);
}

// The ends leave the stages of the layers, which keep their numbers, for one of their own on each rank.
void share_ends(Plan& plan, const Job& job) {
  plan.stages.front().embedding = plan.stages.back().head = false;
  const auto ranks = plan.stages.size();
  for (std::size_t r = 0; r < ranks; ++r)
    plan.stages.push_back({.first = job.model.layers, .embedding = true, .head = true});
  plan.assumptions.emplace_back(
      "The vocabulary is cut over the pipeline ranks: what parts read is broadcast, what they make is added up at the "
      "last stage; each part has the final norm and positions of its own; a look-up runs with the logits of the same "
      "micro-batch, and what it sends to the first stage and gets back is not priced.");
}

Plan plan_alike(Job job, std::shared_ptr<const cluster::Machine> machine) {
  refuse_unfit(job);
  Plan plan;
  const auto& p = job.parallelism;
  plan.stages =
      deal_stages(job.model, job.vocabulary ? p.pipeline : p.stages() / job.copies, job.partition, plan.warnings);
  std::vector<std::int64_t> layers;
  for (const auto& stage : plan.stages) layers.push_back(stage.layers);
  constexpr std::int64_t kMostLayers = 65'000;  // tasks number those of a stage in 16 bits
  if (const auto most = *std::max_element(layers.begin(), layers.end()); most > kMostLayers)
    throw UserError(
        fmt::format("a stage of {} layers: more than {} are not simulated; set parallelism.pipeline or "
                    "chunks to {} or more",
                    most, kMostLayers, (job.model.layers + kMostLayers - 1) / kMostLayers));
  if (job.vocabulary) share_ends(plan, job);
  plan.shard = {.tensor = p.tensor,
                .sequence_parallel = p.sequence && p.tensor > 1,
                .micro_batch = job.batch.micro,
                .sequence = job.batch.sequence,
                .microbatches = job.microbatches,
                .context = p.context,
                .vocabulary = job.vocabulary ? p.pipeline : 1,
                .lone_modules = std::any_of(plan.stages.begin(), plan.stages.end(),
                                            [](const Stage& stage) { return stage.bodies > 0; }),
                .attended = job.batch.attended(p.data),
                .pieces = job.pieces,
                .expert = p.expert,
                .expert_tensor = p.expert_tensor,
                .redundant_experts = job.experts.redundant,
                .updates_in_backward = job.training.updates_at_once() && p.zero < 3};
  if (job.framework.native_kernels) refuse_performing(job, layers);
  refuse_step(job);
  const auto routed = job.framework.native_kernels ? models::Routed{} : routing(job);
  if (!job.framework.native_kernels) note_routing(plan, routed);
  plan.kept = routed.kept;
  for (auto shard = plan.shard; shard.piece < shard.pieces; ++shard.piece)
    plan.networks.push_back(std::make_shared<const models::Network>(network_of(job, shard, routed)));

  plan.machine = machine ? std::move(machine) : std::make_shared<const cluster::Machine>(job.cluster);
  if (!job.faults.empty()) plan.health = std::make_shared<const cluster::Health>(*plan.machine, job.faults);
  const auto again = p.secondary_shard > 0 ? p.secondary_shard : job.training.reshard_over;
  job.parallelism.again = p.zero == 3 && again > 0 ? again / p.context : 1;
  job.parallelism.near = replicas_near(job, mesh_of(p, job.placement));
  plan.mesh = mesh_of(p, job.placement);
  plan.rank_layout = RankLayout(plan.mesh);
  for (std::size_t a = 0; a < kAxes; ++a)
    plan.groups[a] = group_shape(plan.mesh, static_cast<Axis>(a), job, *plan.machine);

  // The activation of a micro-batch at a stage boundary, 2 bytes an element. With sequence parallelism each tensor rank
  // holds its own part already; without, all ranks hold the same and may send 1/t each (Megatron's scatter/gather,
  // 2104.04473, 4.1).
  plan.job = std::move(job);
  const Bytes whole(plan.shard.tokens() * plan.job.model.hidden * plan.border_element());
  const auto tensor = plan.shard.tensor;
  const bool split = plan.shard.sequence_parallel || (plan.job.framework.sharded_sends && tensor > 1);
  plan.message = split ? Bytes(whole.count() / tensor) : whole;
  plan.message_gathered = split && !plan.shard.sequence_parallel ? whole : Bytes(0);
  note_sharding(plan);
  note_tiles(plan);
  if (plan.job.training.defragment)
    plan.assumptions.push_back(
        "Defragmented: memory for checkpoints, and for gradients that wait, is allocated before all else and as large "
        "as "
        "each of them is at its most; a copy reads and writes each once.");
  note_servers(plan);
  note_scaling(plan);
  note_kernels(plan);
  note_documents(plan);
  note_losses(plan);
  return plan;
}

std::optional<std::uint32_t> Plan::skip_of_layer(std::int64_t layer) const {
  const auto mirror = job.model.layers - 1 - layer, number = std::min(layer, mirror);
  return number < job.model.skips() ? std::optional(static_cast<std::uint32_t>(number)) : std::nullopt;
}

std::uint32_t Plan::stage_of_layer(std::int64_t layer) const {
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (layer >= stages[s].first && layer < stages[s].first + stages[s].layers) return static_cast<std::uint32_t>(s);
  INVARIANT(false, "every layer is of a stage");
  return 0;
}

std::int64_t Plan::carried(std::uint32_t from) const {
  std::int64_t states = 1;
  for (std::uint32_t s = 0; s <= from % stages.size(); ++s)
    states += stages[s].bodies - stages[s].losses - (stages[s].head ? 1 : 0);
  return states;
}

Plan::Skip Plan::skip(std::uint32_t number) const {
  return {stage_of_layer(number), stage_of_layer(job.model.layers - 1 - std::int64_t(number))};
}

Hop Plan::hop(std::int64_t from, std::int64_t to) const {
  Hop hop;
  const auto stride = mesh.stride(Axis::pipeline), replicas = mesh.ranks() / mesh.size(Axis::pipeline);
  // Replicas end their step together, so the slowest of them counts.
  std::pair<std::int64_t, std::int64_t> slowest{-1, -1};
  for (std::uint32_t i = 0, next = 0; i < replicas; i = next) {
    const std::int64_t first = mesh.lowest(Axis::pipeline, i);
    const auto pair = machine->alike(first + from * stride, first + to * stride);
    // The replicas that follow lie behind it, one GPU after the other, up to where the next rank of the pipeline is.
    const auto together = std::int64_t(stride) - i % std::int64_t(stride);
    next = i + std::uint32_t(std::min(together, machine->all_alike(first + from * stride, first + to * stride)));
    if (pair == slowest) continue;
    const auto slower = [&] {
      const auto& a = machine->reach(pair.first, pair.second);
      const auto& b = machine->reach(slowest.first, slowest.second);
      return std::tuple(a.leaves_domain, -a.rate.value(), a.latency) >
             std::tuple(b.leaves_domain, -b.rate.value(), b.latency);
    };
    if (slowest.first < 0 || slower()) slowest = pair;
  }
  hop.from = static_cast<std::uint32_t>(slowest.first), hop.to = static_cast<std::uint32_t>(slowest.second);
  return hop;
}

Plan::HeldParameters Plan::held(const std::vector<std::uint32_t>& stages_held) const {
  HeldParameters held;
  const auto add = [&](const models::Part& part) {
    held.dense += part.parameters - part.expert_parameters, held.experts += part.expert_parameters;
    held.spared += part.spared, held.expert_spared += part.expert_spared;
  };
  bool first = false, last = false;
  std::int64_t predictions = 0, bodies = 0;
  for (const auto s : stages_held) {
    for (std::int64_t l = 0; l < stage(s).layers; ++l) add(network().layer(stage(s).first + l));
    first |= stage(s).embedding, last |= stage(s).head || stage(s).losses > 0;
    predictions += stage(s).predictions, bodies += stage(s).bodies;
  }
  if (first) add(network().embedding);
  if (last) add(network().head);
  for (; predictions > 0; --predictions) add(network().prediction);
  for (; bodies > 0; --bodies) add(network().body);
  if (one_table(stages_held)) held.dense -= table_parameters();
  return held;
}

Plan::HeldParameters Plan::learning(const std::vector<std::uint32_t>& stages_held) const {
  if (!job.training.frozen()) {
    auto all = held(stages_held);
    const auto& embedding = network().embedding;
    if (std::any_of(stages_held.begin(), stages_held.end(), [&](auto s) { return stage(s).embedding; }))
      all.dense -= embedding.parameters - embedding.learning;
    return all;
  }
  HeldParameters all;
  const auto add = [&](const models::Part& part) {
    all.dense += part.learning - part.expert_learning, all.experts += part.expert_learning;
  };
  for (const auto s : stages_held) {
    for (std::int64_t l = 0; l < stage(s).layers; ++l) add(network().layer(stage(s).first + l));
    if (stage(s).embedding) add(network().embedding);
    if (stage(s).head) add(network().head);
  }
  return all;
}

double Plan::gathered_bytes() const {
  // Scales of a row or of a block of 128 are computed after the gather (torchtitan's and Megatron-Bridge's recipes).
  const auto scaling = job.framework.fp8_scaling;
  const bool scale_travels = models::scales_tensors(scaling) || scaling == models::Fp8Scaling::mx;
  const bool narrow = job.framework.fp8_gather && job.training.precision == Precision::fp8 && scale_travels &&
                      !job.training.quantises();
  return narrow ? 1 : state_bytes(job.training).parameters;
}

bool Plan::one_table(const std::vector<std::uint32_t>& stages_held) const {
  const auto any = [&](bool Stage::*end) {
    return std::any_of(stages_held.begin(), stages_held.end(), [&](std::uint32_t s) { return stage(s).*end; });
  };
  return job.model.tie_embeddings && any(&Stage::embedding) && any(&Stage::head);
}

double Plan::table_parameters() const {
  return double(models::vocabulary_slice(job.model, shard.tensor * shard.vocabulary)) * double(job.model.hidden);
}

bool Plan::shares_embedding() const {
  return job.model.tie_embeddings && job.parallelism.pipeline > 1 && !job.vocabulary;
}

StateBytes Plan::resident_bytes(std::int64_t replicas, Tier tier) const {
  const auto& offload = job.training.offload;
  const auto policy = state_policy(*this);
  const auto shared = [&](bool shards) { return shards ? double(replicas) : 1; };
  if (offload.states()) {
    const auto all = state_bytes(job.training);
    const auto held_by = [&](Tier where, double each, bool shards) {
      return where == tier ? each / shared(shards) : 0;
    };
    const double leaves = all.optimizer * offload.optimizer_fraction;
    return {held_by(policy.parameters, all.parameters, policy.shards_parameters),
            held_by(policy.gradients, all.gradients, policy.shards_gradients),
            held_by(policy.optimizer, leaves, policy.shards_optimizer) +
                held_by(Tier::device, all.optimizer - leaves, policy.shards_optimizer)};
  }
  if (tier != Tier::device) return {};
  auto states = state_bytes(job.training);
  if (job.training.updates_at_once() || policy.transient_gradients) states.gradients = 0;
  const double shards = shared(policy.shards_optimizer);
  states.optimizer /= shards, states.gradients /= shared(policy.shards_gradients);
  if (!policy.shards_parameters) return states;
  // The shard of mixed precision with fp32 gradients is the fp32 master copy itself; 16-bit weights exist only while
  // they are gathered (FSDP's MixedPrecision). With 16-bit gradients both are kept. 16 bytes with adamw either way.
  // Frozen weights have no master copy.
  const bool master =
      job.training.master_copy && !job.training.frozen() && states.parameters < state_bytes(job.training).gradients;
  if (master) states.parameters = 4, states.optimizer -= 4 / shards;
  states.parameters /= shards;
  if (policy.again == StatePolicy::Again::from_copy)
    states.parameters += state_bytes(job.training).parameters / double(gathered_again_over());
  return states;
}

bool Plan::fuses_gradients() const {
  return replicas() > 1 && zero() < 2 && job.training.buffers != models::Buffers::framework;
}

Bytes Plan::reduced_at_a_time() const {
  constexpr Bytes kUsualBucket{25'000'000};  // bucket_cap_mb of torch's DistributedDataParallel
  const auto& training = job.training;
  if (training.buffers == models::Buffers::growing) return Bytes(std::numeric_limits<std::int64_t>::max());
  if (training.buffer_size) return *training.buffer_size;
  if (training.bucket) return *training.bucket;
  const auto parameters =
      std::max(job.framework.bucket_parameters, job.framework.bucket_parameters_per_replica * replicas());
  return parameters > 0 ? bytes(double(parameters) * state_bytes(training).gradients) : kUsualBucket;
}

}  // namespace rehearsal::plan
