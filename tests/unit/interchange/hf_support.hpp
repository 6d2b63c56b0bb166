// A configuration of a model, imported and loaded.
#pragma once
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "interchange/import.hpp"
#include "models/transformer.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::hf_test {

inline interchange::Imported imported(const std::string& path, std::vector<std::string> sets = {}) {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);  // tests must not use this machine's profiles
  return interchange::import({.files = {path}, .sets = std::move(sets)}, scenario::disk());
}

inline interchange::Imported imported_text(const std::string& json) {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  return interchange::import({.files = {"config.json"}}, scenario::LaidOver({{"config.json", json}}));
}

inline models::Transformer model_of(const interchange::Imported& from, const std::vector<std::string>& sets = {}) {
  return scenario::load_text(from.yaml, "imported.yaml", sets).concrete->model;
}

// What has no word, as the file has it.
inline std::vector<std::string> dropped(const interchange::Imported& from) {
  std::vector<std::string> all;
  for (const auto& left : from.draft.unworded()) all.push_back(left.what);
  return all;
}

// The message of an import that is refused; "" if it is not.
inline std::string refusal(const std::string& json) {
  try {
    imported_text(json);
  } catch (const UserError& error) {
    std::string all;
    for (const auto& [where, message] : error.diagnostics())
      all += where.file + ":" + std::to_string(where.line) + ": " + message + "\n";
    return all;
  }
  return "";
}

}  // namespace rehearsal::hf_test
