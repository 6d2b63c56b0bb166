#include "published/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "published/layout.hpp"
#include "scenario/document.hpp"

namespace rehearsal::published {
namespace {

constexpr std::size_t kLargestTable = 64 << 20;

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> all(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      all.back() += line[++i];  // a doubled quote within quotes is a literal one
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      all.emplace_back();
    else
      all.back() += line[i];
  }
  return all;
}

class Row {
 public:
  Row(const std::map<std::string, std::size_t>& columns, std::vector<std::string> values)
      : columns_(columns), values_(std::move(values)) {}

  std::string text(const char* name) const {
    const auto column = columns_.find(name);
    return column == columns_.end() ? std::string() : values_[column->second];
  }
  std::map<std::string, std::string> texts() const {
    std::map<std::string, std::string> all;
    for (const auto& [name, column] : columns_) all[name] = values_[column];
    return all;
  }
  bool has(const char* name, const char* part) const { return text(name).find(part) != std::string::npos; }
  // A row with a cell that should be a number but is not is not judged: unread().
  std::optional<double> number(const char* name) const {
    const auto value = text(name);
    if (value.empty() || value == "n/a") return std::nullopt;
    try {
      const double number = parse_number(value);
      if (std::isfinite(number) && number >= 0) return number;
    } catch (const UserError&) {
    }
    return not_read(name, "not a number");
  }
  std::optional<std::int64_t> integer(const char* name) const {
    const auto value = number(name);
    if (!value) return std::nullopt;
    if (*value != std::floor(*value) || *value > 1e15) return not_read(name, "not a whole number");
    return static_cast<std::int64_t>(*value);
  }
  // Text instead of a number is left to the rules.
  std::optional<std::int64_t> number_in_text(const char* name) const {
    const auto value = text(name);
    return value.find_first_not_of("0123456789.e+") == std::string::npos ? integer(name) : std::nullopt;
  }
  // "OOM" in a memory or time cell: the run did not fit.
  bool out_of_memory(const char* name) const {
    const auto value = text(name);
    return value.starts_with("OOM") || value.starts_with("oom");
  }
  std::optional<double> measured(const char* name) const {
    constexpr double kLeast = 1e-9;  // no step is as short, no peak as low
    const auto value = out_of_memory(name) ? std::nullopt : number(name);
    return value && *value < kLeast ? not_read(name, "nothing that was measured") : value;
  }
  std::nullopt_t not_read(const char* name, const char* what) const {
    if (unread_.empty()) unread_ = fmt::format("its '{}' is '{}', {}", name, text(name), what);
    return std::nullopt;
  }
  const std::string& unread() const { return unread_; }  // the first unreadable cell, as a reason
  // "1 (distributed optimizer, assumed)" counts as 1. FSDP shards everything unless it says what else.
  std::optional<std::int64_t> zero_stage(const char* name) const {
    const auto value = text(name);
    if (!value.empty() && value[0] >= '0' && value[0] <= '3') return value[0] - '0';
    if (value == "FSDP" || value == "fsdp" || value == "FSDP2" || value == "fsdp2") return 3;
    return std::nullopt;
  }

