#include "plan/layouts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::plan {
namespace {

// The ranks of one stage on its own GPUs.
class Seating {
 public:
  Seating(const Mesh& mesh, const std::uint32_t* gpus, const cluster::Machine& machine, std::size_t stage)
      : mesh_(mesh), gpus_(gpus), machine_(machine), stage_(stage) {}

  // Prices know groups by size and distance (GroupShape): equal for all groups of a stage, wherever they begin.
  GroupShape shape(Axes axes) const {
    std::optional<GroupShape> shape;
    for (const auto& group : mesh_.groups(axes)) {
      const GroupShape here{static_cast<std::uint32_t>(group.size()),
                            group.size() > 1 ? gpus_[group[1]] - gpus_[group[0]] : 1};
      const auto list = [&] {
        std::vector<std::uint32_t> all;
        for (const auto r : group) all.push_back(gpus_[r]);
        return fmt::format("the GPUs {} of a group along {} of stage {}", fmt::join(all, ", "), name(axes), stage_);
      };
      std::map<std::int64_t, std::int64_t> in_domain;
      for (std::size_t i = 0; i < group.size(); ++i) {
        if (gpus_[group[i]] != gpus_[group[0]] + i * here.stride)
          throw UserError(list() + " are not evenly spaced; list them in ascending order, with equal distances");
        ++in_domain[gpus_[group[i]] / machine_.domain()];
      }
      if (shape && *shape != here) throw UserError(list() + " are spaced otherwise than its other groups");
      const auto expected = machine_.reach(here).in_domain;
      for (const auto& [domain, members] : in_domain)
        if (here.ranks > 1 && members != expected)
          throw UserError(
              fmt::format("{} stand {} on one node, and of such a group {} do; let the stage begin at a "
                          "GPU whose number is a multiple of the group",
                          list(), members, expected));
      shape = here;
    }
    return shape.value_or(GroupShape{});
  }

 private:
  const Mesh& mesh_;
  const std::uint32_t* gpus_;
  const cluster::Machine& machine_;
  std::size_t stage_;
};

}  // namespace

std::vector<BrokenLayout> broken_by_seats(const std::vector<StageLayout>& layouts, std::optional<std::int64_t> gpus) {
  std::vector<BrokenLayout> all;
  const bool listed = std::any_of(layouts.begin(), layouts.end(), [](const auto& l) { return !l.gpus.empty(); });
  if (!listed) return all;  // they follow each other
  std::map<std::uint32_t, std::size_t> taken;
  for (std::size_t s = 0; s < layouts.size(); ++s) {
    const auto& layout = layouts[s];
    const auto add = [&](std::string rule) { all.push_back({s, "gpus", std::move(rule)}); };
    if (layout.gpus.empty()) {
      add(fmt::format("stage {} has no GPUs, and other stages list theirs; give it 'gpus'", s));
      continue;
    }
    if (static_cast<std::int64_t>(layout.gpus.size()) != layout.ranks())
      add(fmt::format("tensor {} x context {} x data {} = {} GPUs, but 'gpus' of stage {} lists {}", layout.tensor,
                      layout.context, layout.data, layout.ranks(), s, layout.gpus.size()));
    for (const auto gpu : layout.gpus) {
      const auto [owner, fresh] = taken.try_emplace(gpu, s);
      if (!fresh && owner->second == s)
        add(fmt::format("GPU {} is listed twice in stage {}; each holds one rank", gpu, s));
      else if (!fresh)
        add(fmt::format("GPU {} of stage {} is one of stage {} too; each holds one rank", gpu, s, owner->second));
      if (gpus && gpu >= *gpus)
        add(fmt::format("GPU {} of stage {} is not there: the cluster has {}, from 0", gpu, s, *gpus));
    }
  }
  return all;
}

std::vector<std::uint32_t> seats_of(const std::vector<StageLayout>& layouts) {
  std::vector<std::uint32_t> seats;
  const bool listed = std::any_of(layouts.begin(), layouts.end(), [](const auto& l) { return !l.gpus.empty(); });
  for (const auto& layout : layouts) {
    if (listed && std::int64_t(layout.gpus.size()) != layout.ranks()) return {};  // reported elsewhere
    for (std::int64_t r = 0; r < layout.ranks(); ++r)
      seats.push_back(listed ? layout.gpus[static_cast<std::size_t>(r)] : static_cast<std::uint32_t>(seats.size()));
  }
  return seats;
}

