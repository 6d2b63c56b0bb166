#include "report/columns.hpp"

#include <limits>
#include <map>
#include <utility>

#include "scenario/scenario.hpp"
#include "timeline/memory.hpp"

namespace rehearsal::report {
namespace {

using answer::Result;
using graph::Tier;

// Words that are met, numbered in the order in which they come.
class Words {
 public:
  Words(std::string name, std::string help) : name_(std::move(name)), help_(std::move(help)) {}
  void add(const char* word) {
    const auto [at, fresh] = places_.try_emplace(word, std::uint8_t(words_.size()));
    if (fresh) words_.emplace_back(word);
    values_.push_back(at->second);
  }
  Column column() && { return {std::move(name_), "", std::move(help_), std::move(values_), std::move(words_)}; }

 private:
  std::string name_, help_;
  std::map<std::string, std::uint8_t, std::less<>> places_;
  std::vector<std::uint8_t> values_;
  std::vector<std::string> words_;
};

std::vector<Column> timeline(const Result& result) {
  if (!result.lowered) return {};
  const auto& graph = result.graph();
  std::vector<std::int32_t> rank, stage, layer, microbatch;
  std::vector<double> start, end;
  Words lane("lane", "what the task occupies: compute, or a kind of communication"),
      pass("pass", "what the task belongs to: forward, backward, ...");
  for (const auto& r : graph.ranks()) {
    const auto& program = graph.program_of(r);
    for (std::size_t i = 0; i < program.size(); i++) {
      const auto& at = program.coordinates[i];
      rank.push_back(std::int32_t(r.job_rank)), stage.push_back(at.stage);
      layer.push_back(at.layer == graph::kNoLayer ? -1 : at.layer);
      microbatch.push_back(at.microbatch == graph::kNoMicrobatch ? -1 : std::int32_t(at.microbatch));
      lane.add(graph::name(program.lane[i])), pass.add(graph::name(at.pass));
      start.push_back(to_seconds(result.timeline.start[r.first_task + i]));
      end.push_back(to_seconds(result.timeline.end[r.first_task + i]));
    }
  }
  return {{"rank", "", "rank of the job that does it; others may do the same", std::move(rank)},
          std::move(lane).column(),
          std::move(pass).column(),
          {"stage", "", "of the model", std::move(stage)},
          {"layer", "", "within the stage; -1: a task of no single layer", std::move(layer)},
          {"microbatch", "", "-1: of none", std::move(microbatch)},
          {"start_s", "s", "since the iteration began", std::move(start)},
          {"end_s", "s", "since the iteration began", std::move(end)}};
}

std::vector<Column> memory(const Result& result) {
  if (!result.lowered) return {};
  const auto& graph = result.graph();
  const double unit = result.summary.abstract ? scenario::kMemoryUnit : 1.;
  std::vector<std::int32_t> rank;
  std::vector<double> time, bytes;
  Words tier("tier", "device, host or nvme"), category("category", "what the memory holds");
  for (std::uint32_t r = 0; r < graph.ranks().size(); r++)
    for (const Tier t : kTierTable) {
      timeline::MemoryByCategory before{};
      for (const auto& point : timeline::memory_curve(graph, result.timeline, RankId(r), t)) {
        for (std::size_t c = 0; c < before.size(); c++) {
          if (point.live[c] == before[c]) continue;
          rank.push_back(std::int32_t(graph.ranks()[r].job_rank));
          tier.add(name(t)), category.add(graph::name(graph::MemoryCategory(c)));
          time.push_back(to_seconds(point.when)), bytes.push_back(double(point.live[c].count()) / unit);
        }
        before = point.live;
      }
    }
  return {{"rank", "", "rank of the job", std::move(rank)},
          std::move(tier).column(),
          std::move(category).column(),
          {"time_s", "s", "from then on", std::move(time)},
          {"bytes", "bytes", "that the category takes (given pipelines: their unit)", std::move(bytes)}};
}

std::vector<Column> ranks(const Result& result) {
  std::vector<std::int32_t> rank, count, node;
  std::vector<double> busy, allocated, reserved, device;
  const auto unknown = std::numeric_limits<double>::quiet_NaN();
  for (const auto& r : result.summary.ranks) {
    rank.push_back(std::int32_t(r.rank)), count.push_back(std::int32_t(r.count)), node.push_back(std::int32_t(r.node));
    busy.push_back(to_seconds(r.busy)), allocated.push_back(r.peak.allocated);
    reserved.push_back(r.peak.reserved.value_or(unknown)), device.push_back(r.peak.device.value_or(unknown));
  }
  return {{"rank", "", "rank of the job", std::move(rank)},
          {"count", "", "ranks that do the same, this one included", std::move(count)},
          {"node", "", "of the rank", std::move(node)},
          {"busy_s", "s", "time in which it computes", std::move(busy)},
          {"allocated_bytes", "bytes", "largest sum of live buffers", std::move(allocated)},
          {"reserved_bytes", "bytes", "what the allocator holds for them; NaN: not modelled", std::move(reserved)},
          {"device_bytes", "bytes", "what the device holds; NaN: not modelled", std::move(device)}};
}

}  // namespace

const std::vector<ColumnTable>& column_tables() {
  static const std::vector<ColumnTable> kTables{
      {"timeline", "one row per task of each rank of the graph", timeline},
      {"memory", "one row per change of a category of a tier, for each rank", memory},
      {"ranks", "one row per rank", ranks},
  };
  return kTables;
}

}  // namespace rehearsal::report
