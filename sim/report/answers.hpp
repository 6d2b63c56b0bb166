// All answers that are described (shown.hpp), by command.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/shown.hpp"

namespace rehearsal::report {

struct AnswerOf {
  std::string_view command;
  std::string what;
  const std::vector<Item>* items = nullptr;
};
const std::vector<AnswerOf>& answers();

// JSON Schema (2020-12) of the JSON of these commands: a definition for each.
std::string answers_schema();

}  // namespace rehearsal::report
