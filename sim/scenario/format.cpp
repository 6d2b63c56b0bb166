#include "scenario/format.hpp"

#include <algorithm>
#include <iterator>

#include "cluster/fields.hpp"
#include "cluster/registry.hpp"
#include "models/fields.hpp"
#include "plan/fields.hpp"
#include "reshard/registry.hpp"
#include "scenario/fields.hpp"
#include "scenario/load.hpp"
#include "scenario/plan_file.hpp"
#include "scenario/support.hpp"

namespace rehearsal::scenario {
namespace {

using fields::Description;
using fields::Form;

Form word(std::string one) {
  Form form{Form::Kind::choice};
  form.names = {std::move(one)};
  return form;
}

void add(Key& to, const Description& description, const void* blank, bool cited = false, std::string_view below = "") {
  for (const auto& group : description.groups) {
    if (!group.key.starts_with(below)) continue;
    Key& key = to.at(group.key);
    key.mapping = true, key.help = group.help, key.required = group.required;
    if (!group.short_for.empty()) key.forms.push_back(description.at(group.key + "." + group.short_for).form);
  }
  for (const auto& field : description.fields) {
    if (!field.key_of_files || !field.key.starts_with(below)) continue;
    Key& key = to.at(field.key);
    if (field.form.or_one) key.forms.push_back(field.form), key.forms.back().list = false;
    key.forms.push_back(field.form);
    if (!field.word.empty()) key.forms.push_back(word(field.word));
    std::copy(field.others.begin(), field.others.end(), std::back_inserter(key.forms));
    key.help = field.help, key.required = field.required, key.null = field.null, key.cited = cited;
    key.said = field.otherwise_said;
    if (key.said.empty() && field.otherwise) key.usual = field.otherwise(blank);
  }
}
// A part of a scenario that is described where it is.
void section(Key& root, const char* key) {
  static const Scenario blank = [] {
    Scenario all;
    all.concrete.emplace(), all.job.emplace().failures.emplace();
    return all;
  }();
  add(root, scenario_fields(), &blank, false, key);
}
template <class S>
void add(Key& to, const Description& description, bool cited = false) {
  const S blank{};
  add(to, description, &blank, cited);
}

Key& extra(Key& to, const char* path, std::vector<Form> forms, const char* help) {
  Key& key = to.at(path);
  key.forms = std::move(forms), key.help = help;
  return key;
}

// A part that is a name, an inline mapping, or a named file with some keys replaced.
Key& library(Key& to, const char* path, const char* what, const char* help) {
  Key& key = extra(to, path, {fields::name_of(what)}, help);
  key.mapping = key.library = true;
  extra(key, "use", {fields::name_of(what)}, "the one whose keys are replaced");
  for (const char* about : {"name", "summary", "source"}) extra(key, about, {fields::text()}, "");
  return key;
}

// Constants missing from an inline interconnect default to those of its kind.
void constants_of_kind(Key& links) {
  for (Key& key : links.below)
    if (key.required && key.name != "kind") key.required = false, key.said = "of its `kind`";
}

Key made() {
  Key root;
  root.mapping = true;
  extra(root, "version", {fields::whole(0, 1e9)}, "1").required = true;
  extra(root, "name", {fields::text()}, "a title for reports").said = "the file's name";

  library(root, "model", "model", "what is trained");
  add<models::Transformer>(root.at("model"), models::model_fields());
  extra(root, "model.pattern", {fields::text()},
        "half-layers, one letter each, as Megatron writes hybrid models: M Mamba-2, G gated delta rule, * attention, - "
        "feed-forward, E experts");
  extra(root, "model.sliding_window", {fields::whole(1, 1e9)},
        "window of the layers that have one; if none has one, of all attention");

  Key& cluster = library(root, "cluster", "cluster", "the machine");
  extra(cluster, "profile", {fields::text()},
        "measurements of the machine or of its GPU: a file, or a name in `configs/profiles`")
      .said = "of `this-machine`: the user's own";
  library(cluster, "gpu", "GPU", "").required = true;
  const auto links = [&](const char* where, const char* help, const char* otherwise) {
    Key& key = library(cluster.at(where), "interconnect", "interconnect", help);
    key.said = otherwise;
    extra(key, "title", {fields::text()}, "name used in sentences");
    extra(key, "basis", {fields::text()}, "how good its constants are, for reports");
  };
  links("links.scale_up", "type of the links", "NVLink, or PCIe with `pcie-host`, with cautious constants");
  links("collectives.measured_on", "what the links were", "those of the cluster");
  for (const char* where : {"links.scale_up", "collectives.measured_on"})
    extra(cluster.at(where), "kind", {assumed_kinds()},
          "instead of `interconnect`: links of this type with cautious constants");
  extra(cluster, "groups", {fields::list_of(fields::table("{nodes, gpu}"))},
        "groups of nodes with different GPUs, in node order");
  add<ClusterChoice>(cluster, cluster_choice_fields(), true);
  for (const char* where : {"links.scale_up.interconnect", "collectives.measured_on.interconnect"})
    constants_of_kind(cluster.at(where));
  extra(cluster.at("gpu"), "framework", {fields::name_of("framework profile")},
        "framework of a scenario with flash attention that names none")
      .said = "by configs/default_frameworks.yaml";
  extra(
      cluster.at("gpu"), "like", {fields::name_of("GPU")},
      "a similar GPU, which supplies all values but peak, sms, memory and memory_bandwidth; they are marked as assumed")
      .said = "the nearest by data sheet";
  Key& curves = library(cluster, "collectives", "set of collective curves", "measured times of collectives by size");
  curves.said = "priced from the links", curves.null = true;
  extra(curves, "assumption", {fields::text()}, "a sentence for reports");
  for (const char* kind : {"all_reduce", "reduce_scatter", "all_gather"}) {
    Key& one = curves.at(std::string("fitted.") + kind);
    extra(one, "source", {fields::text()}, "");
    extra(one, "assumed", {fields::boolean()}, "").usual = false;
  }

  section(root, "parallelism");
  extra(root, "stages", {plan::stage_list()},
        "one entry per stage, if stages are not all split alike: degrees that replace those of `parallelism`, its "
        "GPUs, and how its boundary activations are sharded, such as S0RS1 of (sequences, tokens, hidden) over (data x "
        "context, tensor)");
  for (const char* key : {"resharding", "data_parallel", "placement"}) section(root, key);
  extra(root, "jobs", {fields::list_of(fields::table("{scenario, nodes}"))},
        "several scenarios that share the nodes of `cluster`; no other section may stand beside these two");
  section(root, "faults");
  Key& plan = root.at("plan");
  plan.mapping = true, plan.help = "what `rehearse plan` searches; `run` ignores it";
  add<PlanSpace>(plan, plan_fields());
  extra(plan, "offload", {fields::list_of(fields::table("{optimizer, gradients, ...} as in training.offload"))},
        "values of `training.offload` to try")
      .said = "what `training` says";
  const auto profile = fields::name_of("framework profile");
  extra(plan, "framework", {word("auto"), profile, fields::list_of(profile)},
        "frameworks to try, as names or mappings; auto: that of the scenario")
      .said = "auto";
  extra(plan, "clusters", {fields::list_of(fields::table("{use, nodes, gpu_hour, framework, ...}"))},
        "machines to choose from, in place of `cluster`: its keys, with `nodes` or `gpus` as a number, a list or auto; "
        "each may have its own `gpu_hour`, `currency` and `framework` (one or a list)")
      .said = "the file's `cluster`";
  section(root, "experts");
  root.at("experts.skew").forms = {word("uniform"), word("natural"), fields::list_of(fields::positive()),
                                   fields::table("{zipf: A} or {trace: FILE}")};
  section(root, "batch");
  root.at("batch.lengths").forms = {
      fields::table("{fixed: N}, {list: [N, ...]}, {file: NAME} or {lognormal: [MU, SIGMA]}")};
  root.at("batch.global").required = false, root.at("batch.global").said = "required without `costs`";
  extra(root, "batch.microbatches", {fields::whole(1, 1e9)},
        "with `costs` only, and required there: micro-batches per step");

  extra(root, "schedule", {fields::name_of("schedule")}, "the pipeline schedule: in which order stages do their passes")
      .said = "1f1b";
  add<ScheduleChoice>(root.at("schedule"), schedule_fields());
  extra(root, "schedule.file", {fields::text()}, "a CSV schedule of torch.distributed.pipelining, instead of `name`");

  root.at("training").help = "precision, recomputation, overlap";
  add<TrainingChoice>(root.at("training"), training_choice_fields());

  Key& framework = library(root, "framework", "framework profile",
                           "the training framework and its release: what it fuses, keeps and overlaps");
  framework.said = "from `attention` and the GPU; named among the assumptions";
  extra(framework, "assumed", {fields::boolean()}, "true: the profile was not fitted").usual = false;
  add<models::Framework>(framework, models::framework_fields(), true);
  Key& supports = framework.at("supports");
  supports.help = "what the framework supports, which limits `rehearse plan`; an empty list: anything";
  extra(supports, "source", {fields::text()}, "");
  add<Support>(supports, support_fields(), true);

  extra(root, "partition", {word("uniform"), word("balanced"), fields::list_of(fields::whole(0, 100'000))},
        "which layers go to which stage")
      .usual = std::string("uniform");
  for (const char* key : {"partition", "simulate", "job"}) section(root, key);
  root.at("job.phases").forms = {
      fields::list_of(fields::table("{tokens, steps, samples or share, and sections that differ}"))};

  add<AbstractCosts>(root, cost_fields());
  Key& limit = extra(root, "memory.limit", {fields::number(0, 1e18), fields::size()}, "memory limit per rank");
  limit.null = true;
  return root;
}

}  // namespace

Key& Key::at(std::string_view sought) {
  if (sought.empty()) return *this;
  const auto first = sought.substr(0, sought.find('.'));
  mapping = true;
  auto found = std::find_if(below.begin(), below.end(), [&](const Key& k) { return k.name == first; });
  if (found == below.end()) {
    Key key;
    key.name = first, key.path = path.empty() ? key.name : path + "." + key.name;
    found = below.insert(below.end(), std::move(key));
  }
  return first.size() == sought.size() ? *found : found->at(sought.substr(first.size() + 1));
}

const Key* Key::find(std::string_view sought) const {
  const auto found = std::find_if(below.begin(), below.end(), [&](const Key& k) { return k.name == sought; });
  return found == below.end() ? nullptr : &*found;
}

Form assumed_kinds() {
  Form form = cluster::interconnect_fields().at("kind").form;
  std::erase(form.names, "memory");
  return form;
}

Key key_of_entry(const Form& entry) {
  Key key;
  add(key, *entry.of, entry.blank);
  return key;
}

const Key& format() {
  static const Key root = made();
  return root;
}

std::vector<std::string> names_of(const Files& files, const std::string& what) {
  if (what == "schedule") return schedule::registry().names();
  if (what == "topology") return cluster::registry().names();
  if (what == "planner") return reshard::registry().names();
  const std::pair<const char*, const char*> folders[] = {{"model", "models/zoo"},
                                                         {"cluster", "configs/clusters"},
                                                         {"GPU", "configs/gpus"},
                                                         {"framework profile", "configs/frameworks"},
                                                         {"interconnect", "configs/interconnects"},
                                                         {"collective library", "configs/libraries"},
                                                         {"set of collective curves", "configs/collectives"}};
  for (const auto& [kind, folder] : folders)
    if (what == kind) return files.names_in(files.home() + "/" + folder);
  return {};
}

}  // namespace rehearsal::scenario
