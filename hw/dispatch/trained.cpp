// Assembles one network from what the ranks hold of it.
#include <cmath>
#include <limits>
#include <map>

#include "base/bf16.hpp"
#include "base/error.hpp"
#include "dispatch/results.hpp"

namespace rehearsal::dispatch {
namespace {

using graph::Segment;
using graph::Tensor;

// A tensor under assembly, entry by entry.
struct Whole {
  std::int64_t outer = 0, extent = 0, inner = 0;
  std::vector<float> first, low, high;  // per entry: the first value seen, and the range of all values
  std::vector<char> seen;
  bool not_a_number = false;

  void see(std::size_t entry, float value) {
    if (std::isnan(value)) not_a_number = true;
    if (!seen[entry]) {
      seen[entry] = 1;
      first[entry] = low[entry] = high[entry] = value;
    }
    if (value < low[entry]) low[entry] = value;
    if (value > high[entry]) high[entry] = value;
  }
  // A NaN anywhere makes the difference infinite.
  float difference() const {
    if (not_a_number) return std::numeric_limits<float>::infinity();
    float largest = 0;
    for (std::size_t i = 0; i < low.size(); ++i)
      if (high[i] > low[i]) largest = std::max(largest, high[i] - low[i]);
    return largest;
  }
};

using Key = std::pair<std::uint32_t, graph::TensorKind>;  // ordered as TrainedTensors are

class Assembly {
 public:
  // Sharded: replica d holds the elements d e .. (d+1) e of the segment, with e elements per shard.
  void add(const graph::Rank& rank, const Segment& segment, bool sharded, std::span<const float> held) {
    const std::int64_t length = sharded ? segment.elements / segment.shards : segment.elements;
    const std::int64_t begin = sharded ? rank.place.among(segment.shared_along()) * length : 0;
    INVARIANT(std::int64_t(held.size()) == length, "a rank shows all parameters that it holds");
    for (const Tensor& tensor : segment.tensors) {
      Whole& whole = find(tensor);
      const std::int64_t first = std::max(begin, tensor.offset);
      const std::int64_t last = std::min(begin + length, tensor.offset + tensor.elements());
      for (std::int64_t e = first; e < last; ++e)
        if (const auto entry = entry_of(tensor, rank, e - tensor.offset))
          whole.see(*entry, held[static_cast<std::size_t>(e - begin)]);
    }
  }

  std::vector<backend::TrainedTensor> finish() && {
    std::vector<backend::TrainedTensor> all;
    for (auto& [key, whole] : tensors_) {
      for (const char seen : whole.seen) INVARIANT(seen, "some rank holds every entry of a tensor");
      all.push_back({key.second, key.first, std::move(whole.first), whole.difference()});
    }
    return all;
  }

 private:
  Whole& find(const Tensor& tensor) {
    const auto [it, fresh] = tensors_.try_emplace({tensor.layer, tensor.kind});
    Whole& whole = it->second;
    if (fresh) {
      whole.outer = tensor.outers(), whole.extent = tensor.extent, whole.inner = tensor.inner;
      const auto size = static_cast<std::size_t>(whole.outer * tensor.extent * tensor.inner);
      whole.first.resize(size), whole.low.resize(size), whole.high.resize(size), whole.seen.resize(size);
    }
    INVARIANT(whole.outer == tensor.outers() && whole.extent == tensor.extent && whole.inner == tensor.inner,
              "all ranks agree on the shape of a tensor");
    return whole;
  }

  // Index in the whole [outer, extent, inner] of element `e` of the slice [outer, slice, inner]; nothing for padding.
  static std::optional<std::size_t> entry_of(const Tensor& tensor, const graph::Rank& rank, std::int64_t e) {
    const std::int64_t inner = e % tensor.inner, middle = e / tensor.inner % tensor.slice,
                       outer = tensor.first_outer(rank.place) + e / tensor.inner / tensor.slice;
    const std::int64_t at = middle + tensor.first(rank.place);
    if (at >= tensor.extent) return std::nullopt;
    return static_cast<std::size_t>((outer * tensor.extent + at) * tensor.inner + inner);
  }

  std::map<Key, Whole> tensors_;
};

}  // namespace

backend::TrainingResult trained(const graph::TaskGraph& graph, const std::vector<RankResult>& ranks) {
  backend::TrainingResult result;
  Assembly tensors, masters, gathered, responses;
  bool narrow = false;
  for (const bool copies : {false, true})
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const graph::Rank& rank = graph.ranks()[r];
      const auto& segments = graph.program_of(rank).segments;
      const Learned& learned = ranks[r].learned;
      if (learned.parameters.empty()) continue;  // weights were not requested
      INVARIANT(learned.parameters.size() == segments.size(), "a rank shows all its segments");
      for (std::size_t s = 0; s < segments.size(); ++s) {
        if (segments[s].copy != copies) continue;
        narrow = narrow || segments[s].precision != Precision::fp32;
        tensors.add(rank, segments[s], segments[s].sharded_parameters, learned.parameters[s]);
        if (segments[s].master) masters.add(rank, segments[s], true, learned.masters.at(s));
        for (auto& [assembly, held] : {std::pair(&gathered, &learned.gathered), {&responses, &learned.responses}})
          if (s < held->size() && !held->at(s).empty()) assembly->add(rank, segments[s], true, held->at(s));
      }
    }
  result.tensors = std::move(tensors).finish();
  auto kept = std::move(masters).finish(), directions = std::move(gathered).finish(),
       answers = std::move(responses).finish();
  for (const auto* of : {&kept, &directions})
    INVARIANT(of->empty() || of->size() == result.tensors.size(), "all tensors have a master copy, or none");
  auto answer = answers.begin();  // of some tensors, in the same order
  for (std::size_t i = 0; i < result.tensors.size(); ++i) {
    backend::TrainedTensor& tensor = result.tensors[i];
    float& difference = tensor.replica_difference;
    if (!kept.empty()) {
      tensor.master = std::move(kept[i].values);
      difference = std::max(difference, kept[i].replica_difference);
      for (std::size_t e = 0; e < tensor.values.size(); ++e)
        difference = std::max(difference, std::abs((narrow ? from_bf16(to_bf16(tensor.master[e])) : tensor.master[e]) -
                                                   tensor.values[e]));
    }
    if (!directions.empty()) tensor.gathered = std::move(directions[i].values);
    if (answer != answers.end() && answer->kind == tensor.kind && answer->layer == tensor.layer)
      tensor.response = std::move((answer++)->values);
  }

  for (const RankResult& rank : ranks) {
    const Learned& learned = rank.learned;
    result.loss.resize(std::max(result.loss.size(), learned.loss.size()));
    result.gradient_norm.resize(std::max(result.gradient_norm.size(), learned.squared_gradients.size()));
    for (std::size_t i = 0; i < learned.loss.size(); ++i) result.loss[i] += learned.loss[i];
    for (std::size_t i = 0; i < learned.squared_gradients.size(); ++i)
      result.gradient_norm[i] += learned.squared_gradients[i];
  }
  for (double& norm : result.gradient_norm) norm = std::sqrt(norm);
  return result;
}

}  // namespace rehearsal::dispatch
