// Published training runs: one line of a table of measured steps, with what its source prints. Lengths are tokens,
// batches sequences; what is not printed is empty.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rehearsal::published {

struct Run {
  std::string id, table, file;
  int line = 0;
  std::string framework, model, gpu, interconnect, recompute, sequence_parallel, schedule, precision;
  std::optional<std::int64_t> layers, hidden, heads, kv_heads, ffn, vocabulary, sequence, experts, experts_per_token,
      expert_ffn;
  std::optional<std::int64_t> gpus, gpus_per_node, gpu_memory_gb;
  std::optional<std::int64_t> tensor, pipeline, chunks, context, expert, data, zero;
  std::optional<std::int64_t> micro_batch, global_batch;
  std::optional<double> iteration_s, peak_memory;
  std::optional<double> tflops, mfu;  // where that is all that is printed of the speed: model FLOPs a GPU; a share
  std::string memory_kind;            // unit and counter of `peak_memory`
  bool failed = false;                // "OOM" in the place of memory or time: the run did not fit
  // Said by the table itself; otherwise rules choose (scenario_of). The cluster: a name, or the section of a scenario
  // as JSON; profile: of configs/frameworks (column `software`); knobs: settings, as JSON by their dotted names.
  std::string cluster, profile, knobs;
  std::string unread;                        // which cell is no number where one is needed: a row that is not judged
  std::map<std::string, std::string> cells;  // as printed, by column
  std::string cell(const std::string& column) const {
    const auto found = cells.find(column);
    return found == cells.end() ? std::string() : found->second;
  }
  bool out_of_memory() const { return failed; }
};

// Reads a CSV table with a header (RFC 4180 quoting). Columns: id, layers, hidden, seq, n_gpus, gpu, global_batch,
// micro_batch, iter_time_s are needed; table, framework, model, heads, kv_heads, ffn, vocab, n_experts, gpu_mem_gb,
// topk, moe_ffn,
// gpus_per_node, interconnect, tp, pp, vp, cp, ep, dp, zero_stage, recompute, seq_parallel, schedule, precision,
// peak_mem_gb, mem_kind, cluster, software, knobs are understood; where no time is printed also tokens_per_s_per_gpu,
// samples_per_s_per_gpu, tflops_per_gpu (of the model) and mfu_pct. Others are passed over. A row without a global
// batch accumulates no gradients. Throws UserError with file and line where the lines are none of a table.
std::vector<Run> read_runs(const std::string& path);
// Whether its header has the columns that are needed.
bool is_table_of_runs(const std::string& path);

}  // namespace rehearsal::published
