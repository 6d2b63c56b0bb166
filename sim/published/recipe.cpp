#include "published/recipe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "published/mapping.hpp"

namespace rehearsal::published {
namespace {

bool holds(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }
bool among(const std::string& text, const std::set<std::string>& all) { return all.count(text) > 0; }

// "see recipe script", "not printed", "recipe default": the source has a value, and the table does not tell it.
bool untold(const std::string& text) {
  return among(text, {"", "n/a", "-", "?", "unknown", "default"}) || text.starts_with("see ") ||
         text.starts_with("not printed") || text.starts_with("none printed") || text.starts_with("recipe") ||
         text.starts_with("not stated") || text.starts_with("unstated");
}
// Said in words, where nothing said may just be a table without such a column.
bool says_untold(const std::string& text) { return text.size() > 1 && untold(text); }

// Words between spaces and punctuation; names keep their underscores.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.')
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::optional<double> number_of(const std::string& text) {
  try {
    return parse_number(text);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

class Reader {
 public:
  explicit Reader(const Run& run) : run_(run) {}

  // Sets `key` to what `read` makes of a cell: a value, an empty one that says nothing, or none if it is no such cell.
  template <class Read>
  void column(const char* name, const char* key, Read read) {
    const auto cell = lower(run_.cell(name));
    if (says_untold(cell) && among(key, {"framework.dispatcher", "framework.expert_overlap"}))
      recipe.untold.emplace_back(key);
    if (untold(cell)) return;
    const std::optional<std::string> value = read(cell);
    if (!value)
      not_read(name);
    else if (!value->empty())
      recipe.settings.emplace_back(key, *value);
  }
  void not_read(const char* name) {
    if (recipe.unread.empty())
      recipe.unread = fmt::format("its '{}' is '{}', which says nothing known", name, run_.cell(name));
  }

  Recipe recipe;

 private:
  const Run& run_;
};

using Value = std::optional<std::string>;

Value yes_or_no(const std::string& cell) {
  if (among(cell, {"yes", "on", "true", "1"})) return "true";
  if (among(cell, {"no", "off", "false", "0", "none"})) return "false";
  return std::nullopt;
}

Value dispatcher(const std::string& cell) {
  if (holds(cell, "hybridep") || holds(cell, "hybrid-ep")) return "hybridep";
  if (holds(cell, "deepep") || cell == "flex") return "deepep";
  if (among(cell, {"nccl", "alltoall", "all-to-all", "a2a", "nccl alltoall", "nccl all-to-all"})) return "nccl";
  return std::nullopt;
}

// Scopes of Megatron-Core's captures, or of a scenario. "yes" does not say of what.
Value cuda_graph(const std::string& cell) {
  if (yes_or_no(cell) == "true") return "";
  bool attention = false, router = false;
  for (const auto& word : words_of(cell)) {
    if (among(word, {"no", "none", "off", "false"})) return "none";
    if (among(word, {"full", "full_iteration", "full-iteration", "iteration"})) return "full";
    if (among(word, {"attn", "attention"}))
      attention = true;
    else if (among(word, {"router", "moe_router", "moe_preprocess"}))
      router = true;
    else
      return std::nullopt;
  }
  return attention && router ? "attention+router" : attention ? "attention" : "router";
}

Value capacity(const std::string& cell) {
  if (among(cell, {"dropless", "none", "no"})) return "dropless";
  const auto number = number_of(cell);
  return number && *number > 0 ? Value(cell) : std::nullopt;
}

Value routing(const std::string& cell) {
  if (among(cell, {"balanced", "forced", "force-balanced", "force balanced", "uniform"})) return "uniform";
  if (among(cell, {"natural", "as trained", "unbalanced", "real"})) return "natural";
  return std::nullopt;
}

Value degree(const std::string& cell) {
  const auto number = number_of(cell);
  return number && *number >= 1 && *number == double(std::int64_t(*number)) ? Value(cell) : std::nullopt;
}

Value loss(const std::string& cell) {
  static const std::set<std::string> known{"vocabulary-parallel", "in-place", "torch", "fused", "compiled", "chunked",
                                           "linear-fused"};
  return known.count(cell) > 0 ? Value(cell) : std::nullopt;
}

// Tokens of the documents: a section of a scenario, one number, or several. Packed sequences are as long as the row's.
Value lengths(const std::string& cell) {
  if (cell.starts_with('{')) return cell;
  if (among(cell, {"packed", "full", "synthetic"})) return "";
  const auto words = words_of(cell);
  if (!std::all_of(words.begin(), words.end(), [](const auto& word) { return degree(word).has_value(); }))
    return std::nullopt;
  return words.size() == 1 ? fmt::format("{{fixed: {}}}", words[0])
                           : fmt::format("{{list: [{}]}}", fmt::join(words, ", "));
}

// "selective: norm, act": the modules of Megatron-Core behind the names that tables give them.
std::optional<std::vector<std::string>> modules_of(const std::string& text, bool experts) {
  static const std::map<std::string, std::string> known{{"norm", "layernorm"},
                                                        {"norms", "layernorm"},
                                                        {"layernorm", "layernorm"},
                                                        {"rmsnorm", "layernorm"},
                                                        {"core_attn", "core_attn"},
                                                        {"core-attn", "core_attn"},
                                                        {"mla_up_proj", "mla_up_proj"},
                                                        {"up_proj", "mla_up_proj"},
                                                        {"moe_act", "moe_act"},
                                                        {"moe", "moe"},
                                                        {"mlp", "mlp"},
                                                        {"mlp_act", "mlp_act"},
                                                        {"shared_experts", "shared_experts"}};
  std::vector<std::string> modules;
  for (const auto& word : words_of(text)) {
    if (among(word, {"act", "swiglu", "activation"})) {
      modules.emplace_back(experts ? "moe_act" : "mlp_act");
      continue;
    }
    const auto found = known.find(word);
    if (found == known.end()) return std::nullopt;
    modules.push_back(found->second);
  }
  return modules;
}

}  // namespace

Recipe recipe_of(const Run& run, bool experts) {
  Reader reader(run);
  auto& recipe = reader.recipe;
  if (experts) {
    reader.column("dispatcher", "framework.dispatcher", dispatcher);
    reader.column("expert_overlap", "framework.expert_overlap", yes_or_no);
    reader.column("cuda_graph", "framework.cuda_graph", cuda_graph);
    reader.column("capacity", "experts.capacity", capacity);
    reader.column("routing", "experts.skew", routing);
    reader.column("etp", "parallelism.expert_tensor", degree);
  }
  reader.column("tp_overlap", "framework.async_tensor", yes_or_no);
  reader.column("loss", "framework.loss", loss);
  reader.column("lengths", "batch.lengths", lengths);
  const auto text = lower(run.recompute);
  if (says_untold(text)) recipe.untold.emplace_back("training.recompute");
  if (text.starts_with("full")) recipe.recompute = "full";
  if (among(text, {"yes", "on", "true", "selective:", "selective: ,"})) reader.not_read("recompute");  // of what?
  if (!holds(text, "selective")) return recipe;
  recipe.recompute = "selective";
  const bool known = run.knobs.find("training.recompute") != std::string::npos;
  if (known || !text.starts_with("selective:")) return recipe;
  const auto modules = modules_of(text.substr(text.find(':') + 1), experts);
  if (!modules) {
    reader.not_read("recompute");
  } else if (!modules->empty()) {
    recipe.recompute = fmt::format("{{mode: selective, modules: [{}]}}", fmt::join(*modules, ", "));
    recipe.lists_modules = true;
  }
  return recipe;
}

}  // namespace rehearsal::published
