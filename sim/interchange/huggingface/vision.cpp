// The tower in front of a model, in the words of its family.
#include <fmt/format.h>

#include "interchange/huggingface/config.hpp"

namespace rehearsal::interchange {
namespace {

constexpr std::int64_t kMost = 1'000'000;
constexpr std::int64_t kPicture = 1024;  // pixels of a side, of the picture that is assumed where no file says how many

class Tower {
 public:
  Tower(Keys& top, Keys tower) : top_(top), tower_(std::move(tower)), draft_(top.draft()) {}

  void read(const std::string& type) {
    sizes();
    if (type.starts_with("qwen3"))
      qwen();
    else if (type == "kimi_k25")
      kimi();
    else
      gemma(type == "gemma4");
    tower_.ignore({"architectures",
                   "attention_*",
                   "attn_*",
                   "chunk_size_feed_forward",
                   "dtype",
                   "torch_dtype",
                   "hidden_dropout*",
                   "id2label",
                   "init_pos_emb_time",
                   "initializer_*",
                   "is_encoder_decoder",
                   "label2id",
                   "layer_norm_eps",
                   "max_position_embeddings",
                   "merge_type",
                   "mm_*",
                   "model_type",
                   "num_channels",
                   "in_channels",
                   "output_*",
                   "out_hidden_size",
                   "pos_emb_type",
                   "problem_type",
                   "projector_*",
                   "return_dict",
                   "rms_norm_eps",
                   "rope_*",
                   "standardize",
                   "text_hidden_size",
                   "use_clipped_linears",
                   "vision_use_head",
                   "video_*",
                   "image_seq_length",
                   "_*",
                   "num_key_value_heads",
                   "global_head_dim",
                   "hidden_act",
                   "hidden_activation",
                   "transformers_version"});
    tower_.finish();
  }

 private:
  std::int64_t amount(Keys::Names names) {
    const auto said = tower_.integer(names);
    if (said && said->value >= 1 && said->value <= kMost) return said->value;
    const auto word = fmt::format("'{}{}'", tower_.path(), *names.begin());
    if (said)
      wrong(*said->at, fmt::format("{} must be a whole number from 1 to {}; found {}", word, kMost, said->value));
    wrong(*tower_.map(), fmt::format("{} is missing; without it the tower cannot be said", word));
  }
  void say(const char* key, Keys::Names names) { tower_.say_integer(std::string("model.vision.") + key, names); }
  void derive(const char* key, Json value, const std::string& how) {
    draft_.derive(std::string("model.vision.") + key, std::move(value), how);
  }

