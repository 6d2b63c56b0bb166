#include <fmt/format.h>

#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

constexpr const char* kFile = "configs/error_bands.yaml";

}  // namespace

ErrorBand load_error_band(Context& context, const Concrete& run) {
  auto& problems = context.problems;
  ErrorBand band;
  if (run.profile && run.profile->gpu) {  // published runs were predicted with the constants of the GPU's file
    band.basis =
        fmt::format("GPU constants measured on a {} on {} (profile {}), with which no published run was predicted",
                    run.profile->gpu->gpu.name, run.profile->date, run.profile->name);
    return band;
  }
  band.basis = "no published runs with this GPU, software, attention and recomputation to compare with";
  const Node* root = context.documents.read_file(context.home + "/" + kFile);
  if (!root) return band;
  MapReader file(problems, *root, "");
  const Node* bands = file.require("bands", "a list of bands");
  file.finish();
  if (!bands) return band;
  for (const Node* item : bands->items) {
    MapReader entry(problems, *item, "bands");
    const auto gpu = entry.text("gpu"), software = entry.text("software"), basis = entry.text("basis");
    const auto attention = entry.choice<models::AttentionKind>(
        "attention", {{"unfused", models::AttentionKind::unfused}, {"flash", models::AttentionKind::flash}}, {});
    const auto recompute = entry.choice<models::Recompute>("recompute",
                                                           {{"none", models::Recompute::none},
                                                            {"selective", models::Recompute::selective},
                                                            {"full", models::Recompute::full}},
                                                           {});
    const double low = entry.number("low", kPositive), high = entry.number("high", kPositive);
    entry.finish();
    if (gpu == run.cluster.gpu.name && software == run.software.name && attention == run.training.attention &&
        recompute == run.training.recompute)
      band = {low, high, basis};
  }
  return band;
}

}  // namespace rehearsal::scenario