 private:
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string> values_;
  mutable std::string unread_;
};

// "vtrain_single-0001" belongs to vtrain_single unless the table names another.
std::string table_of(const std::string& id) { return id.substr(0, id.rfind('-')); }

// Derives the batch or the step time from other printed columns.
void fill_in(Run& r, const Row& row) {
  const auto replicas = r.gpus.value_or(1) / std::max<std::int64_t>(1, r.tensor.value_or(1) * r.pipeline.value_or(1) *
                                                                           r.context.value_or(1));
  if (!r.global_batch && r.micro_batch) r.global_batch = *r.micro_batch * std::max<std::int64_t>(1, replicas);
  if (r.iteration_s || !r.global_batch || !r.gpus || !r.sequence) return;
  const double sequences = double(*r.global_batch) / double(*r.gpus);
  if (const auto rate = row.number("samples_per_s_per_gpu"); rate && *rate > 0)
    r.iteration_s = sequences / *rate;
  else if (const auto tokens = row.number("tokens_per_s_per_gpu"); tokens && *tokens > 0)
    r.iteration_s = sequences * double(*r.sequence) / *tokens;
  else if (const auto tflops = row.number("tflops_per_gpu"); tflops && !row.has("tflops_kind", "hardware"))
    r.tflops = *tflops;
  else if (const auto mfu = row.number("mfu_pct"))
    r.mfu = *mfu / 100;
}

// "layout Et|(tt|)*6L": the layers of each stage of Megatron-Core's layout.
void read_layout(Run& r, const Row& row) {
  constexpr std::string_view kLayout = "layout ";
  const auto value = row.text("vp");
  const auto pipeline = r.pipeline.value_or(1);
  const auto layers = value.starts_with(kLayout) ? layers_of_layout(value.substr(kLayout.size())) : std::nullopt;
  if (!layers || std::int64_t(layers->size()) % pipeline != 0) return;
  r.stage_layers = *layers, r.chunks = std::int64_t(layers->size()) / pipeline;
}

// "layers/virtual stage 2": gives the number of layers per chunk.
std::optional<std::int64_t> chunks_of(const Row& row, const Run& r) {
  constexpr std::string_view kByLayers = "layers/virtual stage ";
  const auto value = row.text("vp");
  if (!value.starts_with(kByLayers)) return row.integer("vp");
  double each = 0;
  try {
    each = parse_number(value.substr(kByLayers.size()));
  } catch (const UserError&) {
    return row.not_read("vp", "not a number of layers");
  }
  return r.layers && each >= 1 ? std::optional(*r.layers / r.pipeline.value_or(1) / std::int64_t(each)) : std::nullopt;
}

Run run_of(const Row& row) {
  Run r;
  r.id = row.text("id");
  r.table = row.text("table").empty() ? table_of(r.id) : row.text("table");
  r.framework = row.text("framework"), r.model = row.text("model"), r.gpu = row.text("gpu");
  r.interconnect = row.text("interconnect"), r.recompute = row.text("recompute");
  r.sequence_parallel = row.text("seq_parallel"), r.schedule = row.text("schedule"),
  r.precision = row.text("precision");
  r.layers = row.integer("layers"), r.hidden = row.integer("hidden"), r.heads = row.integer("heads");
  r.kv_heads = row.integer("kv_heads"), r.ffn = row.integer("ffn"), r.vocabulary = row.number_in_text("vocab");
  r.sequence = row.integer("seq"), r.experts = row.integer("n_experts");
  r.experts_per_token = row.integer("topk"), r.expert_ffn = row.integer("moe_ffn");
  r.gpus = row.integer("n_gpus"), r.gpus_per_node = row.integer("gpus_per_node");
  if (!r.gpus) r.gpus = r.gpus_per_node;  // not printed: one node
  r.gpu_memory_gb = row.integer("gpu_mem_gb");
  r.tensor = row.integer("tp"), r.pipeline = row.integer("pp");
  if (read_layout(r, row); r.stage_layers.empty()) r.chunks = chunks_of(row, r);
  r.context = row.integer("cp"), r.expert = row.integer("ep"), r.data = row.integer("dp"),
  r.zero = row.zero_stage("zero_stage");
  r.micro_batch = row.integer("micro_batch"), r.global_batch = row.integer("global_batch");
  r.iteration_s = row.measured("iter_time_s"), r.peak_memory = row.measured("peak_mem_gb");
  r.memory_kind = row.text("mem_kind"), r.cluster = row.text("cluster"), r.profile = row.text("software");
  r.knobs = row.text("knobs");
  r.failed = row.out_of_memory("mem_kind") || row.out_of_memory("peak_mem_gb") || row.out_of_memory("iter_time_s");
  fill_in(r, row);
  r.unread = row.unread();
  r.cells = row.texts();
  r.cells["table"] = r.table;
  return r;
}

std::map<std::string, std::size_t> columns_of(const std::string& path, const std::string& header) {
  std::map<std::string, std::size_t> columns;
  for (const auto& name : cells(header)) {
    if (!columns.emplace(name, columns.size()).second)
      throw UserError(fmt::format("{}:1: column '{}' stands there twice", path, name));
  }
  for (const char* needed :
       {"id", "layers", "hidden", "seq", "n_gpus", "gpu", "global_batch", "micro_batch", "iter_time_s"})
    if (!columns.count(needed))
      throw UserError(
          fmt::format("{}:1: no column '{}'; a table of published runs needs id, layers, hidden, seq, "
                      "n_gpus, gpu, global_batch, micro_batch and iter_time_s",
                      path, needed));
  return columns;
}

}  // namespace

bool is_table_of_runs(const std::string& path) {
  std::istringstream text(scenario::read_text_file(path, kLargestTable));
  std::string line;
  std::getline(text, line);
  if (line.ends_with('\r')) line.pop_back();
  try {
    columns_of(path, line);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

std::vector<Run> read_runs(const std::string& path) {
  std::istringstream text(scenario::read_text_file(path, kLargestTable));
  std::string line;
  const auto next = [&] {
    if (!std::getline(text, line)) return false;
    if (line.ends_with('\r')) line.pop_back();
    return true;
  };
  if (!next()) throw UserError(path + ": empty; a table of published runs begins with the names of its columns");
  if (line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);  // a byte-order mark
  const auto columns = columns_of(path, line);
  std::vector<Run> runs;
  for (int number = 2; next(); number++) {
    if (line.empty()) continue;
    const auto place = fmt::format("{}:{}", path, number);
    auto values = cells(line);
    if (values.size() != columns.size())
      throw UserError(
          fmt::format("{}: {} cells under {} columns; is a quote left open?", place, values.size(), columns.size()));
    auto& run = runs.emplace_back(run_of(Row(columns, std::move(values))));
    run.file = path, run.line = number;
    if (run.id.empty()) throw UserError(place + ": no 'id'");
  }
  return runs;
}

}  // namespace rehearsal::published
