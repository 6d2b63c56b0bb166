// The shelf of formats: files of other tools that become a scenario, and that a scenario becomes. One file of all/
// each; to add one, write all/NAME.cpp with register_NAME (CONTRIBUTING.md).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.hpp"
#include "interchange/draft.hpp"
#include "interchange/source.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::interchange {

// What a format lacks words for, as a scenario is written in it.
using Lacks = std::vector<std::string>;

struct Format {
  std::string name;                             // "huggingface"; for --as
  std::string title;                            // "a Hugging Face config.json", for messages
  std::string summary;                          // what it says of a scenario
  bool (*recognises)(const Source&) = nullptr;  // by content alone; null: only written
  void (*read)(Sources&, const Source&, ScenarioDraft&) = nullptr;
  // A scenario of a model (`concrete`) in this format; appends what it has no word for. Throws UserError where without
  // that the tool would refuse what is written. Null: only read.
  std::string (*write)(const scenario::Scenario&, Lacks&) = nullptr;
  bool writes_graph = false;  // of the task graph of a scenario, which `rehearse export` makes (cli/export_chakra.hpp)
};

// For writers: appends every key that the user gave the scenario, beside its `plan`, and that is none of these. A name
// that ends in * stands for all that begin so.
void lack_others(const scenario::Scenario& scenario, const std::vector<std::string_view>& said, Lacks& lacks);

using Registry = PluginRegistry<Format>;
void register_all(Registry& registry);  // generated from the file names of all/
const Registry& registry();

}  // namespace rehearsal::interchange
