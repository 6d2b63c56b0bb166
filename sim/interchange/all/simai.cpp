// What SimAI reads (aliyun/SimAI cef83f9d, aliyun/aicb 23eec3c4): workloads that AICB generates for it, lines of layers
// with times and messages behind a header (workload_generator/SimAI_training_workload_generator.py); AICB's table of
// specifications (workload/Workload_spec_v1.1.csv); and bandwidths on the bus by kind of group (busbw.yaml).
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/machine.hpp"

namespace rehearsal::interchange {
namespace {

constexpr std::string_view kHeader = "model_parallel_NPU_group:";

bool is_workload(const Source& source) { return source.begins_with_line(kHeader, 1); }
bool is_specification(const Source& source) {
  return source.begins_with_line("World_size", 1) && source.begins_with_line("Num_of_layers", 1);
}
// "allreduce,: 300" below "TP:", "DP:", "EP:": not quite YAML.
bool is_bus(const Source& source) {
  return source.begins_with_line("allreduce", 8) && source.begins_with_line("TP:", 4);
}

bool recognises(const Source& source) {
  return source.kind != Source::Kind::bytes && (is_workload(source) || is_specification(source) || is_bus(source));
}

// A place on a line, for what is no tree.
class Place {
 public:
  Place(Sources& sources, const Source& source) : sources_(sources), source_(source) {}
  const scenario::Node& at(int line) { return *sources_.make(scenario::Node::Kind::null, source_.name, line); }
  [[noreturn]] void wrong(int line, const std::string& message) const {
    throw UserError({{{source_.name, line, 0}, message}});
  }

