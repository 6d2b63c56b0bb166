#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "scenario/load.hpp"
#include "scenario/plan_file.hpp"
#include "scenario/run_class.hpp"

namespace rehearsal::scenario {
namespace {

constexpr const char* kFile = "configs/error_bands.yaml";

std::string precision_class(Precision precision) {
  if (precision == Precision::fp8 || precision == Precision::fp4) return name(precision);
  return precision == Precision::fp16 || precision == Precision::bf16 ? "16-bit" : "fp32";
}

std::string layout_class(const plan::Parallelism& p) {
  if (p.pipeline > 1) return "pipeline";
  if (p.tensor > 1) return "tensor";
  return p.zero >= 2 ? "sharded" : "data";
}

std::string name_of(models::AttentionKind kind) { return kind == models::AttentionKind::flash ? "flash" : "unfused"; }

// One entry of configs/error_bands.yaml.
struct BandOfFile {
  BandOfFile(Diagnostics& problems, const Node& item) : map(problems, item, "band") {
    known.range = {map.number("low", kPositive), map.number("high", kPositive)}, basis = map.text("basis");
    known.sizes = {sizes("sequence"), sizes("parameters"), sizes("gpus")};
  }
  std::pair<double, double> sizes(const char* key) {
    const Node* range = map.require(key, "the least and the most of its runs");
    if (!range || range->items.size() != 2) return {};
    const auto bound = [&](std::size_t i) {
      return read_number(map.problems(), *range->items[i], key, kPositive).value_or(0);
    };
    return {bound(0), bound(1)};
  }

  MapReader map;
  KnownBand known;
  std::string basis;
};

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
  add(t.frozen(), "of adapters");
  add(t.leaves_device(), "with states or activations beyond the device");
  add(c.model.family == Family::u_transformer || c.model.family == Family::mlp, "of such models");
  add(!scenario.faults.empty(), "on machines with such faults");
  return all;
}

}  // namespace

void SizesOfRuns::add(const RunClass& run) {
  const auto span = [](auto& range, double value) {
    range = {std::min(range.first, value), std::max(range.second, value)};
  };
  span(sequence, run.sequence), span(parameters, run.parameters), span(gpus, run.gpus);
}

void SizesOfRuns::take_in(const SizesOfRuns& other) {
  for (const auto& [mine, its] :
       {std::pair{&sequence, &other.sequence}, {&parameters, &other.parameters}, {&gpus, &other.gpus}})
    *mine = {std::min(mine->first, its->first), std::max(mine->second, its->second)};
}

double SizesOfRuns::distance(const RunClass& run) const {
  const auto off = [](const auto& range, double value) {
    return std::max({0., std::log(range.first / value), std::log(value / range.second)}) / std::log(kReach);
  };
  return std::max({off(sequence, run.sequence), off(parameters, run.parameters), off(gpus, run.gpus)});
}

BandRange BandRange::towards(const BandRange& other, double way) const {
  const auto between = [&](double from, double to) { return from * std::pow(to / from, way); };
  return {between(low, other.low), between(high, other.high)};
}

BandRange BandRange::wider(double share) const {
  const double more = std::log(high / low) * share / 2;
  return {low * std::exp(-more), high * std::exp(more)};
}

Told told(const RunClass& run, const KnownBand* comparable, const KnownBand* generation, const KnownBand& all) {
  Told answer{all.range, ErrorBand::Among::all, all.sizes.distance(run) + double(run.unlike.size())};
  answer.range = all.range.wider(answer.beyond);
  if (run.experts || !run.unlike.empty()) return answer;
  for (const auto& [band, among] :
       {std::pair{generation, ErrorBand::Among::generation}, {comparable, ErrorBand::Among::comparable}}) {
    const double beyond = band ? band->sizes.distance(run) : kReach;
    if (beyond < 1) answer = {band->range.towards(answer.range, beyond), among, beyond};
  }
  return answer;
}

RunClass run_class(const Scenario& scenario) {
  const auto& c = *scenario.concrete;
  return {c.cluster.gpu.name,
          c.framework.name,
          name_of(c.training.attention),
          name(c.training.recompute),
          precision_class(c.training.precision),
          layout_class(scenario.parallelism),
          double(scenario.batch.sequence),
          models::parameters(c.model),
          double(scenario.parallelism.gpus()),
          c.model.is_moe(),
          unlike_all_runs(scenario)};
}

void load_error_band(Context& context, Scenario& scenario) {
  auto& problems = context.problems;
  const auto& c = *scenario.concrete;
  auto& band = scenario.error_band;
  const auto run = run_class(scenario);
  const Node* root = context.documents.read_file(context.home + "/" + kFile);
  if (!root) return;
  MapReader file(problems, *root, "");
  const Node* lists[] = {file.require("comparable", "a list of bands"), file.require("generation", "a list of bands"),
                         file.require("all", "a list of one band"), file.require("experts", "a list of one band")};
  file.finish();
  if (std::count(std::begin(lists), std::end(lists), nullptr)) return;
  // The last matching entry of a list.
  const auto look = [&](std::size_t list, auto fits) {
    std::optional<BandOfFile> found;
    for (const Node* item : lists[list]->items) {
      BandOfFile entry(problems, *item);
      const bool is = fits(entry);
      entry.map.finish();
      if (is) found.emplace(std::move(entry));
    }
    return found;
  };
  const auto alike = look(0, [&](BandOfFile& entry) {
    const auto same = [&](const char* key, const std::string& value) { return entry.map.text(key) == value; };
    const bool machine = same("gpu", run.gpu), attention = same("attention", run.attention),
               framework = same("software", run.framework), recompute = same("recompute", run.recompute),
               precision = same("precision", run.precision), layout = same("layout", run.layout);
    return machine && attention && framework && recompute && precision && layout;
  });
  const auto such = look(1, [&](BandOfFile& entry) { return entry.map.text("generation") == run.generation(); });
  const auto any = [](BandOfFile&) { return true; };
  const auto all = look(2, any), mixtures = look(3, any);
  const auto& widest = run.experts ? mixtures : all;
  if (c.framework.native_kernels || !widest) {
    band.basis = "no published run is comparable: none used this program's own kernels";
    return;
  }
  const auto tell = told(run, alike ? &alike->known : nullptr, such ? &such->known : nullptr, widest->known);
  band = {tell.range.low, tell.range.high, tell.among, ""};
  if (tell.among == ErrorBand::Among::comparable) {
    band.basis = "comparable are " + alike->basis;
  } else {
    const auto& from = tell.among == ErrorBand::Among::generation ? such : widest;
    band.basis =
        fmt::format("no published run is comparable{}; {}",
                    run.unlike.empty() ? "" : fmt::format(": none was {}", fmt::join(run.unlike, ", ")), from->basis);
  }
  if (tell.beyond > 0)
    band.basis += fmt::format("; wider, because this one is {:.2g} steps (of a factor {:g} in size{}) away from them",
                              tell.beyond, kReach, run.unlike.empty() ? "" : ", or of a kind");
  if (c.profile && c.profile->gpu)  // published runs were predicted with the constants of the GPU's file
    band = {
        {},
        {},
        ErrorBand::Among::comparable,
        fmt::format(
            "no published run is comparable: none was predicted with GPU constants measured on a {} on {} (profile {})",
            c.profile->gpu->gpu.name, c.profile->date, c.profile->name)};
}

}  // namespace rehearsal::scenario
