// The file format as data: a JSON Schema (2020-12) for editors, and the table of all keys in scenarios/README.md. Both
// are what the loaders asked for while they read the examples of schema.cpp (recorder.hpp), so that no second list of
// keys can disagree with them. Rules between keys (what divides what) are not in it; `rehearse check` knows those.
#pragma once
#include <string>
#include <vector>

namespace rehearsal::scenario {

// The schema of a scenario, indented by two. Names of models, clusters and the like are those that this house holds.
// Throws UserError when the house's own folder cannot be found.
std::string json_schema();

struct FieldRow {
  std::string path;      // "batch.micro"
  std::string value;     // "a whole number from 1 to 1000000000"
  std::string fallback;  // "1", "required", or empty
};
std::vector<FieldRow> fields();

// The rows as a table in Markdown, header included; one line ends each row.
std::string field_table();

}  // namespace rehearsal::scenario
