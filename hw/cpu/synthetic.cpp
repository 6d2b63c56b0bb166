#include "cpu/synthetic.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "kernels/cut.hpp"

namespace rehearsal::cpu {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

// The output function of splitmix64.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
// The index-th number of the generator that is seeded by seed and stream.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return mix(mix(mix(seed + kGolden) + stream) + kGolden * (index + 1));
}

// Streams. Tensors use those from 2^32 on, by kind and layer.
enum Stream : std::uint64_t { map_of_tokens, first_token, follows_map, other_token, input_rows, map_of_rows, lengths };
std::uint64_t stream_of(const graph::Tensor& tensor) { return (std::uint64_t(tensor.kind) + 1) << 32 | tensor.layer; }

// The distribution of a tensor's elements: a constant value, and a normal deviation from it.
struct Distribution {
  float constant = 0;
  double deviation = 0;
};
// Of an entry of the outer dimension.
Distribution distribution(const graph::Tensor& tensor, std::int64_t outer) {
  using enum graph::TensorKind;
  constexpr double kTable = 0.02;
  switch (tensor.kind) {
    case norm1_gain:
    case norm2_gain:
    case norm_gain:
    case latent_gain:
    case head_gain:
      return {1, 0};
    case norm1_bias:
    case norm2_bias:
    case norm_bias:
    case qv_bias:
    case qkv_bias:
    case out_bias:
    case up_bias:
    case down_bias:
      return {0, 0};
    case token_table:
    case position_table:
    case sinks:
      return {0, kTable};
    case qkv_weight:
    case out_weight:
    case up_weight:
    case down_weight:
    case head_weight:
    case query_weight:
    case key_weight:
    case value_weight:
    case gate_up_weight:
    case router_weight:
    case expert_gate_up_weight:
    case expert_down_weight:
    case shared_gate_up_weight:
    case shared_down_weight:
    case expert_up_weight:
    case query_down_weight:
    case query_up_weight:
    case latent_down_weight:
    case latent_up_weight:
    case joining_weight:
    case output_gate_weight:
    case index_weight:
    case mixer_in_weight:
    case convolution:
    case latent_expert_weight:
    case mixer_value_weight:
    case mixer_state_weight:
    case mixer_gate_weight:
    case mixer_step_weight:
    case value_convolution:
    case state_convolution:
      // The inputs are the inner dimension, or the middle one of a matrix that is sharded along its inputs.
      return {0, 1 / std::sqrt(double(tensor.inner > 1 ? tensor.inner : tensor.extent))};
    // Of Mamba-2: A_log, D and the bias of steps. A state loses about an eighth at each token, and D is 1 (mamba_ssm).
    case head_scalars:
      return outer == 1 ? Distribution{1, 0}
                        : Distribution{outer == 2 ? -2.f : 0, 1 / std::sqrt(double(tensor.extent))};
  }
  return {};
}

float draw(std::uint64_t seed, std::uint64_t stream, const Distribution& from, std::uint64_t index) {
  return from.deviation == 0 ? from.constant : from.constant + float(from.deviation * normal(seed, stream, index));
}

// Calls part(first, last) for ranges of `rows` rows of `elements` elements, on all cores if threads are worth starting.
template <class Part>
void shared_out(std::int64_t rows, std::int64_t elements, Part&& part) {
  constexpr std::int64_t kWorth = 1 << 18;  // elements: about ten milliseconds
  const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t threads = std::min({cores, rows, rows * elements / kWorth});
  if (threads <= 1) return part(0, rows);
  std::vector<std::jthread> others;
  for (std::int64_t t = 0; t < threads; ++t)
    others.emplace_back([&part, first = rows * t / threads, last = rows * (t + 1) / threads] { part(first, last); });
}

// The usual successor of a token: an affine bijection of the vocabulary.
struct Permutation {
  std::uint64_t vocabulary, factor, shift;
  Permutation(std::uint64_t seed, std::uint64_t v)
      : vocabulary(v), factor(random_bits(seed, map_of_tokens, 0) % v), shift(random_bits(seed, map_of_tokens, 1) % v) {
    while (std::gcd(factor, v) != 1) ++factor;  // bijective: coprime to the vocabulary
  }
  std::uint64_t operator()(std::uint64_t token) const { return (factor * token + shift) % vocabulary; }
};

constexpr double kFollowsMap = 0.9;

// Small tokens are more frequent: density 1 / (2 sqrt(x)) in x = token / vocabulary.
std::uint64_t skewed(double u, std::uint64_t vocabulary) {
  return std::min(static_cast<std::uint64_t>(u * u * double(vocabulary)), vocabulary - 1);
}

// Sequence by sequence; `first` is the index of the first one in the global batch, so that the micro-batch size does
// not change the data.
void fill_tokens(const backend::TrainingData& o, std::int64_t first, Sample& sample) {
  const auto vocabulary = static_cast<std::uint64_t>(o.vocabulary);
  INVARIANT(vocabulary < std::uint64_t{1} << 31, "tokens are 32 bits wide");
  const Permutation map(o.seed, vocabulary);
  for (std::int64_t i = first; i < first + o.micro_batch; ++i) {
    std::uint64_t token = skewed(uniform(o.seed, first_token, std::uint64_t(i)), vocabulary);
    for (std::int64_t j = 0; j < o.sequence; ++j) {
      const auto place = static_cast<std::uint64_t>(i * o.sequence + j);
      sample.tokens.push_back(static_cast<std::int32_t>(token));
      token = uniform(o.seed, follows_map, place) < kFollowsMap
                  ? map(token)
                  : skewed(uniform(o.seed, other_token, place), vocabulary);
      sample.targets.push_back(static_cast<std::int32_t>(token));
    }
  }
}

