// Files of other tools in, one scenario out: an ordinary YAML file in which every key says where its value is from.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "interchange/draft.hpp"
#include "interchange/format.hpp"
#include "scenario/files.hpp"

namespace rehearsal::interchange {

struct Asked {
  std::vector<std::string> files = {};
  std::vector<std::string> arguments = {};  // of a trainer, behind --
  std::string as = {};                      // the format; empty: by content
  std::optional<std::int64_t> world = {};
  std::string cluster = {};
  std::vector<std::string> sets = {};  // KEY=VALUE
};

struct Imported {
  std::string yaml;  // of a machine alone: the scenario's `cluster`, and nothing else
  ScenarioDraft draft;
  bool part = false;                           // it is that
  std::optional<scenario::Scenario> scenario;  // there unless it is that
  std::vector<std::string> formats;            // that were read, by name
  std::vector<Diagnostic> warnings;            // of the scenario
};

// Throws UserError: a file that no format knows or that is wrong, files that contradict each other, what cannot be
// assumed, a scenario that would be refused (the message names where each refused value is from).
Imported import(const Asked& asked, const scenario::Files& files);

// The name under which an imported scenario can be read again, laid over other files (scenario::LaidOver).
inline constexpr const char* kImported = "imported.yaml";

// The formats that know a source by its content.
std::vector<const Format*> formats_of(const Source& source);

// The keys of a draft as YAML, each with its origin.
std::string to_yaml(const ScenarioDraft& draft, const std::string& heading);

}  // namespace rehearsal::interchange
