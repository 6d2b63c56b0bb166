// Which layers have experts, and which these are.
#include <fmt/format.h>

#include <algorithm>

#include "interchange/huggingface/config.hpp"

namespace rehearsal::interchange {
namespace {

// Which layers are dense, as code of transformers reads the keys of each family.
class DenseLayers {
 public:
  DenseLayers(Keys& keys, HfLayers& layers) : keys_(keys), layers_(layers), dense_(layers.count(), false) {}

  std::vector<bool> read() {
    first();
    by_frequency();
    by_list();
    return std::move(dense_);
  }

 private:
  template <class Is, class T>
  void mark(const Said<T>& said, const Is& is) {
    bool some = false;
    for (std::size_t i = 0; i < dense_.size(); ++i)
      if (is(i)) dense_[i] = some = true;
    if (some) layers_.said_by(said);
  }

  void first() {
    if (const auto first = keys_.integer({"first_k_dense_replace", "n_dense_layers", "moe_layer_start_index"}))
      mark(*first, [&](std::size_t i) { return std::int64_t(i) < first->value; });
    if (const auto last = keys_.integer({"moe_layer_end_index"}); last && last->value >= 0)
      mark(*last, [&](std::size_t i) { return std::int64_t(i) > last->value; });
  }

  void by_frequency() {
    // A number n or, as Megatron's, 0 and 1 for each layer. Of DeepSeek's layers those whose number divides by it.
    const auto each = keys_.node({"moe_layer_freq"});
    if (each && each->value->kind == scenario::Node::Kind::sequence) {
      const auto list = keys_.list({"moe_layer_freq"});
      const auto experts = layers_.switches(*list);
      mark(*list, [&](std::size_t i) { return !experts[i]; });
    } else if (each) {
      const auto n = keys_.integer({"moe_layer_freq"});
      if (n->value > 1) mark(*n, [&](std::size_t i) { return std::int64_t(i) % n->value != 0; });
    }
    // Layer n, 2 n, .. counted from 1 (Qwen2-MoE, Llama 4, ERNIE 4.5).
    const auto listed = keys_.list({"moe_layers", "moe_config.layers"});
    const auto numbers = listed ? texts_of(listed->value) : std::set<std::string>();
    const bool some = listed && !numbers.contains("-1");  // nanotron: all
    if (const auto n = keys_.integer({"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"});
        n && n->value > 1 && !some)
      mark(*n, [&](std::size_t i) { return std::int64_t(i + 1) % n->value != 0; });
    if (some) mark(*listed, [&](std::size_t i) { return !numbers.contains(std::to_string(i)); });
  }

  void by_list() {
    if (const auto only = keys_.list({"mlp_only_layers"})) {
      const auto numbers = texts_of(only->value);
      mark(*only, [&](std::size_t i) { return numbers.contains(std::to_string(i)); });
    }
    if (const auto types = keys_.list({"mlp_layer_types"})) {
      const auto entries = layers_.entries(*types);
      mark(*types, [&](std::size_t i) { return entries[i] == "dense"; });
    }
    if (const auto numbers = keys_.text({"moe_layers_enum"})) {  // "3,4,5"
      std::set<std::string> with;
      for (std::size_t begin = 0, end; begin <= numbers->value.size(); begin = end + 1) {
        end = std::min(numbers->value.find(',', begin), numbers->value.size());
        with.insert(numbers->value.substr(begin, end - begin));
      }
      mark(*numbers, [&](std::size_t i) { return !with.contains(std::to_string(i)); });
    }
  }

