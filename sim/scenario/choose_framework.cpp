// Chooses the framework of a scenario, and lists the others that it may mean.
#include <fmt/format.h>

#include <algorithm>

#include "models/shapes.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

constexpr const char* kFrameworks = "configs/default_frameworks.yaml";

// The properties of a scenario that the choice depends on.
struct AskedOfFramework {
  std::string attention;
  std::int64_t zero = 0;
};

struct UsualFrameworks {
  std::vector<std::string> names;  // the default first
  std::string because;
};

std::vector<std::string> scalars_of(const Node* list) {
  std::vector<std::string> all;
  if (list)
    for (const Node* item : list->items) all.push_back(item->text);
  return all;
}

// Every entry is read, so that a mistake in any of them is always reported; the first entry that matches decides.
UsualFrameworks usual_frameworks(Context& context, const AskedOfFramework& around) {
  UsualFrameworks chosen;
  const Node* root = context.documents.read_file(context.home + "/" + kFrameworks);
  if (!root) return chosen;
  MapReader file(context.problems, *root, "");
  if (const Node* choices = file.require("choices", "a list of rules, of which the first that fits is used")) {
    for (const Node* item : choices->items) {
      MapReader map(context.problems, *item, "choice");
      const auto zero = scalars_of(map.find("zero"));
      const auto attention = map.text("attention", "");
      auto names = scalars_of(map.require("framework", "names of framework profiles, the usual one first"));
      auto because = map.text("because");
      map.finish();
      const bool fits = (zero.empty() || std::count(zero.begin(), zero.end(), std::to_string(around.zero)) > 0) &&
                        (attention.empty() || attention == around.attention);
      if (fits && chosen.names.empty()) chosen = {std::move(names), std::move(because)};
    }
  }
  file.finish();
  return chosen;
}

// `given` may override a few of its keys.
std::optional<models::Framework> named_framework(Context& context, const std::string& name, const Node* given,
                                                 const Node& root) {
  Node* text = context.documents.make(Node::Kind::scalar, given ? *given : root);
  text->text = name;
  if (!given) return load_framework(context, *text);
  Node* key = context.documents.make(Node::Kind::scalar, *given);
  key->text = "use";
  Node* changed = context.documents.make(Node::Kind::map, *given);
  changed->entries = given->entries;
  changed->entries.push_back({key, text});
  return load_framework(context, *changed);
}

// Settings of `training` override the framework profile.
void overrule(models::Framework& framework, const TrainingChoice& training, const Node* given) {
  if (training.overlap_gradients)
    framework.gradient_overlap =
        *training.overlap_gradients ? models::GradientOverlap::always : models::GradientOverlap::never;
  if (training.overlap_pipeline) framework.blocking_sends = !*training.overlap_pipeline;
  if (training.overlap_tensor) framework.async_tensor = *training.overlap_tensor;
  if (training.early_stop) framework.early_stop = *training.early_stop;
  const bool says = given && given->kind == Node::Kind::map && given->find("compiled");
  if (training.training.kernels == models::Kernels::unfused && !says) framework.compiled = false;
}

Precision gradient_precision(const models::Framework& framework, const TrainingChoice& training,
                             const Node* training_node) {
  const bool says = training_node && training_node->find("gradient_precision");
  const bool narrow = framework.bf16_gradients && !says;
  return narrow && models::unscaled(training.training.precision) == Precision::bf16
             ? Precision::bf16
             : training.training.gradient_precision;
}

void check_scaling(Context& context, const models::Training& training, const models::Framework& framework,
                   const cluster::Gpu& gpu, const Location& place) {
  using models::Fp8Scaling;
  const bool known = models::scales_tensors(framework.fp8_scaling) ||
                     (framework.fp8_scaling == Fp8Scaling::rowwise     ? gpu.fp8_rowwise_speedup
                      : framework.fp8_scaling == Fp8Scaling::blockwise ? gpu.fp8_blockwise_speedup
                                                                       : gpu.fp8_mx_speedup) > 0;
  if (training.precision == Precision::fp8 && !known)
    context.problems.error(
        place,
        fmt::format(
            "GPU '{}' has no fp8 rate for this 'framework.fp8_scaling'; choose another, or give the GPU its rate",
            gpu.name));
}

}  // namespace

FrameworkChoice choose_framework(Context& context, const Node* given, const Node& root, const TrainingChoice& training,
                                 const Node* training_node, const ParallelismChoice& parallelism,
                                 const std::optional<ClusterChoice>& cluster) {
  FrameworkChoice choice;
  // A mapping may override a few keys of the default framework; a mapping with a name of its own is complete.
  choice.named = given && (given->kind != Node::Kind::map || given->find("use") || given->find("name"));
  UsualFrameworks usual;
  if (choice.named) {
    choice.framework = load_framework(context, *given);
  } else if (cluster) {
    const bool flash = training.training.attention == models::AttentionKind::flash;
    const auto& of_gpu = cluster->flash_framework;
    usual = usual_frameworks(context, {flash ? "flash" : "unfused", parallelism.value.zero});
    if (flash && !of_gpu.empty()) {
      std::erase(usual.names, of_gpu);
      usual.names.insert(usual.names.begin(), of_gpu);
      usual.because = "its GPU's file names it";
    }
    if (usual.names.empty()) return choice;
    choice.framework = named_framework(context, usual.names.front(), given, root);
    context.assume(fmt::format("framework {}: not given; the default for {} attention on {} ({})", usual.names.front(),
                               flash ? "flash" : "unfused", cluster->spec.gpu.name, usual.because));
  }
  if (!choice.framework) return choice;
  const auto settle = [&](Context& where, models::Framework& framework) {
    overrule(framework, training, given);
    if (cluster)
      check_scaling(where, training.training, framework, cluster->spec.gpu, given ? given->where() : root.where());
    return gradient_precision(framework, training, training_node);
  };
  choice.gradient_precision = settle(context, *choice.framework);
  if (choice.framework->native_kernels) return choice;  // no other framework runs on such a machine
  for (std::size_t i = 1; i < usual.names.size(); ++i) {
    Context apart(context.files);  // errors in another framework are not errors of the file
    auto other = named_framework(apart, usual.names[i], given, root);
    if (!other) continue;
    const auto precision = settle(apart, *other);
    if (apart.problems.count() == 0) choice.others.push_back({std::move(*other), precision});
  }
  return choice;
}

}  // namespace rehearsal::scenario
