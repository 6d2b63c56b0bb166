#include "scenario/error_band.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <mutex>
#include <optional>

#include "scenario/load.hpp"
#include "scenario/plan_file.hpp"

namespace rehearsal::scenario {
namespace {

constexpr const char* kFile = "configs/error_bands.yaml";
constexpr double kFewTokens = 2048;  // of a micro-batch on one GPU; from twice as many on none are few
constexpr double kLittleWaiting = .1, kWaiting = .25;  // shares of a step

std::string precision_class(Precision precision) {
  if (precision == Precision::fp8 || precision == Precision::fp4) return name(precision);
  return precision == Precision::fp16 || precision == Precision::bf16 ? "16-bit" : "fp32";
}

std::string layout_class(const plan::Parallelism& p) {
  if (p.pipeline > 1) return "pipeline";
  if (p.tensor > 1) return "tensor";
  return p.zero >= 2 ? "sharded" : "data";
}

std::string attention_class(models::AttentionKind kind) {
  return kind == models::AttentionKind::flash ? "flash" : "unfused";
}

std::string experts_class(const models::Transformer& model) {
  if (!model.is_moe()) return "none";
  return model.expert_ffn > model.hidden ? "coarse" : "fine";
}

// Properties of the scenario that no published run of the tables has.
std::vector<std::string> unlike_all_runs(const Scenario& scenario) {
  const auto& c = *scenario.concrete;
  const auto& t = c.training;
  std::vector<std::string> all;
  const auto add = [&](bool is, const char* what) {
    if (is) all.emplace_back(what);
  };
  using models::Family;
  add(!c.cluster.groups.empty(), "on GPUs of several kinds");
  add(scenario.data_parallel.served(), "with parameter servers");
  add(scenario.schedule.cut() > 1, "of sequences that go through in pieces");
  add(!t.optimizer->published, "with another optimizer than AdamW");
  add(t.leaves_device(), "with states or activations beyond the device");
  add(c.model.family == Family::u_transformer || c.model.family == Family::mlp, "of such models");
  add(!scenario.faults.empty(), "on machines with such faults");
  return all;
}

// "gpu.sustained_clock, fitted on 2026-11-27 to 2 logs (...)".
std::vector<std::string> fitted_factors(const cluster::ClusterSpec& cluster) {
  std::vector<std::string> all;
  const auto add = [&all](const std::string& prefix, const auto& owner) {
    for (const auto& key : owner.fitted) {
      const auto source = owner.sources.find(key);
      all.push_back(prefix + key + (source == owner.sources.end() ? "" : ", " + source->second));
    }
  };
  add("gpu.", cluster.gpu), add("", cluster);
  return all;
}

bool named(const std::string& gpu, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* n) { return gpu.find(n) != std::string::npos; });
}
bool is_volta(const std::string& gpu) { return named(gpu, {"v100"}); }
bool is_ampere(const std::string& gpu) { return named(gpu, {"a100", "a800"}); }
bool is_hopper(const std::string& gpu) { return named(gpu, {"h100", "h200", "h800", "h20"}); }
bool is_blackwell(const std::string& gpu) { return named(gpu, {"b200", "b300"}); }

constexpr Feature kFeatures[] = {
    {"volta", "on Volta", [](const RunClass& r) { return double(is_volta(r.gpu)); }},
    {"ampere", "on Ampere", [](const RunClass& r) { return double(is_ampere(r.gpu)); }},
    {"hopper", "on Hopper", [](const RunClass& r) { return double(is_hopper(r.gpu)); }},
    {"blackwell", "on Blackwell", [](const RunClass& r) { return double(is_blackwell(r.gpu)); }},
    {"other_gpu", "on a GPU of another kind",
     [](const RunClass& r) {
       return double(!is_volta(r.gpu) && !is_ampere(r.gpu) && !is_hopper(r.gpu) && !is_blackwell(r.gpu));
     }},
    {"coarse_experts", "of mixtures of few experts", [](const RunClass& r) { return double(r.experts == "coarse"); }},
    {"fine_experts", "of mixtures of fine-grained experts",
     [](const RunClass& r) { return double(r.experts == "fine"); }},
    {"eager", "with eager kernels", [](const RunClass& r) { return double(r.eager); }},
    {"adapters", "of fine-tuning with adapters", [](const RunClass& r) { return double(r.adapters); }},
    {"eager_launches", "with fused kernels that Python launches one by one",
     [](const RunClass& r) { return double(r.one_by_one && !r.eager); }},
    {"few_tokens", "with few tokens in a micro-batch",
     [](const RunClass& r) { return std::clamp(2 - r.tokens / kFewTokens, 0., 1.); }},
    {"low_precision", "in 8 or 4 bits",
     [](const RunClass& r) { return double(r.precision.starts_with("fp8") || r.precision == "fp4"); }},
    {"waiting", "with much waiting",
     [](const RunClass& r) { return std::clamp((r.waiting - kLittleWaiting) / (kWaiting - kLittleWaiting), 0., 1.); }},
    {"unknown_framework", "whose framework is not known",
     [](const RunClass& r) { return double(r.framework == "unknown"); }},
};

