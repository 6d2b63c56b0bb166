// Megatron-Core's --pipeline-model-parallel-layout as tables print it: which layers each of its stages has.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rehearsal::published {

// Layers of each stage of `text`, in the order of the model: "Et*3|(tt|)*6mL" are 3, six times 2, and 0. Stages end
// with
// "|"; E is the embedding, t a layer, m one of multi-token prediction, L the loss, of which only t counts; "*n" repeats
// the letter or the parentheses before it (megatron/core/transformer/pipeline_parallel_layer_layout.py). Nothing if it
// is none of these, or has more than 100,000 stages or layers.
std::optional<std::vector<std::int64_t>> layers_of_layout(std::string_view text);

}  // namespace rehearsal::published
