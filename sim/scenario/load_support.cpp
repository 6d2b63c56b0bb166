#include "scenario/load.hpp"
#include "scenario/support.hpp"

namespace rehearsal::scenario {

using namespace fields;

const Description& support_fields() {
  using models::Recompute;
  using S = Support;
  static const Description all = describe<S>(
      {}, field<&S::tensor>("tensor", boolean(), kDefault, "tensor parallelism"),
      field<&S::sequence>("sequence", boolean(), kDefault, "sequence parallelism inside the tensor group"),
      field<&S::context>("context", boolean(), kDefault, "context parallelism"),
      field<&S::pipeline>("pipeline", boolean(), kDefault, "pipeline parallelism"),
      field<&S::zero>("zero", list_of(whole(0, 3)), kDefault, "ZeRO stages, or their equivalents by another name"),
      field<&S::zero_in_pipeline>("zero_in_pipeline", list_of(whole(0, 3)),
                                  {[](const S& s) { return s.zero; }, "`zero`"},
                                  "ZeRO stages that work with pipeline parallelism"),
      field<&S::schedules>("schedules", list_of(name_of("schedule")), kDefault, "pipeline schedules"),
      some<&S::recompute>("recompute",
                          {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}},
                          "modes of `training.recompute`"),
      some<&S::context_kinds>("context_kinds",
                              {{"ring", models::ContextKind::ring},
                               {"all-gather", models::ContextKind::all_gather},
                               {"all-to-all", models::ContextKind::all_to_all}},
                              "kinds of context parallelism, as in `training.context`"),
      some<&S::offload>("offload",
                        {{"optimizer", S::State::optimizer},
                         {"gradients", S::State::gradients},
                         {"parameters", S::State::parameters},
                         {"activations", S::State::activations}},
                        "what can be offloaded, as in `training.offload`"),
      some<&S::offload_alone>("offload_alone",
                              {{"optimizer", S::State::optimizer},
                               {"gradients", S::State::gradients},
                               {"parameters", S::State::parameters},
                               {"activations", S::State::activations}},
                              "of these, what can be offloaded only without a pipeline and without recomputation"));
  return all;
}

Support load_support(Context& context, const Node* given, const std::string& name) {
  const Node* node = nullptr;
  const auto names = name.empty() ? std::vector<std::string>() : names_in(context, "configs/frameworks");
  if (std::find(names.begin(), names.end(), name) != names.end())
    if (const Node* profile = context.documents.read_file(context.home + "/configs/frameworks/" + name + ".yaml"))
      node = profile->find("supports");
  if (given && given->kind == Node::Kind::map)
    if (const Node* own = given->find("supports")) node = node ? context.documents.overlay(node, own) : own;
  Support support;
  if (!node) return support;
  Citations sources;
  MapReader map(context.problems, *node, "supports");
  map.cite(sources, "supports.");
  map.find("source");
  map.fill(support_fields(), &support);
  map.finish();
  return support;
}

}  // namespace rehearsal::scenario