  void size(const char* key, Keys::Names names) { amount(names), say(key, names); }
  void sizes() {
    size("layers", {"num_hidden_layers", "depth", "vt_num_hidden_layers"});
    size("hidden", {"hidden_size", "vt_hidden_size"});
    size("heads", {"num_attention_heads", "num_heads", "vt_num_attention_heads"});
    size("ffn", {"intermediate_size", "vt_intermediate_size"});
  }
  void pictures(std::int64_t patch, std::int64_t merged) {
    const auto rows = kPicture / patch * (kPicture / patch) / merged;
    draft_.assume("model.vision.tokens", std::max<std::int64_t>(rows, 1),
                  fmt::format("no file says it; one picture of {0} x {0} pixels a sequence (--set model.vision=null: "
                              "text alone)",
                              kPicture));
  }
  std::int64_t colours() { return tower_.has("in_channels") ? side({"in_channels"}) : 3; }
  // Sides of a patch and the like, whose products are formed.
  std::int64_t side(Keys::Names names) { return std::min<std::int64_t>(amount(names), 10'000); }

  // Qwen3-VL and its successors: layer norms and biases, two frames a patch, rows of some layers in between.
  void qwen() {
    const auto pixels = side({"patch_size"}), frames = side({"temporal_patch_size"}),
               across = side({"spatial_merge_size"});
    derive("patch", pixels * pixels * colours() * frames,
           fmt::format("{0} x {0} pixels x {1} channels x {2} frames", pixels, colours(), frames));
    derive("merge", across * across, fmt::format("spatial_merge_size {0} x {0}", across));
    say("positions", {"num_position_embeddings"});
    if (const auto deep = tower_.list({"deepstack_visual_indexes"}); deep && !deep->value.empty())
      draft_.say("model.vision.deepstack", std::int64_t(deep->value.size()), *deep->at, deep->word);
    pictures(pixels, across * across);
  }

  // Kimi K2.5: MoonViT.
  void kimi() {
    const auto pixels = side({"patch_size"});
    derive("patch", pixels * pixels * colours(), fmt::format("{0} x {0} pixels x {1} channels", pixels, colours()));
    const auto rows = side({"init_pos_emb_height"}), columns = side({"init_pos_emb_width"});
    derive("positions", rows * columns, fmt::format("init_pos_emb_height {} x init_pos_emb_width {}", rows, columns));
    std::int64_t merge = 1;
    if (const auto kernel = tower_.list({"merge_kernel_size"}))
      for (const auto* across : kernel->value)
        merge *= std::clamp<std::int64_t>(integer_of(across->text).value_or(1), 1, 100);
    derive("merge", merge, "merge_kernel_size");
    draft_.assume("model.vision.tokens", std::max<std::int64_t>(rows * columns / merge, 1),
                  "no file says it; one picture a sequence, of as many patches as there are positions (--set "
                  "model.vision=null: text alone)");
  }

  // Gemma 3 and 4: the mean of patches, and one product (arXiv 2503.19786, section 2.1).
  void gemma(bool fourth) {
    const auto pixels = side({"patch_size"});
    derive("patch", pixels * pixels * colours(), fmt::format("{0} x {0} pixels x {1} channels", pixels, colours()));
    derive("projector", "linear", "transformers' " + std::string(fourth ? "gemma4" : "gemma3"));
    if (fourth) {
      derive("family", "llama", "transformers' gemma4_vision: RMS norms, a gate, no biases");
      derive("qk_norm", true, "transformers' gemma4_vision");
      const auto positions = amount({"position_embedding_size"}), pool = side({"pooling_kernel_size"});
      derive("positions", 2 * positions, fmt::format("{} of columns, and as many of rows", positions));
      derive("merge", pool * pool, fmt::format("pooling_kernel_size {0} x {0}", pool));
      say("head_dim", {"head_dim"});
      top_.say_integer("model.vision.tokens", {"vision_soft_tokens_per_image"});
      say("tokens", {"default_output_length"});
    } else {
      const auto across = amount({"image_size"}) / pixels;
      const auto rows = top_.integer({"mm_tokens_per_image"});
      if (!rows || rows->value < 1)
        wrong(*tower_.map(), "'mm_tokens_per_image' is missing; without it the tower cannot be said");
      derive("positions", across * across, "(image_size / patch_size)²");
      derive("merge", std::max<std::int64_t>(across * across / rows->value, 1),
             "patches of a picture / mm_tokens_per_image");
      draft_.say("model.vision.tokens", rows->value, *rows->at, rows->word + ", one picture");
    }
  }

  Keys& top_;
  Keys tower_;
  ScenarioDraft& draft_;
};

}  // namespace

void read_hf_vision(Keys& top, const std::string& type) {
  const auto tower = top.node({"vision_config", "vision_tower_config"});
  top.no_word("audio_config", {}, "the tower of sounds is left out");
  if (!tower || tower->value->kind != scenario::Node::Kind::map) return;
  static constexpr std::string_view kKnown[] = {"qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe",
                                                "kimi_k25", "gemma3",       "gemma4"};
  for (const auto known : kKnown)
    if (known == type) return Tower(top, Keys(top.draft(), tower->value, tower->word + ".")).read(type);
  top.draft().no_word(tower->at->where(), tower->word, "the tower of pictures is left out; model.vision says one");
}

}  // namespace rehearsal::interchange
