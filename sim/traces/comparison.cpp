#include "traces/comparison.hpp"

#include <algorithm>

#include "timeline/breakdown.hpp"
#include "timeline/split.hpp"

namespace rehearsal::traces {
namespace {

using graph::Category;

constexpr std::size_t at(Category category) { return static_cast<std::size_t>(category); }

Time scaled(Time part, Time span, Time whole) {
  return whole == Time{} ? Time{} : seconds(to_seconds(part) * (span / whole));
}

// The category of collectives in groups along an axis, as works of them have it.
Category category_of(Axis axis) {
  switch (axis) {
    case Axis::tensor:
      return Category::tensor_comm;
    case Axis::context:
      return Category::context_comm;
    case Axis::pipeline:
      return Category::pipeline_comm;
    case Axis::expert:
    case Axis::expert_tensor:
      return Category::expert_comm;
    default:
      return Category::data_comm;
  }
}

// Axes of which collectives have groups, those within the passes first: where two have the same groups, experts
// exchange tokens by all-to-all.
constexpr std::array kAxesInOrder{Axis::tensor, Axis::context, Axis::expert, Axis::expert_tensor, Axis::pipeline,
                                  Axis::data,   Axis::shard,   Axis::copy,   Axis::expert_data};

bool has_groups(const plan::Mesh& mesh, Axis axis) {
  const bool of_experts = axis == Axis::expert || axis == Axis::expert_tensor || axis == Axis::expert_data;
  return !of_experts || mesh.size(Axis::expert) * mesh.size(Axis::expert_tensor) > 1;
}

bool exchanges_tokens(const Transfer& what) {
  return what.name.find("all_to_all") != what.name.npos || what.name.find("alltoall") != what.name.npos;
}

std::optional<Category> category_of(const Transfer& what, std::uint32_t rank, const plan::Mesh& mesh) {
  if (what.kind() == Kind::message) return Category::pipeline_comm;
  const auto members = what.members();
  if (members.empty()) {
    std::optional<Category> only;
    if (what.size < 2) return only;
    for (const Axis axis : kAxesInOrder) {
      if (!has_groups(mesh, axis) || std::int64_t(mesh.group(axis, rank).size()) != what.size) continue;
      if (only && *only != category_of(axis)) return std::nullopt;
      only = category_of(axis);
    }
    return only;
  }
  const auto same = [&](Axes axes) {
    const auto group = mesh.group(axes, rank);
    return group.size() > 1 && std::equal(group.begin(), group.end(), members.begin(), members.end());
  };
  if (exchanges_tokens(what) && same(Axis::expert)) return Category::expert_comm;
  for (const Axis axis : kAxesInOrder)
    if (has_groups(mesh, axis) && same(axis)) return category_of(axis);
  if (same(mesh.with_context(Axis::data))) return Category::data_comm;
  return std::nullopt;
}

}  // namespace

Predicted predicted_step(const graph::TaskGraph& graph, const timeline::Timeline& timeline, RankId rank,
                         std::span<const Time> durations) {
  const auto& self = graph.ranks()[rank.index()];
  const auto& program = graph.program_of(self);
  Predicted result;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Time span = timeline.end[self.first_task + i] - timeline.start[self.first_task + i];
    const auto alone = durations[program.work[i].index()];
    const auto pass = program.coordinates[i].pass;
    const auto microbatch = program.coordinates[i].microbatch;
    const auto lane = program.lane[i];
    each_kernel(graph, program.work[i], pass, lane, durations, [&](const graph::Work& work, Kind kind, Time time) {
      const Time lasts = scaled(time, span, alone);
      result.by_kind[index(kind)] += lasts;
      const auto category = kind == Kind::message ? Category::pipeline_comm : timeline::category_of(work, pass, lane);
      if (computes(kind)) {
        result.by_pass[index(pass_of(pass))][index(kind)] += lasts;
        if (microbatch != graph::kNoMicrobatch) result.microbatches[microbatch][index(pass_of(pass))] += lasts;
      }
      if (communicates(kind)) result.groups[at(category)].total += lasts;
    });
  }
  const auto parts = timeline::breakdown(graph, timeline, rank, durations);
  for (const Category category : kGroupOrder) {
    result.groups[at(category)].exposed = parts[at(category)];
    result.parts.exposed += parts[at(category)];
  }
  result.parts.step = timeline.makespan();
  result.parts.offload = parts[at(Category::offload)];
  result.parts.idle = parts[at(Category::bubble)] + parts[at(Category::host)];
  result.parts.computing = result.parts.step - result.parts.exposed - result.parts.offload - result.parts.idle;
  return result;
}

Parts measured_parts(const Analysis& analysis) {
  const auto& s = analysis.steps;
  return {s.window, s.computing - s.copying, s.exposed - s.waiting, s.copying, s.idle() + s.waiting};
}

RankId rank_for(const graph::TaskGraph& graph, std::int64_t job_rank, const plan::Mesh* mesh) {
  const auto ranks = graph.ranks();
  std::optional<std::uint32_t> stage;
  if (mesh && job_rank < std::int64_t(mesh->ranks())) stage = mesh->along(Axis::pipeline, std::uint32_t(job_rank));
  RankId best(0);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (std::int64_t(ranks[r].job_rank) == job_rank) return RankId(r);
    if (std::int64_t(ranks[r].job_rank) > job_rank) continue;
    if (!stage || mesh->along(Axis::pipeline, ranks[r].job_rank) == *stage) best = RankId(r);
  }
  return best;
}

GroupOf groups_of(const plan::Mesh& mesh) {
  return [mesh](const Trace& trace, const LaunchedKernel& kernel) -> std::optional<Category> {
    if (!kernel.moves)  // nothing but its name is known
      return trace.kind(kernel) == Kind::message && mesh.size(Axis::pipeline) > 1
                 ? std::optional(Category::pipeline_comm)
                 : std::nullopt;
    const auto rank = trace.rank.value_or(0);
    if (rank < 0 || rank >= std::int64_t(mesh.ranks())) return std::nullopt;
    return category_of(trace.transfers[kernel.fact], std::uint32_t(rank), mesh);
  };
}

}  // namespace rehearsal::traces