// By Unseen: the key of its factor, and the words of a band that has it.
struct UnseenRow {
  const char *key, *words;
};
constexpr UnseenRow kUnseenRows[] = {{"new_family", "no published run is like this one"},
                                     {"new_framework", "no run of this framework was compared"},
                                     {"new_gpu", "no run on this GPU was compared"}};
const UnseenRow& row_of(Unseen unseen) { return kUnseenRows[static_cast<std::size_t>(unseen)]; }

Sides sides(MapReader& map) { return {map.number("low", kPositive), map.number("high", kPositive)}; }

SizesOfRuns sizes(MapReader& map) {
  const auto range = [&](const char* key) -> std::pair<double, double> {
    const Node* node = map.require(key, "the least and the most of its runs");
    if (!node || node->items.size() != 2) return {};
    const auto bound = [&](std::size_t i) {
      return read_number(map.problems(), *node->items[i], key, kPositive).value_or(0);
    };
    return {bound(0), bound(1)};
  };
  return {range("sequence"), range("parameters"), range("gpus")};
}

// A line of `runs`; false if it is none.
bool add_run(BandModel& model, std::string_view line) {
  constexpr std::string_view kBar = " | ";
  const auto next = [&] {
    const auto end = std::min(line.find(kBar), line.size());
    const auto field = line.substr(0, end);
    line.remove_prefix(std::min(end + kBar.size(), line.size()));
    return field;
  };
  bool sound = true;
  const auto number = [&](std::string_view text, auto& value) {
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    sound = sound && read.ec == std::errc() && read.ptr == text.data() + text.size() && value > 0;
  };
  const auto range = [&](std::pair<double, double>& of) {
    const auto text = next();
    const auto space = std::min(text.find(' '), text.size());
    number(text.substr(0, space), of.first), number(text.substr(std::min(space + 1, text.size())), of.second);
  };
  const std::string name(next());
  BandModel::Known known;
  range(known.sizes.sequence), range(known.sizes.parameters), range(known.sizes.gpus);
  number(next(), known.rows);
  known.tables = line;
  if (!sound || known.tables.empty()) return false;
  model.gpus[name.substr(0, name.find(' '))] += known.rows;
  const auto at = name.find(' ') + 1;
  model.frameworks[name.substr(at, name.find(' ', at) - at)] += known.rows;
  model.classes[name] = std::move(known);
  return true;
}

BandModel read_model(Diagnostics& problems, const Node& root) {
  BandModel model;
  MapReader file(problems, root, "");
  if (const Node* base = file.require("base", "half widths of dense models")) {
    MapReader map(problems, *base, "band");
    model.base = sides(map);
    map.finish();
  }
  if (const Node* list = file.require("factors", "a list of features"))
    for (const Node* item : list->items) {
      MapReader map(problems, *item, "factor");
      model.factors[map.text("feature")] = sides(map);
      map.find("families"), map.find("tables");
      map.finish();
    }
  if (const Node* all = file.require("sizes", "of all runs")) {
    MapReader map(problems, *all, "sizes");
    model.sizes = sizes(map);
    map.finish();
  }
  const auto runs = file.text("runs");
  std::string_view text = runs;
  for (auto at = file.at("runs"); !text.empty();) {
    ++at.line;
    const auto end = std::min(text.find('\n'), text.size());
    if (!add_run(model, text.substr(0, end)))
      problems.error(at, "is no 'class | sequence | parameters | GPUs | rows | tables', each size with least and most");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  file.finish();
  return model;
}

}  // namespace

std::span<const Feature> features() { return kFeatures; }

const char* key_of(Unseen unseen) { return row_of(unseen).key; }

void SizesOfRuns::add(const RunClass& run) {
  const auto span = [](auto& range, double value) {
    range = {std::min(range.first, value), std::max(range.second, value)};
  };
  span(sequence, run.sequence), span(parameters, run.parameters), span(gpus, run.gpus);
}

double SizesOfRuns::distance(const RunClass& run) const {
  const auto off = [](const auto& range, double value) {
    return std::max({0., std::log(range.first / value), std::log(value / range.second)}) / std::log(kReach);
  };
  return std::max({off(sequence, run.sequence), off(parameters, run.parameters), off(gpus, run.gpus)});
}

Sides BandModel::factor(const std::string& key) const {
  const auto found = factors.find(key);
  return found == factors.end() ? Sides{} : found->second;
}

Sides BandModel::of_features(const RunClass& run) const {
  Sides half = base;
  for (const auto& feature : features())
    if (const double strength = feature.strength(run); strength > 0) {
      const auto by = factor(feature.key);
      half.low *= std::pow(by.low, strength), half.high *= std::pow(by.high, strength);
    }
  return half;
}

