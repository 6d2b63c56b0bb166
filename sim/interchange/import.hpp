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

// Files, and one more that is a text: an imported scenario can be read again with it, under the name kImported.
inline constexpr const char* kImported = "imported.yaml";
class WithOne : public scenario::Files {
 public:
  WithOne(const scenario::Files& files, std::string name, std::string text)
      : files_(files), name_(std::move(name)), text_(std::move(text)) {}
  std::string read(const std::string& path, std::size_t limit) const override {
    return path == name_ ? text_ : files_.read(path, limit);
  }
  bool exists(const std::string& path) const override { return path == name_ || files_.exists(path); }
  std::vector<std::string> names_in(const std::string& folder) const override { return files_.names_in(folder); }
  std::string home() const override { return files_.home(); }
  std::string profiles() const override { return files_.profiles(); }

 private:
  const scenario::Files& files_;
  std::string name_, text_;
};

// The formats that know a source by its content.
std::vector<const Format*> formats_of(const Source& source);

// The keys of a draft as YAML, each with its origin.
std::string to_yaml(const ScenarioDraft& draft, const std::string& heading);

}  // namespace rehearsal::interchange
