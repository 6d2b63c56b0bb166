// What tests of trainers' files share: files of tests/interchange beside texts of their own, imported as a user would.
#pragma once
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "interchange/import.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::interchange::trainers {

inline std::string sample(const std::string& path) { return TEST_DATA "/interchange/" + path; }

// This disk, and texts by name.
inline scenario::LaidOver beside(const std::map<std::string, std::string>& texts = {}) {
  return scenario::LaidOver(texts);
}

// A value of the draft as text; "" where it is not there.
inline std::string value(const Imported& imported, std::string_view key) {
  const Json* found = imported.draft.find(key);
  return !found ? "" : found->is_string() ? found->text() : found->dump();
}

// Where it is from: "config.json:3 layers".
inline std::string origin(const Imported& imported, std::string_view key) {
  const auto* found = imported.draft.origin(key);
  return found ? to_text(*found) : "";
}

inline Imported imported_text(const std::string& name, const std::string& text, Asked asked = {}) {
  asked.files.insert(asked.files.begin(), name);
  return import(asked, beside(std::map<std::string, std::string>{{name, text}}));
}

// All messages of what is refused, a line each, with their places.
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const UserError& e) {
    std::string all;
    for (const auto& [where, message] : e.diagnostics()) all += to_text(where) + ": " + message + "\n";
    return all;
  }
  return "not refused";
}

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

inline bool names(const std::vector<Left>& all, const std::string& what) {
  for (const auto& left : all)
    if (holds(left.what, what)) return true;
  return false;
}

inline scenario::Scenario scenario_of(const Imported& imported) {
  return scenario::load_text(imported.yaml, "imported.yaml", {}, beside());
}

}  // namespace rehearsal::interchange::trainers
