// The kinds of things that can be listed: plug-ins, files of configs/ and models/zoo, backends. Used by `list` and by
// completion.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output.hpp"
#include "report/answers.hpp"

namespace rehearsal::cli {

struct Item {
  std::string name, summary;
  std::string source{};             // of the numbers in a file
  std::optional<bool> available{};  // for backends
  // For models: all parameters, and those active per token.
  double parameters = 0, active = 0;
  std::int64_t layers = 0, hidden = 0;
  std::vector<std::pair<std::string, std::string>> facts{};  // of a plug-in
};

// A kind of item. To add one: a function that returns its items, and a line in the table.
struct Kind {
  std::string_view name;
  std::string_view summary;
  std::vector<Item> (*items)();
  // Prints one item: the numbers of a file, what follows from them, or the facts.
  std::string (*one)(const std::string& kind, const std::string& name, const CommonOptions& common);
};

std::span<const Kind> kinds();
report::Shown<Item> listed_item();
std::vector<report::AnswerOf> list_answers();

}  // namespace rehearsal::cli
