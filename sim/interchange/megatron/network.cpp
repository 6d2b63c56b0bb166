// Layers of several kinds, from Megatron-LM's frequencies and from its patterns of halves.
#include <fmt/format.h>

#include <algorithm>

#include "interchange/megatron/reading.hpp"

namespace rehearsal::interchange {

using scenario::Node;

namespace {

class MegatronNetwork {
 public:
  MegatronNetwork(MegatronReading& run, const MegatronSizes& network)
      : run_(run), keys_(run.keys), draft_(run.draft), network_(network) {}

  void read() { network_.pattern ? pattern() : layer_by_layer(*network_.layers); }

 private:
  // What frequencies say of each layer; where all are alike, their number.
  void layer_by_layer(const Said<std::int64_t>& layers) {
    const auto count = std::size_t(layers.value);
    const auto frequency = [&](const char* name) {
      const auto said = keys_.node({name});
      std::optional<std::vector<int>> list;
      if (said) list = layers_of_frequency(*said);
      if (list && list->size() != count)
        run_.contradict(name, fmt::format("'{}' is for {} layers, and '{}' ({}) says {}; one of the two is wrong",
                                          said->word, list->size(), layers.word, to_text(layers.at->where()), count));
      return list;
    };
    const auto every = [this](const char* name, std::int64_t otherwise) {
      const Node* value = run_.arguments.find(name);
      const auto number = value && value->kind == Node::Kind::scalar ? integer_of(value->text) : std::nullopt;
      return std::max<std::int64_t>(number.value_or(otherwise), 1);
    };
    std::vector<char> dense(count, 0), linear(count, 0), window(count, 0);
    if (run_.experts > 0) {
      const auto list = frequency("moe_layer_freq");
      const auto n = every("moe_layer_freq", 1);
      for (std::size_t i = 0; i < count; ++i) dense[i] = list ? (*list)[i] == 0 : std::int64_t(i) % n != 0;
    } else {
      keys_.ignore({"moe_layer_freq"});
    }
    if (network_.delta_rule) {
      const auto list = frequency("linear_attention_freq");
      const auto n = every("linear_attention_freq", 4);
      for (std::size_t i = 0; i < count; ++i) linear[i] = list ? (*list)[i] == 1 : std::int64_t(i + 1) % n != 0;
    }
    const auto sees = window_size();
    if (sees > 0) {
      const bool some = keys_.has("window_attn_skip_freq");
      const auto list = frequency("window_attn_skip_freq");
      const auto n = every("window_attn_skip_freq", 1);
      for (std::size_t i = 0; i < count; ++i)
        window[i] = list ? (*list)[i] != 0 : !some || std::int64_t(i + 1) % n != 0;
    } else {
      keys_.ignore({"window_attn_skip_freq"});
    }
    write_layers(layers, dense, linear, window, sees);
  }

  // Keys that a query sees: those to the left, and itself. -1: all.
  std::int64_t window_size() {
    const auto sides = run_.words("window_size");
    if (!sides || sides->value.empty()) return 0;
    const auto left = integer_of(sides->value.front()).value_or(-1);
    if (left < 0) return 0;
    const auto right = sides->value.size() > 1 ? integer_of(sides->value[1]).value_or(0) : 0;
    if (right > 0) draft_.no_word(sides->at->where(), fmt::format("{} to the right", sides->word), "tokens see back");
    return left + 1;
  }

  void write_layers(const Said<std::int64_t>& layers, const std::vector<char>& dense, const std::vector<char>& linear,
                    const std::vector<char>& window, std::int64_t sees) {
    const auto all = [](const std::vector<char>& marks, char value) {
      return std::all_of(marks.begin(), marks.end(), [value](char mark) { return mark == value; });
    };
    const auto first = std::find(dense.begin(), dense.end(), 0) - dense.begin();
    const bool leading = std::find(dense.begin() + first, dense.end(), 1) == dense.end();
    const auto where = fmt::format("{} {}", layers.word, layers.value);
    if (!all(dense, 0)) network_.dense_width();
    if (all(window, 1)) draft_.derive("model.mixer.window", sees, run_.spelled("window_size"));
    const bool windows = !all(window, 0) && !all(window, 1);
    if (all(linear, 0) && !windows && leading && first < std::ptrdiff_t(dense.size())) {
      draft_.say("model.layers", layers.value, *layers.at, layers.word);
      if (first > 0) draft_.derive("model.dense_layers", std::int64_t(first), run_.spelled("moe_layer_freq"));
      return;
    }
    std::vector<Json> list;
    for (std::size_t i = 0; i < dense.size(); ++i) {
      Json layer = Json::object();
      if (linear[i]) layer["mixer"] = delta_rule();
      if (windows && window[i]) layer["mixer"] = Json{{"window", sees}};
      if (dense[i]) layer["ffn"] = "dense";
      list.push_back(std::move(layer));
    }
    draft_.derive("model.layers", runs_of_layers(list), where + " of several kinds");
  }

