// Execution traces of Chakra and the groups of ranks beside them. They are of what one rank ran, kernel by kernel and
// collective by collective: no model, no layout and no batch follows from that, but perhaps how many GPUs there were.
#include "interchange/chakra.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "interchange/format.hpp"
#include "interchange/keys.hpp"

namespace rehearsal::interchange {
namespace {

constexpr const char* kCure =
    "nothing here says what was trained: give it beside, config.json and the trainer's arguments, and what these files "
    "hold is listed with the scenario. The other way round, `rehearse export SCENARIO --as chakra` writes such traces "
    "of a prediction; `rehearse collective KIND --ranks N --size SIZE` predicts one collective";

// {"0": [0, 1], "1": [2, 3]}: the form of ASTRA-sim, and of chakra's pg_extractor.
bool is_groups(const Source& source) {
  if (source.kind != Source::Kind::json || source.tree->kind != scenario::Node::Kind::map) return false;
  for (const auto& [key, ranks] : source.tree->entries) {
    if (!integer_of(key->text) || ranks->kind != scenario::Node::Kind::sequence || ranks->items.empty()) return false;
    for (const auto* rank : ranks->items)
      if (rank->kind != scenario::Node::Kind::scalar || !integer_of(rank->text)) return false;
  }
  return !source.tree->entries.empty();
}

bool recognises(const Source& source) {
  if (source.tree) return is_groups(source);
  return source.kind != Source::Kind::arguments && chakra::is_trace(source.text);
}

void read_groups(const Source& source, ScenarioDraft& draft) {
  std::int64_t last = 0;
  std::map<std::size_t, int> by_size;
  for (const auto& [key, ranks] : source.tree->entries) {
    ++by_size[ranks->items.size()];
    for (const auto* rank : ranks->items) {
      const auto value = integer_of(rank->text).value_or(-1);
      if (value < 0 || value > 1'000'000) wrong(*rank, "a rank is a number from 0 on; found " + rank->text);
      last = std::max(last, value);
    }
  }
  std::vector<std::string> sizes;
  for (const auto& [size, count] : by_size) sizes.push_back(fmt::format("{} of {}", count, size));
  const auto holds = fmt::format("groups of ranks: {}", fmt::join(sizes, ", "));
  draft.derive(Fact::world, last + 1, fmt::format("{}: ranks up to {}", source.name, last));
  draft.no_word({source.name, 0, 0}, holds, "the groups of a scenario follow from its layout");
  draft.says_no_key({source.name, 0, 0}, holds, kCure);
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  if (source.tree) {
    if (!is_groups(source)) wrong(*source.tree, "groups are {\"NAME\": [ranks]}, with a number for a name");
    return read_groups(source, draft);
  }
  const auto trace = chakra::read_trace(source.text, source.name);
  const Location where{source.name, 0, 0};
  const auto is =
      fmt::format("an execution trace of one rank, Chakra{}{}", trace.version.empty() ? "" : " ", trace.version);
  const auto phrases = chakra::phrases(trace);
  for (const auto& phrase : phrases) draft.no_word(where, phrase, is);
  draft.says_no_key(where, fmt::format("{}: {}", is, fmt::join(phrases, "; ")), kCure);
  if (trace.gpus > 0)
    draft.say(Fact::world, trace.gpus, *sources.make(scenario::Node::Kind::scalar, source.name, 0),
              fmt::format("ngpus {}", trace.gpus));
}

}  // namespace

void register_chakra(Registry& registry) {
  registry.add({.name = "chakra",
                .title = "an execution trace of Chakra",
                .summary = "execution traces of MLCommons, one for each rank, which ASTRA-sim runs; read: what they "
                           "hold, and how many GPUs",
                .recognises = recognises,
                .read = read,
                .writes_graph = true});
}

}  // namespace rehearsal::interchange
