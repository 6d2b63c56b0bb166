#include "scenario/format.hpp"

#include <algorithm>
#include <iterator>

#include "cluster/fields.hpp"
#include "cluster/registry.hpp"
#include "models/fields.hpp"
#include "plan/fields.hpp"
#include "scenario/fields.hpp"
#include "scenario/load.hpp"
#include "scenario/support.hpp"

namespace rehearsal::scenario {
namespace {

using fields::Description;
using fields::Form;

void add(Key& to, const Description& description, const void* blank, bool cited = false) {
  for (const auto& group : description.groups) {
    Key& key = to.at(group.key);
    key.mapping = true, key.help = group.help, key.required = group.required;
    if (!group.short_for.empty()) key.forms.push_back(description.at(group.key + "." + group.short_for).form);
  }
  for (const auto& field : description.fields) {
    if (!field.key_of_files) continue;
    Key& key = to.at(field.key);
    key.forms.push_back(field.form);
    std::copy(field.others.begin(), field.others.end(), std::back_inserter(key.forms));
    key.help = field.help, key.required = field.required, key.null = field.null, key.cited = cited;
    key.said = field.otherwise_said;
    if (key.said.empty() && field.otherwise) key.usual = field.otherwise(blank);
  }
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

// The choices open to `rehearse plan`; all keys are optional.
void add_plan_keys(Key& plan) {
  plan.mapping = true, plan.help = "what `rehearse plan` searches; `run` takes no notice of it";
  Form automatic{Form::Kind::choice};
  automatic.names = {"auto"};
  const auto dimension = [&](const char* key, const Form& one, const char* help) {
    extra(plan, key, {automatic, one, fields::list_of(one)}, help).said = "auto";
  };
  Form boolean{Form::Kind::boolean}, recompute{Form::Kind::choice};
  recompute.names = {"none", "selective", "full"};
  const auto degree = fields::whole(1, 1e6);
  for (const char* key : {"tensor", "context", "pipeline", "data", "expert"})
    dimension(key, degree, "values of `parallelism`; auto: all that divide");
  dimension("chunks", degree, "stages per rank; auto: all that deal the layers evenly");
  dimension("micro", degree, "of `batch`; auto: all that divide the sequences of a replica");
  dimension("zero", fields::whole(0, 3), "of `parallelism`; auto: all that the framework supports");
  dimension("sequence", boolean, "of `parallelism`; auto: both, where the framework supports it");
  dimension("recompute", recompute, "of `training`; auto: all that the framework supports");
  dimension("schedules", fields::name_of("schedule"),
            "auto: all that the framework supports, that are a rule, flush and cut no sequences");
  extra(plan, "offload", {fields::list_of(fields::table("{optimizer, gradients, ...} as in training.offload"))},
        "mappings of `training.offload`")
      .said = "what `training` says";
  dimension("framework", fields::name_of("framework profile"),
            "profiles, or mappings as the key `framework` has them; auto: as that says");
  dimension("gpus", degree, "sizes of the cluster");
  dimension("nodes", degree, "likewise, in nodes");
  plan.at("gpus").said = plan.at("nodes").said = "what `cluster` says";
  Form objective{Form::Kind::choice};
  objective.names = {"time", "gpus", "cost"};
  extra(plan, "objective", {objective},
        "the shortest iteration, the fewest GPUs that suffice, or the cheapest training (`job`)")
      .said = "time";
  extra(plan, "deadline", {fields::duration()}, "of the training that `job` describes, such as 30d").said =
      "that of `job`";
  extra(plan, "budget", {fields::count()}, "for it, in the currency of `job`").said = "that of `job`";
  extra(plan, "margin", {fields::text()}, "of the memory of a GPU, left free: 5%").said = "0%";
}

Key made() {
  Key root;
  root.mapping = true;
  extra(root, "version", {fields::whole(0, 1e9)}, "1").required = true;
  extra(root, "name", {fields::text()}, "a title for reports").said = "the file's name";

  library(root, "model", "model", "what is trained");
  add<models::Transformer>(root.at("model"), models::model_fields());

  Key& cluster = library(root, "cluster", "cluster", "the machine");
  extra(cluster, "profile", {fields::text()},
        "what was measured of the machine or of its GPU: a file, or a name in `configs/profiles`")
      .said = "of `this-machine`: the user's own";
  library(cluster, "gpu", "GPU", "").required = true;
  const auto links = [&](const char* where, const char* help, const char* otherwise) {
    Key& key = library(cluster.at(where), "interconnect", "interconnect", help);
    key.said = otherwise;
    extra(key, "title", {fields::text()}, "in sentences");
    extra(key, "basis", {fields::text()}, "how good its constants are, for reports");
  };
  links("links.scale_up", "what the links are", "NVLink, or PCIe with `pcie-host`, with cautious constants");
  links("collectives.measured_on", "what the links were", "those of the cluster");
  Form link_kind{Form::Kind::choice};
  link_kind.names = {"nvlink", "xgmi", "pcie"};
  extra(cluster.at("links.scale_up"), "kind", {link_kind},
        "in the place of `interconnect`: links of that kind with cautious constants");
  extra(cluster, "groups", {fields::list_of(fields::table("{nodes, gpu}"))},
        "nodes with GPUs of another kind, in the order of the nodes");
  add<ClusterChoice>(cluster, cluster_choice_fields(), true);
  for (const char* where : {"links.scale_up.interconnect", "collectives.measured_on.interconnect"})
    constants_of_kind(cluster.at(where));
  extra(cluster.at("gpu"), "framework", {fields::name_of("framework profile")},
        "where a scenario with flash attention names none")
      .said = "by configs/default_frameworks.yaml";
  Key& curves = library(cluster, "collectives", "set of collective curves", "measured times of collectives by size");
  curves.said = "priced from the links", curves.null = true;
  extra(curves, "assumption", {fields::text()}, "a sentence for reports");
  for (const char* kind : {"all_reduce", "reduce_scatter", "all_gather"}) {
    Key& one = curves.at(std::string("fitted.") + kind);
    extra(one, "source", {fields::text()}, "");
    extra(one, "assumed", {fields::boolean()}, "").usual = false;
  }

  root.at("parallelism").help = "how the job is cut; GPUs = tensor x context x pipeline x data";
  add<plan::Parallelism>(root.at("parallelism"), plan::parallelism_fields());
  extra(
      root, "stages",
      {fields::list_of(fields::table("{parallelism: {tensor, sequence, context, data}, gpus, sharding}"))},
      "one for each stage, where they are not all cut alike: degrees in the place of those of `parallelism`, the GPUs "
      "that it stands on, and what of the activation at its borders each of them sends and is sent, such as S0RS1 of "
      "(sequences, tokens, hidden) over (data x context, tensor)");
  root.at("resharding").help = "between stages that are cut otherwise";
  add<plan::Resharding>(root.at("resharding"), plan::resharding_fields());
  Key& data_parallel = root.at("data_parallel");
  data_parallel.help = "how replicas come to the same parameters: all-reduce or a mapping";
  data_parallel.forms.push_back(Form{Form::Kind::choice});
  data_parallel.forms.back().names = {"all-reduce"};
  add<plan::DataParallel>(data_parallel, plan::data_parallel_fields());
  const auto& placement = scenario_fields().at("placement");
  extra(root, "placement", {placement.form}, placement.help.c_str()).usual = placement.otherwise(nullptr);
  extra(root, "jobs", {fields::list_of(fields::table("{scenario, nodes}"))},
        "several scenarios at once on the nodes of `cluster`, with nothing else beside the two");
  const auto& faults = scenario_fields().at("faults");
  extra(root, "faults", {fields::list_of(fields::table(faults.form.what))}, faults.help.c_str());
  add_plan_keys(root.at("plan"));
  Key& experts = root.at("experts");
  experts.help = "of models that have some: how tokens are routed, and where experts stand";
  add<models::ExpertSettings>(experts, models::expert_fields());
  auto& skew = experts.at("skew").forms;
  skew = {Form{Form::Kind::choice}, fields::list_of(fields::positive()), fields::table("{zipf: A} or {trace: FILE}")};
  skew.front().names = {"uniform"};
  root.at("batch").required = true, root.at("batch").help = "sequences per step";
  add<plan::Batch>(root.at("batch"), plan::batch_fields());
  root.at("batch.global").required = false, root.at("batch.global").said = "required without `costs`";
  extra(root, "batch.microbatches", {fields::whole(1, 1e9)}, "with `costs`, required there: micro-batches per step");

  extra(root, "schedule", {fields::name_of("schedule")}, "the order of the pipeline").said = "1f1b";
  add<ScheduleChoice>(root.at("schedule"), schedule_fields());
  extra(root, "schedule.file", {fields::text()},
        "an order in the CSV of torch.distributed.pipelining, instead of `name`");

  root.at("training").help = "precision, recomputation, overlaps";
  add<TrainingChoice>(root.at("training"), training_choice_fields());

  Key& framework = library(root, "framework", "framework profile", "how the framework of a day behaves");
  framework.said = "from `attention` and the GPU; named among the assumptions";
  extra(framework, "assumed", {fields::boolean()}, "the profile was not fitted").usual = false;
  add<models::Framework>(framework, models::framework_fields(), true);
  Key& supports = framework.at("supports");
  supports.help = "what it can be asked for, to which `rehearse plan` keeps; an empty list: anything";
  extra(supports, "source", {fields::text()}, "");
  add<Support>(supports, support_fields(), true);

  Form dealt{Form::Kind::choice};
  dealt.names = {"uniform", "balanced"};
  extra(root, "partition", {dealt, fields::list_of(fields::whole(0, 100'000))}, "which layers go to which stage")
      .usual = std::string("uniform");
  add<plan::Partition>(root.at("partition"), plan::partition_fields());

  root.at("simulate").help = "how finely to simulate";
  add<Simulate>(root.at("simulate"), simulate_fields());

  root.at("job").help = "the training that the step is one of: how long it lasts, what it costs, what stops it";
  add<job::Job>(root.at("job"), job::job_fields());

  add<AbstractCosts>(root, cost_fields());
  Key& limit = extra(root, "memory.limit", {fields::number(0, 1e18), fields::size()}, "per rank");
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

const Key& format() {
  static const Key root = made();
  return root;
}

std::vector<std::string> names_of(const Files& files, const std::string& what) {
  if (what == "schedule") return schedule::registry().names();
  if (what == "topology") return cluster::registry().names();
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