std::vector<AgainstLayouts> refused_with_layouts(const Job& job) {
  std::vector<AgainstLayouts> all;
  const auto& p = job.parallelism;
  const auto add = [&](const char* key, std::string rule) { all.push_back({key, std::move(rule)}); };
  if (p.chunks > 1)
    add("parallelism.chunks",
        fmt::format("'chunks' {}: a pipeline rank holds one stage where stages have layouts of their own; set it to 1",
                    p.chunks));
  if (job.copies > 1)
    add("schedule", "a schedule of two directions holds two stages on a rank, which 'stages' cuts differently");
  if (job.pieces > 1) add("schedule", "the schedule cuts sequences in pieces, which 'stages' does not reshard");
  if (job.model.is_moe())
    add("model",
        "experts are spread over the GPUs of a stage, and 'stages' with layouts of their own has no "
        "groups for them; choose a dense model");
  if (job.data_parallel.served()) add("data_parallel", "parameter servers know one layout; leave 'stages' out");
  if (job.resharding.strategy == reshard::Strategy::signal && job.framework.native_kernels)
    add("resharding.strategy", "signal sends no activations, and nothing could be trained; choose another strategy");
  if (!job.on.empty()) add("stages", "jobs that share a cluster are seated node by node; leave 'stages' out");
  const auto& layouts = p.layouts;
  if (job.model.tie_embeddings && layouts.size() > 1 && !layouts.front().like(layouts.back()))
    add("model.tie_embeddings",
        "the first and the last stage hold one tied embedding cut in two ways; set 'tie_embeddings' to false, or give "
        "both ends the same layout");
  for (std::size_t s = 0; s < layouts.size(); ++s) {
    if (layouts[s].context > 1 && layouts[s].sequence && layouts[s].tensor > 1)
      add("stages", fmt::format("stage {} cuts its activations by 'context' and by 'sequence'; leave one out", s));
    if (layouts[s].context > 1 && layouts[s].sharding)
      add("stages", fmt::format("stage {} has 'context', which is its sharding already; leave 'sharding' out", s));
  }
  return all;
}

namespace {
Mesh mesh_of_stage(const Parallelism& parallelism, std::size_t stage, const AxisOrder& placement) {
  auto alone = parallelism.as(parallelism.layouts[stage]);
  alone.pipeline = 1;
  return mesh_of(alone, placement);
}
}  // namespace

void check_sharding(const Parallelism& parallelism, std::size_t stage, const AxisOrder& placement,
                    const BoundaryShape& shape) {
  stage_boundary_of(parallelism.layouts[stage], mesh_of_stage(parallelism, stage, placement), shape, false);
}

Plan plan_of_layouts(Job job) {
  const auto layouts = job.parallelism.layouts;
  INVARIANT(!layouts.empty() && std::int64_t(layouts.size()) == job.parallelism.pipeline, "a layout for each stage");
  if (const auto refused = refused_with_layouts(job); !refused.empty()) throw UserError(refused.front().rule);
  if (const auto broken = broken_by_seats(layouts, job.cluster.gpus()); !broken.empty())
    throw UserError(broken.front().rule);
  job.seats = seats_of(layouts);
  const auto machine = std::make_shared<const cluster::Machine>(job.cluster);
  const BoundaryShape shape{job.batch.micro * layouts.front().data, job.batch.sequence, job.model.hidden};

  using Key = std::tuple<std::int64_t, bool, std::int64_t, std::int64_t, GroupShape, GroupShape, GroupShape>;
  std::map<Key, std::shared_ptr<const Plan>> known;
  std::vector<std::shared_ptr<const Plan>> plans;
  std::vector<Mesh> meshes;
  std::vector<StageBoundary> borders;
  std::size_t first = 0;
  for (std::size_t s = 0; s < layouts.size(); first += static_cast<std::size_t>(layouts[s].ranks()), ++s) {
    const auto& layout = layouts[s];
    if (shape[0] % layout.data != 0)
      throw UserError(fmt::format(
          "stage {} has data {}, which does not divide the {} sequences of a micro-batch (batch.micro {} x data {} of "
          "stage 0)",
          s, layout.data, shape[0], job.batch.micro, layouts.front().data));
    auto own = job;
    own.parallelism = job.parallelism.as(layout);
    own.batch.micro = shape[0] / layout.data;
    meshes.push_back(mesh_of_stage(job.parallelism, s, job.placement));
    const Seating seating(meshes.back(), job.seats.data() + first, *machine, s);
    const auto tensor = seating.shape(Axis::tensor), context = seating.shape(Axis::context);
    const auto data = seating.shape(meshes.back().replicas());
    auto& plan = known[{layout.tensor, layout.sequence, layout.context, layout.data, tensor, context, data}];
    if (!plan) {
      auto made = plan_alike(std::move(own), machine);
      made.groups[index(Axis::tensor)] = tensor, made.groups[index(Axis::context)] = context;
      made.groups[index(Axis::data)] = data;
      const auto ends = job.seats.back() - job.seats.front();
      made.groups[index(Axis::pipeline)] = {2, std::max<std::uint32_t>(1, ends)};
      plan = std::make_shared<const Plan>(std::move(made));
    }
    plans.push_back(plan);
    borders.push_back(
        stage_boundary_of(layout, meshes.back(), shape, job.training.balances_context() && layout.context > 1));
  }
  Plan plan = *plans.front();
  plan.job = std::move(job);
  plan.of_stages = std::move(plans), plan.borders = std::move(borders);
  plan.rank_layout = RankLayout(std::move(meshes));
  if (plan.job.resharding.strategy == reshard::Strategy::signal)
    plan.assumptions.emplace_back(
        "Transfers between stages arrive at once and slow nothing else down: a bound, not a run.");
  else
    plan.assumptions.emplace_back(
        "What crosses between stages that are cut otherwise goes as it was planned, message by message; ranks that "
        "relay hand on what has arrived beside their kernels. No framework's transport of such plans was compared.");
  for (const auto& stage : plan.of_stages)
    for (const auto list : {&Plan::warnings, &Plan::assumptions})
      for (const auto& text : *stage.*list)
        if (std::find((plan.*list).begin(), (plan.*list).end(), text) == (plan.*list).end())
          (plan.*list).push_back(text);
  return plan;
}

}  // namespace rehearsal::plan
