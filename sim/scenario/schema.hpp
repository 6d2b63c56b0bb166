// The file format as data: a JSON Schema (2020-12) for editors, and the table of all keys in scenarios/README.md. Both
// are drawn from the descriptions that the loaders read by (format.hpp). Rules between keys (what divides what) are not
// in it; `rehearse check` knows those.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenario/files.hpp"

namespace rehearsal::scenario {

// The schema of a scenario, indented by two. Names of models, clusters and the like are those that this house holds.
// Throws UserError when the house's own folder cannot be found.
std::string json_schema(const Files& files = disk());

struct FieldRow {
  std::string path;      // "batch.micro"
  std::string value;     // "a whole number from 1 to 1000000000"
  std::string fallback;  // "1", "required", or empty
  std::string help;
};
std::vector<FieldRow> keys();

// The row of a constant of a file of configs/: kind "gpus", key "links.scale_up.latency"; nothing where it is no key.
std::optional<FieldRow> key_of(const std::string& kind, const std::string& key);

// The rows as a table in Markdown, header included; one line ends each row.
std::string key_table();

}  // namespace rehearsal::scenario