// Where the document of each position begins, by the index of the sequence in the global batch alone.
void fill_documents(const backend::TrainingData& o, std::int64_t first, Sample& sample) {
  if (o.documents.empty()) return;
  for (std::int64_t i = first; i < first + o.micro_batch; ++i)
    for (std::int64_t begin = 0, number = 0; begin < o.sequence; ++number) {
      const auto place = static_cast<std::uint64_t>(i * o.sequence + number);
      const auto which = static_cast<std::size_t>(uniform(o.seed, lengths, place) * double(o.documents.size()));
      const std::int64_t end = std::min(begin + o.documents[which], o.sequence);
      for (std::int64_t j = begin; j < end; ++j) sample.documents.push_back(static_cast<std::int32_t>(begin));
      begin = end;
    }
}

// x normal, target = tanh(x M) with M[width, width] normal / sqrt(width): a map that one hidden layer can learn.
void fill_rows(const backend::TrainingData& o, std::int64_t first, std::int64_t rows, Sample& sample) {
  const std::int64_t n = o.width;
  std::vector<float> map(static_cast<std::size_t>(n * n));
  for (std::size_t i = 0; i < map.size(); ++i) map[i] = float(normal(o.seed, map_of_rows, i) / std::sqrt(double(n)));
  sample.rows.resize(static_cast<std::size_t>(rows * n));
  sample.row_targets.resize(sample.rows.size());
  for (std::size_t i = 0; i < sample.rows.size(); ++i)
    sample.rows[i] = float(normal(o.seed, input_rows, static_cast<std::uint64_t>(first * n) + i));
  gemm({.m = rows, .n = n, .k = n, .a = sample.rows.data(), .b = map.data(), .c = sample.row_targets.data()});
  for (float& target : sample.row_targets) target = std::tanh(target);
}

// Keeps the rows of one rank, or of one piece, of all rows of the micro-batch.
void keep_own(const backend::TrainingData& o, std::int64_t part, std::vector<std::int32_t>& all) {
  const kernels::Cut cut{o.context * o.pieces, part, o.balanced};
  const std::int64_t rows = o.sequence / cut.ranks;
  std::vector<std::int32_t> own;
  for (std::int64_t sequence = 0; sequence < o.micro_batch; ++sequence)
    for (std::int64_t i = 0; i < rows; ++i)
      own.push_back(all[static_cast<std::size_t>(sequence * o.sequence + cut.position(i, rows))]);
  all = std::move(own);
}

}  // namespace

double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return double(random_bits(seed, stream, index) >> 11) * 0x1p-53;
}

double normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  // 1 - u lies in (0, 1], where the logarithm is finite.
  const double radius = std::sqrt(-2 * std::log(1 - uniform(seed, stream, 2 * index)));
  return radius * std::cos(2 * std::numbers::pi * uniform(seed, stream, 2 * index + 1));
}

float initial(std::uint64_t seed, const graph::Tensor& tensor, std::uint64_t index) {
  const auto outer = static_cast<std::int64_t>(index) / (tensor.extent * tensor.inner);
  return draw(seed, stream_of(tensor), distribution(tensor, outer), index);
}

void initialise(std::uint64_t seed, const graph::Segment& segment, const graph::Rank& rank, std::span<float> held) {
  INVARIANT(segment.elements % segment.shards == 0, "a segment divides evenly into its shards");
  const std::int64_t own = segment.elements / segment.shards;
  const std::int64_t begin = segment.sharded_parameters ? rank.place.among(segment.shared_along()) * own : 0;
  const std::int64_t end = segment.sharded_parameters ? begin + own : segment.elements;
  INVARIANT(static_cast<std::int64_t>(held.size()) == end - begin, "the whole segment or the own shard of it");
  std::fill(held.begin(), held.end(), 0.f);
  for (const graph::Tensor& tensor : segment.tensors) {
    const std::uint64_t stream = stream_of(tensor);
    const std::int64_t first = tensor.first(rank.place);
    // Runs of `inner` elements are contiguous in the segment and in the whole tensor.
    shared_out(tensor.outer * tensor.slice, tensor.inner, [&](std::int64_t first_run, std::int64_t last_run) {
      for (std::int64_t run = first_run; run < last_run; ++run) {
        const std::int64_t at = tensor.offset + run * tensor.inner;
        const std::int64_t outer = tensor.first_outer(rank.place) + run / tensor.slice,
                           middle = first + run % tensor.slice;
        if (middle >= tensor.extent) continue;  // padding
        const std::int64_t whole = (outer * tensor.extent + middle) * tensor.inner;
        const Distribution from = distribution(tensor, outer);
        for (std::int64_t i = std::max(at, begin); i < std::min(at + tensor.inner, end); ++i)
          held[static_cast<std::size_t>(i - begin)] =
              draw(seed, stream, from, static_cast<std::uint64_t>(whole + i - at));
      }
    });
  }
}

Sample sample(const backend::TrainingData& learning, std::int64_t global, std::int64_t part) {
  Sample sample;
  if (learning.vocabulary > 0) {
    fill_tokens(learning, global * learning.micro_batch, sample);
    fill_documents(learning, global * learning.micro_batch, sample);
    if (learning.context * learning.pieces > 1) {
      keep_own(learning, part, sample.tokens);
      keep_own(learning, part, sample.targets);
    }
  } else {
    const std::int64_t rows = learning.micro_batch * learning.sequence;
    fill_rows(learning, global * rows, rows, sample);
  }
  return sample;
}

}  // namespace rehearsal::cpu
