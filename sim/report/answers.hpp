// All answers that are described (shown.hpp), by command.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/shown.hpp"

namespace rehearsal::report {

struct AnswerOf {
  template <class T>
  AnswerOf(std::string_view of, const Shown<T>& shown, bool list_of_them = false)
      : command(of), what(shown.what()), items(shown.items()), list(list_of_them) {}

  std::string_view command;
  std::string what;
  std::vector<Item> items;
  bool list;
};
const std::vector<AnswerOf>& answers();
// Of commands that read traces (trace_answer.cpp); in a page there are none.
std::vector<AnswerOf> trace_answers();

// JSON Schema (2020-12) of the JSON of these commands and of `more`: a definition for each.
std::string answers_schema(std::span<const AnswerOf> more = {});

}  // namespace rehearsal::report
