// Files of tests/interchange and texts of tests, imported as a user does.
#pragma once
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "interchange/import.hpp"

namespace rehearsal::interchange::machines {

using Texts = scenario::LaidOver;

inline std::string sample(const std::string& name) { return std::string(TEST_DATA) + "/interchange/" + name; }

inline Imported imported(std::vector<std::string> files, const std::string& cluster = "",
                         std::vector<std::string> sets = {}, std::map<std::string, std::string> texts = {}) {
  return import({.files = std::move(files), .cluster = cluster, .sets = std::move(sets)}, Texts(std::move(texts)));
}

inline std::string value(const Imported& of, const std::string& key) {
  const Json* found = of.draft.find(key);
  return found ? found->dump() : "";
}

// Whether a dropped word has this text.
inline bool drops(const Imported& of, const std::string& text) {
  for (const auto& left : of.draft.unworded())
    if ((left.what + " (" + left.why + ")").find(text) != std::string::npos) return true;
  return false;
}

template <class Do>
std::string error_of(const Do& action) {
  try {
    action();
  } catch (const UserError& e) {
    std::string all;
    for (const auto& d : e.diagnostics()) all += to_text(d.where) + ": " + d.message + "\n";
    return all;
  }
  return "";
}
#define CHECK_SAYS(text, part) CHECK_MESSAGE((text).find(part) != std::string::npos, (text))

}  // namespace rehearsal::interchange::machines
