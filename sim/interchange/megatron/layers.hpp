// The layers of a model as Megatron-LM's arguments have them: a number, frequencies, or a pattern of halves.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/transformer.hpp"

namespace rehearsal::interchange {

struct MegatronLayers {
  std::vector<std::pair<std::string, std::string>> arguments;
  std::string pattern;  // of halves, where the layers are such; which stages | cuts it into is the layout's
  std::vector<std::string> lacks;
};

// What all attention of the model has, but for windows: that of the first layer with some, where layers are listed.
models::Mixer megatron_attention(const models::Transformer& model);

MegatronLayers megatron_layers(const models::Transformer& model);

}  // namespace rehearsal::interchange