  Keys& keys_;
  HfLayers& layers_;
  std::vector<bool> dense_;
};

// A count that several keys may say, all alike.
std::optional<Said<std::int64_t>> agreed(Keys& keys, Keys::Names names) {
  std::optional<Said<std::int64_t>> first;
  for (const auto name : names)
    if (const auto said = keys.integer({name}); said && !first)
      first = said;
    else if (said && said->value != first->value)
      wrong(*said->at, fmt::format("'{}' is {}, and '{}' is {} in line {}; one of the two is wrong", said->word,
                                   said->value, first->word, first->value, first->at->line));
  return first;
}

void read_shared(Keys& keys, const HfType& type, std::int64_t width) {
  auto& draft = keys.draft();
  auto count = keys.integer({"n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"});
  const auto shared =
      keys.integer({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                    "shared_intermediate_size", "share_expert_dim", "moe_config.shared_expert_intermediate_size"});
  if (count && count->value <= 0) count.reset();
  if (type.has(HfType::shared_expert) && !count) {
    draft.derive("model.shared_experts", 1, "transformers' " + type.name);
  } else if (type.has(HfType::beside_experts)) {
    if (const auto beside = keys.integer({"intermediate_size"}))
      draft.say("model.shared_ffn", beside->value, *beside->at, beside->word + " of the dense part beside the experts");
  } else if (shared && shared->value > 0 && double(shared->value) != double(count ? count->value : 1) * double(width)) {
    draft.say("model.shared_ffn", shared->value, *shared->at, shared->word);
  } else if (count) {
    draft.say("model.shared_experts", count->value, *count->at, count->word);
  } else if (shared && shared->value > 0) {
    draft.derive("model.shared_experts", 1, fmt::format("{} is the width of an expert", shared->word));
  } else if (const auto enabled = keys.boolean({"moe_config.enable_shared_expert"}); enabled && enabled->value) {
    draft.say("model.shared_experts", 1, *enabled->at, enabled->word);
  }
}

// Of group-limited routing (DeepSeek-V3, arXiv 2412.19437, section 2.1.2): a limit of nodes where a group is a node.
void read_groups(Keys& keys) {
  const auto groups = keys.integer({"n_group"}), chosen = keys.integer({"topk_group"});
  if (groups && chosen && groups->value > 1 && chosen->value < groups->value)
    keys.draft().no_word(chosen->at->where(), fmt::format("{}: {}", chosen->word, chosen->value),
                         fmt::format("a token goes to {} of {} groups; where a group is on a node of its own: --set "
                                     "experts.limit_nodes={}",
                                     chosen->value, groups->value, chosen->value));
}

}  // namespace

void read_hf_experts(Keys& keys, const HfType& type, HfLayers& layers) {
  auto& draft = keys.draft();
  const auto experts = agreed(keys, {"n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts",
                                     "ffn_config.moe_num_experts", "moe_config.num_experts"});
  // Known with or without experts.
  const auto per_token =
      agreed(keys, {"num_experts_per_tok", "num_experts_per_token", "top_k_experts", "experts_per_token", "moe_topk",
                    "moe_top_k", "moe_k", "num_selected_experts", "ffn_config.moe_top_k", "moe_config.top_k"});
  const auto own =
      keys.integer({"moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size",
                    "expert_intermediate_size", "ffn_config.ffn_hidden_size", "moe_config.moe_intermediate_size"});
  const auto dense = DenseLayers(keys, layers).read();
  if (!experts || experts->value <= 1) return;
  draft.say("model.family", "moe", *experts->at, experts->word);
  draft.say("model.experts", experts->value, *experts->at, experts->word);
  if (!per_token)
    wrong(*experts->at, fmt::format("{} experts, and no key says how many of them a token uses "
                                    "(num_experts_per_tok)",
                                    experts->value));
  draft.say("model.experts_per_token", per_token->value, *per_token->at, per_token->word);

  // `intermediate_size` is that of experts where these have no key of their own (Mixtral, GPT-OSS, MiniMax), else that
  // of dense layers; Llama 4 has a key of its own for the latter.
  const auto width = keys.integer({"intermediate_size"});
  const auto of_dense = keys.integer({"intermediate_size_mlp", "dense_intermediate_size"});
  const auto& expert = own ? own : width;
  if (!expert) wrong(*experts->at, "experts, and no key says how wide they are (moe_intermediate_size)");
  draft.say("model.expert_ffn", expert->value, *expert->at, expert->word);
  read_shared(keys, type, expert->value);
  if (const auto latent = keys.integer({"moe_latent_size", "routed_expert_hidden_size"});
      latent && latent->value > 0 && latent->value != layers.hidden)
    draft.say("model.expert_latent", latent->value, *latent->at, latent->word);
  read_groups(keys);

  const auto last = std::find(dense.begin(), dense.end(), false);
  const bool only_first = std::find(last, dense.end(), true) == dense.end();
  const auto count = std::int64_t(last - dense.begin());
  const bool half = type.has(HfType::half_layers);
  if (half) return;  // their list says it
  const bool some = std::find(dense.begin(), dense.end(), true) != dense.end();
  if (some && of_dense)
    draft.say("model.ffn", of_dense->value, *of_dense->at, of_dense->word);
  else if (some && width)
    draft.say("model.ffn", width->value, *width->at, width->word);
  if (some && only_first && !layers.differ()) {
    draft.say("model.dense_layers", count, *layers.at, layers.words);
    return;
  }
  for (std::size_t i = 0; i < dense.size(); ++i)
    if (dense[i]) layers.each[i]["ffn"] = "dense";
}

}  // namespace rehearsal::interchange
