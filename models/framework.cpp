#include "models/framework.hpp"

#include "models/framework_rewrite.hpp"
#include "models/vision.hpp"

namespace rehearsal::models {

Network framework_network(const Transformer& model, const Training& training, const Framework& framework,
                          const Shard& shard, const Routed& routing) {
  auto parts =
      blocks(model, {.shard = shard, .separate_projections = framework.separate_projections, .routed = routing.load});
  const FrameworkRun run{model, training, framework, shard, routing};
  const auto rewrite = [&](const Block& block, Recompute mode) { return FrameworkRewrite(block, run).build(mode); };
  Network network{rewrite(parts.embedding, Recompute::none), rewrite(parts.head, Recompute::none), {}, {}, {}};
  if (model.vision) network.embedding = with_pictures(std::move(network.embedding), run);
  for (const auto& layer : parts.layers) {
    network.layers.push_back(rewrite(layer, training.recompute));
    if (!training.recomputes_alike()) network.kept.push_back(rewrite(layer, Recompute::none));
  }
  network.of_layer = std::move(parts.table.of_layer);
  if (!parts.prediction.operators.empty()) network.prediction = rewrite(parts.prediction, training.recompute);
  if (!parts.body.operators.empty()) network.body = rewrite(parts.body, training.recompute);
  return network;
}

}  // namespace rehearsal::models
