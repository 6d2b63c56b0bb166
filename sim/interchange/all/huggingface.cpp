// The config.json of a model on the Hugging Face Hub: all of `model`. Of a model with towers the text is in a
// configuration of its own.
#include <fmt/format.h>

#include <algorithm>

#include "interchange/format.hpp"
#include "interchange/huggingface/config.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;

// Keys below which the configuration of the text lies, of models with towers.
constexpr std::string_view kTexts[] = {"text_config", "language_config", "llm_config", "thinker_config.text_config"};

struct Text {
  const Node* map;
  std::string path;  // of its keys, for messages
};
Text text_of(const Source& source) {
  for (const auto key : kTexts)
    if (const Node* text = source.find(key); text && text->kind == Node::Kind::map)
      return {text, std::string(key) + "."};
  return {source.tree, ""};
}

bool recognises(const Source& source) {
  if (!source.tree || source.tree->kind != Node::Kind::map) return false;
  if (!source.find("architectures") && !source.find("model_type")) return false;
  const Node* text = text_of(source).map;
  if (text != source.tree) return true;
  for (const auto key : {"num_hidden_layers", "n_layer", "n_layers", "layers_block_type", "block_configs"})
    if (text->find(key)) return true;
  return false;
}

// What a scenario has no layers for at all.
void refuse_what_cannot_be_said(const Source& source, const std::string& type, const Node& at) {
  if (const Node* both = source.find("is_encoder_decoder"); both && boolean_of(both->text) == std::optional(true))
    wrong(*both,
          "an encoder and a decoder: a scenario has models of one kind of layers behind each other; say the "
          "larger part as a model of its own");
  static constexpr std::string_view kOthers[] = {
      "mamba",        "jamba", "rwkv", "rwkv5", "rwkv6",   "zamba", "zamba2", "falcon_h1", "recurrent_gemma",
      "falcon_mamba", "xlstm", "t5",   "bart",  "whisper", "clip",  "siglip", "vit"};
  if (std::find(std::begin(kOthers), std::end(kOthers), type) != std::end(kOthers))
    wrong(at, fmt::format("a scenario has no word for layers of '{}'; it knows attention, the gated delta rule, "
                          "Mamba-2 and lightning attention (rehearse check --schema)",
                          type));
}

void read(Sources&, const Source& source, ScenarioDraft& draft) {
  Keys top(draft, &mapping_of(source));
  const auto& [text, path] = text_of(source);
  const bool inside = text != source.tree;
  const auto type_of = [](const Node& map) {
    const Node* type = map.find("model_type");
    return type && type->kind == Node::Kind::scalar ? type->text : std::string();
  };
  const auto outer = type_of(*source.tree), own = type_of(*text);
  auto type = hf_type(own.empty() ? outer : own);
  if (!type.known && !outer.empty() && hf_type(outer).known) type = hf_type(outer);
  const Node* at = text->find("model_type");
  if (!at) at = source.tree->find("model_type");
  refuse_what_cannot_be_said(source, type.name, at ? *at : *source.tree);
  if (const Node* blocks = text->find("block_configs"); blocks && !is_none(*blocks))
    wrong(*blocks,
          "layers of different shapes (block_configs); list them as model.layers: [{repeat: N, mixer: {...}, "
          "ffn: {...}}, ...]");
  if (!type.known)
    draft.no_word(at ? at->where() : source.tree->where(),
                  type.name.empty() ? "model_type is missing" : "model_type: " + type.name,
                  "not known; taken as a llama of what its keys say");
  Keys keys(draft, text, path);
  read_hf_model(keys, type);
  // The outer configuration has the last word on what joins both.
  if (inside)
    if (const auto tied = top.boolean({"tie_word_embeddings"})) {
      draft.remove("model.tie_embeddings");
      draft.say("model.tie_embeddings", tied->value, *tied->at, tied->word);
    }
  read_hf_vision(inside ? top : keys, hf_type(outer).name);
  ignore_hf_keys(keys), keys.finish();
  if (inside) ignore_hf_keys(top), top.finish();
}

}  // namespace

void register_huggingface(Registry& registry) {
  registry.add({.name = "huggingface",
                .title = "a Hugging Face config.json",
                .summary = "config.json of a model on the Hugging Face Hub: all of `model`",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
