// Adds the location in the scenario file to an error thrown by code that knows no files.
#pragma once
#include <utility>

#include "base/error.hpp"

namespace rehearsal::answer {

template <class Act>
auto placed(const Location& place, Act&& act) {
  try {
    return act();
  } catch (const UserError& error) {
    auto diagnostics = error.diagnostics();
    for (auto& d : diagnostics)
      if (d.where.file.empty()) d.where = place;
    throw UserError(std::move(diagnostics));
  }
}

}  // namespace rehearsal::answer
