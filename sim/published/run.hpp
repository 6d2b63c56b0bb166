// Published training runs: one row of a table of measured steps, with the values printed in its source. Lengths are in
// tokens, batches in sequences; values that are not printed are empty.
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
  std::optional<double> tflops, mfu;  // if only a rate is printed: model FLOP/s per GPU; a share
  std::string memory_kind;            // unit and counting method of `peak_memory`
  bool failed = false;                // "OOM" in place of memory or time: the run did not fit
  // Given by the table; otherwise rules choose (scenario_of). The cluster: a name, or a scenario section
  // as JSON; profile: of configs/frameworks (column `software`); knobs: scenario settings as JSON, by dotted keys.
  std::string cluster, profile, knobs;
  std::vector<std::int64_t> stage_layers;    // of each stage, if its layout says so (published/layout.hpp)
  std::string unread;                        // a cell that should be a number but is not: the row is not judged
  std::map<std::string, std::string> cells;  // as printed, by column
  std::string cell(const std::string& column) const {
    const auto found = cells.find(column);
    return found == cells.end() ? std::string() : found->second;
  }
  bool out_of_memory() const { return failed; }
};

// Reads a CSV table with a header (RFC 4180 quoting). Required columns: id, layers, hidden, seq, n_gpus, gpu,
// global_batch, micro_batch, iter_time_s. Optional: table, framework, model, heads, kv_heads, ffn, vocab, n_experts,
// gpu_mem_gb, topk, moe_ffn, gpus_per_node, interconnect, tp, pp, vp, cp, ep, dp, zero_stage, recompute, seq_parallel,
// schedule, precision, peak_mem_gb, mem_kind, cluster, software, knobs, and those of published/recipe.hpp; if no time
// is printed also tokens_per_s_per_gpu, samples_per_s_per_gpu, tflops_per_gpu (of the model) and mfu_pct. Others are
// ignored. A row without a global batch accumulates no gradients. Throws UserError with file and line if the file is
// not such a table.
std::vector<Run> read_runs(const std::string& path);
// Whether its header has the required columns.
bool is_table_of_runs(const std::string& path);

}  // namespace rehearsal::published
