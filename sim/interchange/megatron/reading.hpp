// One run's arguments while a scenario is made of them. Parts of read_megatron (arguments.hpp).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/megatron/arguments.hpp"

namespace rehearsal::interchange {

struct MegatronReading {
  MegatronReading(const MegatronArguments& from, ScenarioDraft& into)
      : arguments(from),
        draft(into),
        keys(into, from.values(), "", [&from](std::string_view name) { return from.spelled(name); }) {}

  const MegatronArguments& arguments;
  ScenarioDraft& draft;
  Keys keys;

  // What is there, or argparse's default.
  std::int64_t integer(std::string_view name, std::int64_t otherwise) {
    const auto said = keys.integer({name});
    return said ? said->value : otherwise;
  }
  bool is(std::string_view name, bool otherwise = false) {
    const auto said = keys.boolean({name});
    return said ? said->value : otherwise;
  }
  // A word, also of an enumeration as configurations write it: torch.bfloat16 and {_target_: torch.bfloat16} are
  // bfloat16.
  std::optional<Said<std::string>> word(std::string_view name);
  std::string word_or(std::string_view name, std::string otherwise) {
    auto said = word(name);
    return said ? said->value : otherwise;
  }
  // Texts of a list; what one text holds between blanks or commas is several.
  std::optional<Said<std::vector<std::string>>> words(std::string_view name);

  // "--tp-comm-overlap", or how else the file calls it.
  std::string spelled(std::string_view name) const { return arguments.spelled(name); }
  // Where it stands; where it does not, the beginning of the arguments.
  Location place(std::string_view name) const;
  // Named as without a word, where it is set to something that is not off and not harmless.
  void no_word(std::string_view name, const std::string& why, Keys::Names harmless = {});
  [[noreturn]] void contradict(std::string_view name, const std::string& message) const;

  // Found while the model is read, for what is read after it.
  std::int64_t layers = 0, modules = 0;  // of the network, and of multi-token prediction
  std::int64_t experts = 0;
  bool named = false;                       // the model is called by its name
  std::vector<std::int64_t> segments = {};  // layers of each stage, where a pattern has them
};

// What its layers are made of, while they are read.
struct MegatronSizes {
  const std::optional<Said<std::int64_t>>& layers;
  const std::optional<Said<std::string>>& pattern;  // of halves
  bool delta_rule = false;                          // some layers have it for attention
  std::int64_t hidden = 0;
  std::function<void()> dense_width;  // says how wide dense layers are beside those with experts
};

void read_megatron_model(MegatronReading& run);
void read_megatron_layers(MegatronReading& run, const MegatronSizes& network);
void read_megatron_layout(MegatronReading& run);
void read_megatron_training(MegatronReading& run);
void read_megatron_framework(MegatronReading& run);
void ignore_megatron_rest(MegatronReading& run);

// Equal layers side by side, and patterns that repeat, as the list `model.layers` has them.
Json runs_of_layers(const std::vector<Json>& layers);

// 1 or 0 for each layer of what Megatron-LM calls a frequency: a list, or "([0]*3+[1]*58)", which it hands to Python.
// Nothing for a number.
std::optional<std::vector<int>> layers_of_frequency(const Said<const scenario::Node*>& said);

}  // namespace rehearsal::interchange
