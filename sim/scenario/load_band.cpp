#include <fmt/format.h>

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

// One entry of the file.
struct BandOfFile {
  BandOfFile(Diagnostics& problems, const Node& item) : map(problems, item, "band") {
    low = map.number("low", kPositive), high = map.number("high", kPositive), basis = map.text("basis");
  }
  ErrorBand band(ErrorBand::Among among) const { return {low, high, among, basis}; }
  bool within(const char* key, double value) {
    const Node* range = map.require(key, "the least and the most of its runs");
    if (!range || range->items.size() != 2) return false;
    const auto bound = [&](std::size_t i) {
      return read_number(map.problems(), *range->items[i], key, kPositive).value_or(0);
    };
    return value >= bound(0) / kReach && value <= bound(1) * kReach;
  }
  // Within reach of the sizes of its runs.
  bool fits(const RunClass& run) {
    const bool sequence = within("sequence", run.sequence), parameters = within("parameters", run.parameters),
               gpus = within("gpus", run.gpus);
    return sequence && parameters && gpus;
  }

  MapReader map;
  double low = 0, high = 0;
  std::string basis;
};

// Why no published run is like it, whatever its GPU and sizes; empty: some may be.
std::string unlike_all_runs(const Scenario& scenario) {
  const auto& c = *scenario.concrete;
  if (!c.cluster.groups.empty()) return "no published runs on GPUs of several kinds";
  if (c.model.is_moe()) return "no runs of mixtures of experts but those that constants were fitted on";
  if (scenario.data_parallel.served()) return "no published runs with parameter servers";
  if (scenario.schedule.cut() > 1) return "no published runs of sequences that go through in pieces";
  return "";
}

}  // namespace

RunClass run_class(const Scenario& scenario) {
  const auto& c = *scenario.concrete;
  return {c.cluster.gpu.name,
          c.software.name,
          name_of(c.training.attention),
          name(c.training.recompute),
          precision_class(c.training.precision),
          layout_class(scenario.parallelism),
          double(scenario.batch.sequence),
          models::parameters(c.model),
          double(scenario.parallelism.gpus())};
}

void load_error_band(Context& context, Scenario& scenario, bool software_given) {
  auto& problems = context.problems;
  const auto& c = *scenario.concrete;
  auto& band = scenario.error_band;
  const auto run = run_class(scenario);
  const Node* root = context.documents.read_file(context.home + "/" + kFile);
  if (!root) return;
  MapReader file(problems, *root, "");
  const Node* comparable = file.require("comparable", "a list of bands");
  const Node* generation = file.require("generation", "a list of bands");
  const Node* all = file.require("all", "a list of one band");
  const Node* software = file.require("software", "what ran with which attention");
  file.finish();
  if (!comparable || !generation || !all || !software) return;

  band.basis = "this program's own kernels, which no published run used";
  const auto look = [&](const Node& list, ErrorBand::Among among, auto fits) {
    for (const Node* item : list.items) {
      BandOfFile entry(problems, *item);
      if (fits(entry) && !c.software.own_kernels) band = entry.band(among);
      entry.map.finish();
    }
  };
  look(*all, ErrorBand::Among::all, [](BandOfFile&) { return true; });
  if (const auto why = unlike_all_runs(scenario); !why.empty()) {
    band.basis = band.low ? fmt::format("{}; {}", why, band.basis) : why;
    return;
  }
  look(*generation, ErrorBand::Among::generation,
       [&](BandOfFile& entry) { return entry.map.text("generation") == run.generation(); });
  look(*comparable, ErrorBand::Among::comparable, [&](BandOfFile& entry) {
    const auto same = [&](const char* key, const std::string& value) { return entry.map.text(key) == value; };
    const bool machine = same("gpu", run.gpu), attention = same("attention", run.attention),
               framework = same("software", run.software), recompute = same("recompute", run.recompute),
               precision = same("precision", run.precision), layout = same("layout", run.layout);
    return entry.fits(run) && machine && attention && framework && recompute && precision && layout;
  });
  if (const Node* names = software->find(run.attention); names && !software_given && !c.software.own_kernels)
    for (const Node* name : names->items)
      if (name->text != run.software) scenario.other_software.push_back(name->text);
  if (c.profile && c.profile->gpu)  // published runs were predicted with the constants of the GPU's file
    band = {{},
            {},
            ErrorBand::Among::comparable,
            fmt::format("GPU constants measured on a {} on {} (profile {}), with which no published run was predicted",
                        c.profile->gpu->gpu.name, c.profile->date, c.profile->name)};
}

}  // namespace rehearsal::scenario
