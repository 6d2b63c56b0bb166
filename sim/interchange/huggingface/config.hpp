// A Hugging Face configuration of a model (`config.json`, and what other tools embed of one) to `model.*`. What code of
// transformers does for a type of model without a key that says so is a table of types (types.cpp).
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/keys.hpp"

namespace rehearsal::interchange {

// What the code of a model type does that its configuration does not say.
struct HfType {
  enum Trait : unsigned {
    gpt = 1,                  // layer norms, biases, no gate
    learned = 1 << 1,         // a table of positions
    embedding_norm = 1 << 2,  // behind the embedding
    encoder = 1 << 3,         // tokens see later ones
    tied = 1 << 4,            // one matrix for both ends where `tie_word_embeddings` is not there
    ungated = 1 << 5,         // llama whose feed-forward layer has two matrices
    qk_norm = 1 << 6,
    gate = 1 << 7,  // of attention's results
    sinks = 1 << 8,
    shared_expert = 1 << 9,    // one, as wide as the others
    half_layers = 1 << 10,     // a layer is a mixer or a feed-forward part (Nemotron-H)
    every_second = 1 << 11,    // layers 0, 2, .. have the window
    beside_experts = 1 << 12,  // `intermediate_size` is of a dense part beside the experts (Gemma 4)
    dense_modules = 1 << 13,   // of multi-token prediction, which are dense
    parallel = 1 << 14,        // attention and feed-forward part beside each other
    lightning = 1 << 15        // linear attention is that with a decay
  };
  std::string name;
  unsigned traits = 0;
  bool known = false;
  bool has(Trait trait) const { return (traits & trait) != 0; }
};
HfType hf_type(std::string_view name);

// A model's layers while they are read: one by one what each has that the others do not, {} for nothing; and the keys
// that say so.
struct HfLayers {
  std::int64_t hidden = 0, heads = 0;
  std::int64_t modules = 0;  // of multi-token prediction, beside the layers
  bool latent = false;       // attention
  std::vector<Json> each = {};
  const scenario::Node* at = nullptr;
  std::string words = {};

  std::size_t count() const { return each.size(); }
  bool differ() const;
  template <class T>
  void said_by(const Said<T>& said) {
    if (!at) at = said.at;
    words += (words.empty() ? "" : ", ") + said.word;
  }
  // The entries of a list that has one for each layer, and perhaps those of modules behind. UserError if it has others.
  std::vector<std::string> entries(const Said<std::vector<const scenario::Node*>>& list) const;
  // The same of a list of 0 and 1.
  std::vector<bool> switches(const Said<std::vector<const scenario::Node*>>& list) const;
};

// A list of numbers, such as those of layers.
std::set<std::string> texts_of(const std::vector<const scenario::Node*>& list);

// All of a model without its tower. `keys`: the mapping that has `hidden_size`; does not finish them.
void read_hf_model(Keys& keys, const HfType& type);
// Parts of it: which tokens a layer sees, and how; which layers have experts, and which; the tower in front.
void read_hf_mixers(Keys& keys, const HfType& type, HfLayers& layers);
void read_hf_experts(Keys& keys, const HfType& type, HfLayers& layers);
void read_hf_vision(Keys& top, const std::string& type);
void say_hf_activation(Keys& keys, const HfType& type);

// Keys of configurations that say nothing of time and memory.
void ignore_hf_keys(Keys& keys);

}  // namespace rehearsal::interchange
