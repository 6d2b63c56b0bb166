#include "published/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "scenario/document.hpp"

namespace rehearsal::published {
namespace {

constexpr std::size_t kLargestTable = 64 << 20;

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> all(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      all.back() += line[++i];  // doubled within quotes: itself
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
  Row(const std::map<std::string, std::size_t>& columns, std::vector<std::string> values, const std::string& place)
      : columns_(columns), values_(std::move(values)), place_(place) {}

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
  std::optional<double> number(const char* name) const {
    const auto value = text(name);
    if (value.empty() || value == "n/a") return std::nullopt;
    try {
      const double number = parse_number(value);
      if (std::isfinite(number) && number >= 0) return number;
    } catch (const UserError&) {
    }
    throw UserError(fmt::format("{}: '{}' is '{}', not a number", place_, name, value));
  }
  std::optional<std::int64_t> integer(const char* name) const {
    const auto value = number(name);
    if (!value) return std::nullopt;
    if (*value != std::floor(*value) || *value > 1e15)
      throw UserError(fmt::format("{}: '{}' is '{}', not a whole number", place_, name, text(name)));
    return static_cast<std::int64_t>(*value);
  }
  // A text is no number: rules know what it stands for, or the row is not judged.
  std::optional<std::int64_t> number_in_text(const char* name, std::string* unread = nullptr) const {
    const auto value = text(name);
    if (value == "n/a" || value.find_first_not_of("0123456789.e+") == std::string::npos) return integer(name);
    if (unread) *unread = fmt::format("its '{}' is '{}', not a number", name, value);
    return std::nullopt;
  }
  // "1 (distributed optimizer, assumed)" counts as 1.
  std::optional<std::int64_t> leading_digit(const char* name) const {
    const auto value = text(name);
    if (value.empty() || value[0] < '0' || value[0] > '9') return std::nullopt;
    return value[0] - '0';
  }

 private:
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string> values_;
  const std::string& place_;
};

// "vtrain_single-0001" belongs to vtrain_single where the table does not say so itself.
std::string table_of(const std::string& id) { return id.substr(0, id.rfind('-')); }

// What a table prints instead of the batch or of the time of a step.
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

// "layers/virtual stage 2": by the layers of a chunk.
std::optional<std::int64_t> chunks_of(const Row& row, Run& r) {
  constexpr std::string_view kByLayers = "layers/virtual stage ";
  const auto value = row.text("vp");
  if (!value.starts_with(kByLayers)) return row.number_in_text("vp", &r.unread);
  const auto each = parse_number(value.substr(kByLayers.size()));
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
  r.kv_heads = row.number_in_text("kv_heads", &r.unread), r.ffn = row.number_in_text("ffn", &r.unread),
  r.vocabulary = row.number_in_text("vocab");
  r.sequence = row.integer("seq"), r.experts = row.number_in_text("n_experts", &r.unread);
  r.experts_per_token = row.number_in_text("topk", &r.unread), r.expert_ffn = row.number_in_text("moe_ffn", &r.unread);
  r.gpus = row.integer("n_gpus"), r.gpus_per_node = row.integer("gpus_per_node");
  if (!r.gpus) r.gpus = r.gpus_per_node;  // not printed: one node
  r.gpu_memory_gb = row.integer("gpu_mem_gb");
  r.tensor = row.number_in_text("tp", &r.unread), r.pipeline = row.number_in_text("pp", &r.unread),
  r.chunks = chunks_of(row, r);
  r.context = row.number_in_text("cp", &r.unread), r.expert = row.number_in_text("ep", &r.unread),
  r.data = row.integer("dp"), r.zero = row.leading_digit("zero_stage");
  r.micro_batch = row.integer("micro_batch"), r.global_batch = row.integer("global_batch");
  r.iteration_s = row.number("iter_time_s"), r.peak_memory = row.number("peak_mem_gb");
  r.memory_kind = row.text("mem_kind"), r.cluster = row.text("cluster"), r.software = row.text("software");
  r.knobs = row.text("knobs");
  fill_in(r, row);
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
    auto& run = runs.emplace_back(run_of(Row(columns, std::move(values), place)));
    run.file = path, run.line = number;
    if (run.id.empty()) throw UserError(place + ": no 'id'");
  }
  return runs;
}

}  // namespace rehearsal::published