  // Defaults of TransformerConfig.
  Json delta_rule() {
    return Json{{"kind", "linear"},
                {"heads", run_.integer("linear_num_value_heads", 32)},
                {"kv_heads", run_.integer("linear_num_key_heads", 16)},
                {"head_dim", run_.integer("linear_key_head_dim", 128)},
                {"value_dim", run_.integer("linear_value_head_dim", 128)},
                {"convolution", run_.integer("linear_conv_kernel_dim", 4)}};
  }

  // mamba_mixer.py: heads of 64 columns, twice the columns of a layer, 8 groups, a state of 128.
  Json mamba() {
    const auto columns = run_.integer("mamba_head_dim", 64);
    const auto heads = run_.integer("mamba_num_heads", 2 * network_.hidden / std::max<std::int64_t>(columns, 1));
    return Json{{"kind", "mamba2"},
                {"heads", heads},
                {"kv_heads", run_.integer("mamba_num_groups", 8)},
                {"head_dim", run_.integer("mamba_state_dim", 128)},
                {"value_dim", columns}};
  }

  // megatron/core/models/hybrid: a letter for each half of a layer, | between stages, / before what modules of
  // multi-token prediction are made of.
  void pattern() {
    const auto& layers = network_.layers;
    auto text = network_.pattern->value;
    if (const auto slash = text.find('/'); slash != text.npos) {
      draft_.no_word(network_.pattern->at->where(), fmt::format("{} {}", network_.pattern->word, text.substr(slash)),
                     "modules of multi-token prediction behind a pattern have layers of their own, which there is no "
                     "word for");
      text.resize(slash);
    }
    std::string letters;
    run_.segments.assign(1, 0);
    for (const char c : text) {
      if (c == '|') {
        run_.segments.push_back(0);
        continue;
      }
      if (std::string_view("MG*-E").find(c) == std::string_view::npos)
        wrong(*network_.pattern->at,
              fmt::format("'{}' has the letter '{}', which a scenario has no word for; M is Mamba-2, G the gated delta "
                          "rule, * attention, - a feed-forward layer and E experts",
                          network_.pattern->word, c));
      letters += c, ++run_.segments.back();
    }
    if (letters.empty()) wrong(*network_.pattern->at, fmt::format("'{}' has no layers", network_.pattern->word));
    if (layers && layers->value != std::int64_t(letters.size()))
      run_.contradict("num_layers", fmt::format("'{}' is {}, and '{}' ({}) has {} layers; one of the two is wrong",
                                                layers->word, layers->value, network_.pattern->word,
                                                to_text(network_.pattern->at->where()), letters.size()));
    run_.layers = std::int64_t(letters.size());
    if (run_.segments.size() == 1) run_.segments.clear();
    if (letters.find('E') != letters.npos && run_.experts == 0)
      run_.contradict("hybrid_layer_pattern",
                      fmt::format("'{}' has experts (E), and there is no '{}'; how many are there?",
                                  network_.pattern->word, run_.spelled("num_experts")));
    if (run_.experts > 0 && letters.find('-') != letters.npos) network_.dense_width();
    write_pattern(letters);
  }

  void write_pattern(const std::string& letters) {
    const auto usual = std::max<std::int64_t>(2 * network_.hidden / 64 / 8, 1) * 8;  // what `model.pattern` takes M as
    const auto mixer = mamba();
    const bool plain =
        letters.find('G') == letters.npos &&
        (letters.find('M') == letters.npos ||
         mixer.dump() ==
             Json{{"kind", "mamba2"}, {"heads", usual}, {"kv_heads", 8}, {"head_dim", 128}, {"value_dim", 64}}.dump());
    if (plain) return draft_.say("model.pattern", letters, *network_.pattern->at, network_.pattern->word);
    std::vector<Json> list;
    for (const char c : letters) {
      Json layer = Json::object();
      if (c == 'M') layer["mixer"] = mixer;
      if (c == 'G') layer["mixer"] = delta_rule();
      if (c == '-' || c == 'E') layer["mixer"] = "none";
      if (c == '-' && run_.experts > 0) layer["ffn"] = "dense";
      if (c != '-' && c != 'E') layer["ffn"] = "none";
      list.push_back(std::move(layer));
    }
    draft_.derive("model.layers", runs_of_layers(list),
                  fmt::format("{} {}", network_.pattern->word, printable(letters)));
  }

  MegatronReading& run_;
  Keys& keys_;
  ScenarioDraft& draft_;
  const MegatronSizes& network_;
};

}  // namespace

void read_megatron_layers(MegatronReading& run, const MegatronSizes& network) { MegatronNetwork(run, network).read(); }

}  // namespace rehearsal::interchange
