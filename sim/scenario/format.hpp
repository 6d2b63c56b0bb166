// The file format as a tree of keys: the field descriptions of all structs (scenario/fields.hpp) under their keys in a
// file, plus the few keys that exist only in files. The schema and the table of keys are generated from it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/fields.hpp"
#include "scenario/files.hpp"

namespace rehearsal::scenario {

struct Key {
  std::string name, path;           // "micro", "batch.micro"; both empty for the whole file
  std::vector<fields::Form> forms;  // of its value, other than a mapping
  std::string help;
  fields::Value usual;  // the default as a value,
  std::string said;     // or described in words
  bool required = false, null = false;
  bool cited = false;                     // may be written as {value, source, assumed, fitted}
  bool mapping = false, library = false;  // has keys below; may name a file instead, or override keys of one (`use`)
  std::vector<Key> below;

  // The key at a dotted path below this one; missing keys along the path are created.
  Key& at(std::string_view path);
  const Key* find(std::string_view name) const;
};

// The whole file; an entry of a list that is a mapping.
const Key& format();
Key key_of_entry(const fields::Form& entry);

// Kinds of links that have cautious constants, configs/interconnects/assumed-KIND.yaml.
fields::Form assumed_kinds();

// The valid names for `what`, such as "schedule" or "GPU".
std::vector<std::string> names_of(const Files& files, const std::string& what);

}  // namespace rehearsal::scenario
