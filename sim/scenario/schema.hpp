// The file format as data: a JSON Schema (2020-12) for editors, and the table of all keys in docs/reference.md. Both
// are generated from the descriptions that the loaders read by (format.hpp). Rules between keys (such as divisibility)
// are not included; `rehearse check` applies those.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenario/files.hpp"

namespace rehearsal::scenario {

// The schema of a scenario, indented by two. Names of models, clusters and so on are those in the program's data
// folder. Throws UserError when that folder cannot be found.
std::string json_schema(const Files& files = disk());

struct FieldRow {
  std::string path;      // "batch.micro"
  std::string value;     // "a whole number from 1 to 1000000000"
  std::string fallback;  // "1", "required", or empty
  std::string help;
};
std::vector<FieldRow> keys();

// The row of a constant in a file of configs/: kind "gpus", key "links.scale_up.latency"; nothing if it is no key.
std::optional<FieldRow> key_of(const std::string& kind, const std::string& key);

// The rows as a Markdown table with header; every row ends in a newline.
std::string key_table();

}  // namespace rehearsal::scenario
