// The file format as a tree of keys: what the descriptions of all structs say (scenario/fields.hpp), under the keys
// that hold them in a file, and the few keys that belong to files alone. What the schema and the table of keys are made
// of.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/fields.hpp"
#include "scenario/files.hpp"

namespace rehearsal::scenario {

struct Key {
  std::string name, path;           // "micro", "batch.micro"; of the whole file both are empty
  std::vector<fields::Form> forms;  // that its value may take besides a mapping
  std::string help;
  fields::Value usual;  // the default, where it is one value,
  std::string said;     // or in words
  bool required = false, null = false;
  bool cited = false;                     // may be written {value, source, assumed}
  bool mapping = false, library = false;  // holds keys; may name a file instead, or lie on one (`use`)
  std::vector<Key> below;

  // The key at a dotted path below this one; it and the mappings on the way are made where they are missing.
  Key& at(std::string_view path);
  const Key* find(std::string_view name) const;
};

// The whole file.
const Key& format();

// What a name may be: `what` of its form, such as "schedule" or "GPU".
std::vector<std::string> names_of(const Files& files, const std::string& what);

}  // namespace rehearsal::scenario