 private:
  Sources& sources_;
  const Source& source_;
};

// name -1 forward_us... : name, dependency, and of forward, input gradient and weight gradient a time, a message and
// its bytes; then the time of the update.
constexpr std::size_t kFields = 12;

void read_header(const std::string& line, Place& place, ScenarioDraft& draft) {
  const auto words = words_of(line);
  std::map<std::string, std::int64_t, std::less<>> values;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    auto key = words[i];
    if (key.ends_with(':')) key.pop_back();
    if (const auto value = integer_of(words[i + 1]); value && !integer_of(key)) values.emplace(key, *value);
  }
  const auto say = [&](const char* theirs, const char* ours) {
    if (const auto found = values.find(theirs); found != values.end() && found->second > 0)
      draft.say(ours, found->second, place.at(1), theirs);
  };
  say("model_parallel_NPU_group", "parallelism.tensor");
  say("ep", "parallelism.expert"), say("pp", "parallelism.pipeline"), say("vpp", "parallelism.chunks");
  if (const auto ga = values.find("ga"); ga != values.end())
    draft.say(Fact::accumulation, ga->second, place.at(1), "ga");
  if (const auto all = values.find("all_gpus"); all != values.end())
    draft.say(Fact::world, all->second, place.at(1), "all_gpus");
  if (draft.integer("parallelism.chunks", 1) > 1) draft.derive("schedule", "interleaved-1f1b", "vpp");
}

void read_workload(Sources& sources, const Source& source, ScenarioDraft& draft) {
  Place place(sources, source);
  std::map<std::string, std::int64_t, std::less<>> rows;
  std::map<std::string, int, std::less<>> first;
  std::int64_t between = 0, shards = 0;
  bool gathers = false, timed = false;
  const auto lines = lines_of(source.text);
  read_header(lines[0].text, place, draft);
  for (std::size_t i = 2; i < lines.size(); ++i) {
    const auto words = words_of(lines[i].text);
    if (words.empty()) continue;
    if (words.size() != kFields || !integer_of(words[2]) || !integer_of(words[4]))
      place.wrong(lines[i].number, fmt::format("no layer of a workload: it has {} fields, of which {} are there",
                                               kFields, words.size()));
    ++rows[words[0]];
    first.emplace(words[0], lines[i].number);
    if (words[0].starts_with("attention")) between = std::max(between, *integer_of(words[4]));
    if (words[0] == "grad_param_comm" || words[0] == "grad_param") shards += words[9] == "REDUCESCATTER";
    gathers |= words[0] == "attention_column" && words[3] == "ALLGATHER";
    timed |= *integer_of(words[2]) > 1;
  }
  if (shards > 0)
    draft.say("parallelism.zero", 1,
              place.at(first.contains("grad_param") ? first["grad_param"] : first["grad_param_comm"]),
              "gradients are scattered, and parameters gathered");
  if (gathers)
    draft.say("parallelism.sequence", true, place.at(first["attention_column"]), "attention_column gathers its input");
  // Rows are of one rank and of all its micro-batches.
  const auto micro = std::max<std::int64_t>(1, draft[Fact::accumulation] ? draft[Fact::accumulation]->value : 1);
  std::int64_t layers = 0;
  for (const char* name : {"attention_column", "attention_norm", "attention_layer", "attention"})
    if (const auto found = rows.find(name); found != rows.end() && layers == 0) layers = found->second / micro;
  const auto pipeline = draft.integer("parallelism.pipeline", 1);
  draft.no_word({source.name, 1, 0},
                fmt::format("{} layers of a rank ({:.0f} in all), {} values of a micro-batch between them", layers,
                            double(layers) * double(pipeline), between / 2),
                "a workload does not say the model: give its config.json beside, or --set model=NAME");
  if (timed) draft.no_word({source.name, 3, 0}, "times of layers", "they are predicted");
}

// One row of AICB's table, which is separated by tabs in spite of its name.
void read_specification(Sources& sources, const Source& source, ScenarioDraft& draft) {
  Place place(sources, source);
  const auto lines = lines_of(source.text);
  const auto cells = [](const std::string& line) {
    const char between = line.find('\t') != line.npos ? '\t' : ',';
    std::vector<std::string> all{""};
    for (const char c : line)
      if (c == between)
        all.emplace_back();
      else
        all.back() += c;
    return all;
  };
  std::vector<Line> rows;
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (!words_of(lines[i].text).empty()) rows.push_back(lines[i]);
  const auto names = cells(lines[0].text);
  if (rows.size() != 1) {
    std::string all;
    for (const auto& row : rows)
      all += (all.empty() ? "" : ", ") + (cells(row.text).size() > 1 ? cells(row.text)[1] : "");
    place.wrong(rows.empty() ? 1 : rows[1].number,
                fmt::format("{} workloads ({}), and a scenario is one: leave its row, below the line of names",
                            rows.size(), all));
  }
  const auto values = cells(rows[0].text);
  const auto& at = place.at(rows[0].number);
  const auto value = [&](std::string_view name, std::size_t which = 0) -> std::string {
    for (std::size_t i = 0; i < names.size() && i < values.size(); ++i)
      if (names[i] == name && which-- == 0) return values[i] == "-" ? "" : values[i];
    return {};
  };
  const auto say = [&](const char* theirs, const char* ours) {
    if (const auto whole = integer_of(value(theirs))) draft.say(ours, *whole, at, theirs);
  };
  const bool moe = integer_of(value("Expert num")).value_or(0) > 1;
  const auto name = value("Name"), framework = value("Name", 1);
  draft.say("name", name, at, "Name");
  draft.derive("model.family", moe ? "moe" : name.starts_with("GPT") ? "gpt" : "llama", "its name, and Expert num");
  say("Hidden_size", "model.hidden"), say("Num_of_layers", "model.layers"), say("Attention_heads", "model.heads");
  say("Sequence_length", "model.sequence"), say("FFN_hidden_size", "model.ffn");
  say("Expert num", "model.experts"), say("TopK", "model.experts_per_token");
  say("TP", "parallelism.tensor"), say("PP", "parallelism.pipeline"), say("Zero_level", "parallelism.zero");
  say("expert parallel number", "parallelism.expert");
  if (const auto world = integer_of(value("World_size"))) draft.say(Fact::world, *world, at, "World_size");
  if (const auto sequence = value("SP"); !sequence.empty())
    draft.say("parallelism.sequence", sequence == "enable", at, "SP " + sequence);
  if (framework == "Deepspeed")
    draft.derive("framework.use", "deepspeed-2023", "its release is not said; the newest profile of DeepSpeed");
  else if (framework.starts_with("Me"))
    draft.derive("framework.use", "megatron-2024", "its release is not said; one of the years of AICB");
  for (const char* left : {"reduce_bucket_size", "allgather_bucket_size", "prefetch_bucket_size", "max_live_parameters",
                           "param_persistence_threshold"})
    if (const auto said = value(left); !said.empty())
      draft.no_word(at.where(), fmt::format("{}: {}", left, said), "buckets are those of the framework");
}

void read_bus(Sources& sources, const Source& source, ScenarioDraft& draft) {
  Place place(sources, source);
  constexpr double kGpus = 8;  // of a node: for other groups a fit is scaled by (n - 1) / n, as a rate on the bus is
  static const std::map<std::string, std::pair<const char*, double>, std::less<>> kKinds{
      {"allreduce", {"all_reduce", 2}}, {"allgather", {"all_gather", 1}}, {"reducescatter", {"reduce_scatter", 1}}};
  std::string group;
  for (const auto& line : lines_of(source.text)) {
    const auto words = words_of(line.text, " \t:,");
    if (words.size() == 1 && line.text.find(':') != std::string::npos) group = words[0];
    if (words.size() != 2 || words[1] == "null") continue;
    const auto rate = number_of(words[1]);
    if (!rate || *rate <= 0)
      place.wrong(line.number, fmt::format("'{}' must be GB/s on the bus, or null; found '{}'", words[0], words[1]));
    const auto kind = kKinds.find(words[0]);
    if (group != "TP" || kind == kKinds.end()) {
      draft.no_word({source.name, line.number, 0}, fmt::format("{} {}: {}", group, words[0], words[1]),
                    group == "TP" ? "curves are of all-reduce, all-gather and reduce-scatter"
                                  : "groups of these ranks share links and NICs of the cluster");
      continue;
    }
    const auto key = fmt::format("cluster.collectives.fitted.{}.", kind->second.first);
    const double bytes = kind->second.second * (1 - 1 / kGpus);  // over the bus, for each of the array
    draft.say(key + "rate", bandwidth_text(*rate * 1e9 / bytes), place.at(line.number),
              fmt::format("TP {} / {:g}, of 8 GPUs", words[0], bytes));
    draft.derive(key + "fixed", "0s", "a rate on the bus has no start");
    draft.derive("cluster.collectives.fitted.ranks", std::int64_t(kGpus), "of a node");
  }
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  if (is_workload(source)) return read_workload(sources, source, draft);
  if (is_specification(source)) return read_specification(sources, source, draft);
  if (is_bus(source)) return read_bus(sources, source, draft);
  throw UserError(
      {{{source.name, 1, 1},
        "none of SimAI's files: a workload begins with 'model_parallel_NPU_group:', busbw.yaml has 'TP:' and "
        "'allreduce', AICB's specification the columns 'World_size' and 'Num_of_layers'"}});
}

}  // namespace

void register_simai(Registry& registry) {
  registry.add({.name = "simai",
                .title = "a file of SimAI",
                .summary = "SimAI's and AICB's workloads (the layout), specifications and busbw.yaml",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
