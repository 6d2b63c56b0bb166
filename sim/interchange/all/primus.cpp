// An experiment of AMD's Primus with Megatron: a module, the model that it names, and what is set over both. The files
// behind these names are looked for in the checkout that the experiment lies in.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/megatron/arguments.hpp"
#include "interchange/names.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;

const Node* trainer_of(const Source& source) {
  for (const char* name : {"pre_trainer", "post_trainer", "sft_trainer"})
    if (const Node* module = source.find(std::string("modules.") + name)) return module;
  return nullptr;
}

bool recognises(const Source& source) {
  const Node* trainer = trainer_of(source);
  return trainer && trainer->kind == Node::Kind::map && trainer->find("framework") &&
         trainer->find("framework")->text == "megatron";
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash + 1);
}

class Experiment {
 public:
  Experiment(Sources& sources, const Source& source, ScenarioDraft& draft)
      : sources_(sources), source_(source), draft_(draft), arguments_(sources, source.name) {}

  void read() {
    const Node* found = trainer_of(source_);
    if (!found || found->kind != Node::Kind::map)
      throw UserError({{{source_.name, 0, 0}, "has no modules.pre_trainer, which an experiment of Primus has"}});
    const Node& trainer = *found;
    if (const Node* config = trainer.find("config"); config && !named("modules", config->text)) {
      draft_.no_word(config->where(), "config " + config->text,
                     "its defaults are not here: give the experiment where it lies in its checkout of Primus");
      arguments_.add("bf16", arguments_.value("true", config->line), "config " + config->text);  // trainer_base.yaml
    }
    const bool model = read_model(trainer.find("model"));
    if (const Node* overrides = trainer.find("overrides"); overrides && overrides->kind == Node::Kind::map)
      add(*overrides);
    machine();
    if (!model_.empty() && !model) {
      draft_.say("model.use", model_, *trainer.find("model"), "model");
      draft_.assume("framework.dropout", false, "llama_base.yaml of Primus, which its models extend");
    }
    read_megatron(arguments_, draft_);
  }

 private:
  // "${PRIMUS_TP:1}" is 1 unless the environment says otherwise.
  const Node& resolved(const Node& value) {
    if (value.kind != Node::Kind::scalar || !value.text.starts_with("${") || !value.text.ends_with('}')) return value;
    const auto colon = value.text.find(':');
    if (colon == std::string::npos) return value;
    return *sources_.scalar(value.text.substr(colon + 1, value.text.size() - colon - 2), false, *value.origin,
                            value.line, value.column);
  }
  void add(const Node& map) {
    for (const auto& [key, value] : map.entries)
      if (key->text != "extends" && key->text != "includes" && key->text != "bases")
        arguments_.add(key->text, resolved(*value), key->text);
  }

  // A file of primus/configs and those that it extends, the latter first. Whether there is one.
  bool named(const std::string& folder, const std::string& name) {
    auto above = folder_of(source_.name);
    for (int depth = 0; depth < 12; ++depth) {
      const auto path = fmt::format("{}primus/configs/{}/megatron/{}", above, folder, name);
      if (sources_.files().exists(path)) return extend(path, 0);
      above += "../";
    }
    return false;
  }
  bool extend(const std::string& path, int depth) {
    if (depth > 8 || !seen_.insert(path).second) return false;
    const Source& file = sources_.read(path);
    if (!file.tree || file.tree->kind != Node::Kind::map) return false;
    for (const char* word : {"extends", "includes", "bases"})
      if (const Node* list = file.tree->find(word); list && list->kind == Node::Kind::sequence)
        for (const Node* item : list->items) {
          const auto base = folder_of(path) + item->text;
          if (sources_.files().exists(base)) extend(base, depth + 1);
        }
    arguments_.listed = Keys::Listed::everything;
    add(*file.tree);
    return true;
  }

  // Whether its file was read; else the name of ours that it is.
  bool read_model(const Node* model) {
    if (!model) return false;
    auto name = resolved(*model).text;
    // "${PRIMUS_MODEL:deepseek_v3}.yaml".
    if (const auto begin = name.find("${"); begin != name.npos)
      if (const auto end = name.find('}', begin), colon = name.find(':', begin); colon < end && end != name.npos)
        name = name.substr(0, begin) + name.substr(colon + 1, end - colon - 1) + name.substr(end + 1);
    if (named("models", name)) return true;
    const auto ours = model_named(name.ends_with(".yaml") ? name.substr(0, name.size() - 5) : name, sources_.files());
    if (!ours)
      wrong(*model, fmt::format("the model is in '{}', which is not here: give the experiment where it lies in its "
                                "checkout of Primus, or --set model=NAME (rehearse list models)",
                                name));
    model_ = *ours;
    return false;
  }

  // examples/megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml.
  void machine() {
    if (const auto cluster = cluster_with(source_.name, sources_.files()))
      draft_.assume("cluster.use", *cluster, "the name of its folder");
    else
      draft_.assume("cluster.use", "mi300x", "no file says the machine, and Primus is for GPUs of AMD");
  }

  Sources& sources_;
  const Source& source_;
  ScenarioDraft& draft_;
  MegatronArguments arguments_;
  std::set<std::string> seen_;
  std::string model_;
};

void read(Sources& sources, const Source& source, ScenarioDraft& draft) { Experiment(sources, source, draft).read(); }

}  // namespace

void register_primus(Registry& registry) {
  registry.add({.name = "primus",
                .title = "an experiment of Primus",
                .summary = "a YAML of AMD's Primus with Megatron: layout and training, and the model by its name",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
