// The shelf of formats: files of other tools that become a scenario, and that a scenario becomes. One file of all/
// each; to add one, write all/NAME.cpp with register_NAME (CONTRIBUTING.md).
#pragma once
#include <functional>
#include <optional>
#include <string>
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
  void (*read)(Sources&, const Source&, Draft&) = nullptr;
  // The scenario in this format; appends what it has no word for. Null: only read.
  std::string (*write)(const scenario::Scenario&, Lacks&) = nullptr;
};

using Registry = PluginRegistry<Format>;
void register_all(Registry& registry);  // generated from the file names of all/
const Registry& registry();

}  // namespace rehearsal::interchange