RunClass run_class(const Scenario& scenario, double waiting) {
  const auto& c = *scenario.concrete;
  const auto& t = c.training;
  RunClass run{c.cluster.gpu.name,           c.framework.name,
               attention_class(t.attention), name(t.recompute),
               precision_class(t.precision), layout_class(scenario.parallelism),
               experts_class(c.model),       double(scenario.batch.sequence),
               models::parameters(c.model),  double(scenario.parallelism.gpus())};
  run.tokens = double(scenario.batch.micro * scenario.batch.sequence) / double(scenario.parallelism.context);
  run.waiting = waiting;
  run.eager = t.kernels == models::Kernels::unfused;
  run.adapters = t.frozen();
  run.one_by_one = c.framework.launches == models::LaunchCounts::eager;
  run.unlike = unlike_all_runs(scenario);
  return run;
}

std::string class_of(const RunClass& r) {
  return fmt::format("{} {} {} {} {} {} {}", r.gpu, r.framework, r.attention, r.recompute, r.precision, r.layout,
                     r.experts);
}

Told told(const RunClass& run, const BandModel& model) {
  Told answer;
  Sides half = model.of_features(run);
  const auto known = model.classes.find(class_of(run));
  const double beyond = known == model.classes.end() ? 1 : std::min(1., known->second.sizes.distance(run));
  if (beyond < 1 && run.unlike.empty()) answer.comparable = &known->second;
  // What is less known than a family is at least as wide.
  Sides unseen = model.factor(key_of(Unseen::family));
  const char* why = row_of(Unseen::family).words;
  const auto at_least = [&](Unseen what) {
    const auto more = model.factor(key_of(what));
    unseen = {std::max(unseen.low, more.low), std::max(unseen.high, more.high)}, why = row_of(what).words;
  };
  if (!model.frameworks.contains(run.framework)) at_least(Unseen::framework);
  if (!model.gpus.contains(run.gpu)) at_least(Unseen::gpu);
  half.low *= std::pow(unseen.low, beyond), half.high *= std::pow(unseen.high, beyond);
  answer.beyond = model.sizes.distance(run) + double(run.unlike.size());
  const double more = 1 + answer.beyond;
  answer.range = {std::exp(-half.low * more), std::exp(half.high * more)};
  if (!answer.comparable) answer.wider.emplace_back(why);
  if (!run.unlike.empty()) answer.wider.push_back(fmt::format("none was {}", fmt::join(run.unlike, ", ")));
  if (model.sizes.distance(run) > 0)
    answer.wider.push_back(fmt::format("it is {:.2g} steps (of a factor {:g} in size) beyond all runs",
                                       model.sizes.distance(run), kReach));
  return answer;
}

std::shared_ptr<const BandModel> read_band_model(Context& context) {
  // Parsed once for each text: predictions by the thousand have the same bands.
  static std::mutex mutex;
  static std::pair<std::string, std::shared_ptr<const BandModel>> last;
  const auto path = context.home + "/" + kFile;
  std::string text;
  try {
    text = read_text_file(path, Documents::kLargestFile, context.files);
  } catch (const UserError& error) {
    for (const auto& d : error.diagnostics()) context.problems.error(d.where, d.message);
    return nullptr;
  }
  {
    const std::lock_guard lock(mutex);
    if (last.second && last.first == text) return last.second;
  }
  const auto problems = context.problems.count();
  const Node* root = context.documents.read_file(path);
  if (!root) return nullptr;
  auto model = std::make_shared<const BandModel>(read_model(context.problems, *root));
  if (context.problems.count() > problems) return nullptr;
  const std::lock_guard lock(mutex);
  last = {std::move(text), model};
  return model;
}

ErrorBand error_band(const Scenario& scenario, double waiting) {
  ErrorBand band;
  if (!scenario.concrete || !scenario.bands) return band;
  const auto& c = *scenario.concrete;
  if (c.framework.native_kernels) {
    band.basis = "no published run is comparable: none used this program's own kernels";
    return band;
  }
  if (c.profile && c.profile->gpu) {  // published runs were predicted with the constants of the GPU's file
    band.basis = fmt::format(
        "no published run is comparable: none was predicted with GPU constants measured on a {} on {} (profile {})",
        c.profile->gpu->gpu.name, c.profile->date, c.profile->name);
    return band;
  }
  if (const auto factors = fitted_factors(c.cluster); !factors.empty()) {
    band.basis = fmt::format(
        "no published run is comparable: none was predicted with factors of its machine that were fitted to real runs "
        "({})",
        fmt::join(factors, "; "));
    return band;
  }
  const auto run = run_class(scenario, waiting);
  const auto tell = told(run, *scenario.bands);
  band.low = tell.range.low, band.high = tell.range.high, band.comparable = tell.comparable != nullptr;
  band.basis = band.comparable ? fmt::format("comparable are {} published runs ({})", tell.comparable->rows,
                                             tell.comparable->tables)
                               : fmt::format("{}", fmt::join(tell.wider, "; "));
  std::vector<std::string> with;
  for (const auto& feature : features())
    if (feature.strength(run) > 0) with.emplace_back(feature.words);
  band.basis += fmt::format("; the band is that of runs {}", fmt::join(with, ", "));
  if (band.comparable && tell.wider.size()) band.basis += fmt::format("; wider: {}", fmt::join(tell.wider, "; "));
  return band;
}

}  // namespace rehearsal::scenario
