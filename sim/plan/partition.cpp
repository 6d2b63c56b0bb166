#include "plan/partition.hpp"

#include <fmt/format.h>

#include <numeric>

#include "base/error.hpp"

namespace rehearsal::plan {
namespace {

std::vector<std::int64_t> uniform(std::int64_t layers, std::int64_t stages, std::vector<std::string>& warnings) {
  const auto n = static_cast<std::size_t>(stages);
  if (layers % stages == 0) return std::vector<std::int64_t>(n, layers / stages);
  if (layers + 2 < stages)
    throw UserError(
        fmt::format("{} layers cannot be dealt to {} stages: with the embedding and the head there are {} parts; use "
                    "at most {} stages "
                    "(pipeline x chunks)",
                    layers, stages, layers + 2, layers + 2));
  if (stages > 1 && (layers + 2) % stages == 0) {
    std::vector<std::int64_t> part(n, (layers + 2) / stages);
    part.front()--, part.back()--;
    return part;
  }
  std::vector<std::int64_t> part(n, layers / stages);
  const std::int64_t extra = layers % stages, first = (stages - extra) / 2;
  for (std::int64_t s = first; s < first + extra; s++) part[static_cast<std::size_t>(s)]++;
  warnings.push_back(fmt::format(
      "{} layers do not divide over {} stages: {} of them hold one layer more than the others", layers, stages, extra));
  return part;
}

}  // namespace

std::vector<std::int64_t> deal_layers(std::int64_t layers, std::int64_t stages, const Partition& partition,
                                      std::vector<std::string>& warnings) {
  if (partition.kind == Partition::Kind::uniform) return uniform(layers, stages, warnings);
  const auto& list = partition.layers;
  if (static_cast<std::int64_t>(list.size()) != stages)
    throw UserError(fmt::format("partition lists {} stages, but pipeline x chunks = {}", list.size(), stages));
  // An end that counts as a layer takes a place in its stage's entry.
  auto part = list;
  if (partition.embedding == Ends::layer) part.front()--;
  if (partition.head == Ends::layer) part.back()--;
  const auto sum = std::accumulate(part.begin(), part.end(), std::int64_t{0});
  if (sum != layers) throw UserError(fmt::format("partition deals {} layers, but the model has {}", sum, layers));
  for (std::size_t s = 0; s < part.size(); s++)
    if (part[s] < 0 || (part[s] == 0 && s != 0 && s + 1 != part.size()))
      throw UserError(
          fmt::format("partition gives stage {} {} layers; only the first and last stage may be empty", s, part[s]));
  return part;
}

}  // namespace rehearsal::plan
