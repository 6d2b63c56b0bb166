// An environment for a test.
#pragma once
#include <map>
#include <string>

#include "base/error.hpp"
#include "launch/rank_environment.hpp"

namespace rehearsal {

inline launch::Variables variables(std::map<std::string, std::string> all) {
  return [all = std::move(all)](const char* name) -> std::optional<std::string> {
    const auto at = all.find(name);
    return at == all.end() ? std::nullopt : std::optional(at->second);
  };
}

template <class Call>
std::string user_error(Call&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace rehearsal
