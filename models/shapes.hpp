// What one GPU holds of a layer, derived once from the model and the shard and used by every operator list of this
// room. Lengths are elements; byte counts elsewhere assume 2-byte activations (also under fp8: only GEMM inputs are
// narrower).
#pragma once
#include <cstdint>

#include "models/transformer.hpp"

namespace rehearsal::models {

struct LocalShape {
  std::int64_t tokens = 0;    // T = b s
  std::int64_t hidden = 0;    // h, never sharded
  std::int64_t heads = 0;     // query heads a/t
  std::int64_t head_dim = 0;  // d
  std::int64_t query = 0;     // width of the queries, a d / t
  std::int64_t keys = 0;      // width of the keys
  std::int64_t values = 0;    // width of the values
  std::int64_t qkv = 0;       // width of queries, keys and values together
  std::int64_t ffn = 0;       // f/t
  std::int64_t up = 0;        // output width of the first MLP GEMM: f/t, or 2 f/t for SwiGLU (gate and up in one)
  double residual = 0;        // elements of one residual-stream tensor here: T h, or T h / t under sequence parallelism
  double split_hidden = 0;    // T h / t
};
LocalShape local_shape(const Transformer& model, const LayerSpec& layer, const Shard& shard);

// Entries of the weight matrices of one whole layer: of its mixer, and of its feed-forward part, with all experts or
// with those that a token uses.
enum class Experts : std::uint8_t { all, used, none };
double mixer_matrices(std::int64_t hidden, const Mixer& mixer);
double ffn_matrices(std::int64_t hidden, const FeedForward& ffn, Experts experts);
// Forward FLOPs of what tokens see of each other, for one sequence, beyond the matrices: scores and their products with
// values, masks not discounted, and the scores of an indexer: a third of those of a pass and its gradient, which are of
// all earlier keys and of the chosen ones twice.
double mixing_flops(const Mixer& mixer, std::int64_t sequence);

// Of the layers alone, without ends and modules of multi-token prediction.
double parameters_of_layers(const Transformer& model);

// The layers of a tower in front as a model of their own. Parameters of all of it, unsharded; FLOPs of its forward for
// one sequence: of products by weights, of the first of them, whose input has no gradient, and of attention.
Transformer tower(const Vision& vision);
double tower_parameters(const Transformer& model);
struct TowerFlops {
  double weights = 0, patches = 0, attention = 0;
};
TowerFlops tower_flops(const Transformer& model);

// Vocabulary slice of one tensor rank: padded to a multiple of 128 t before slicing, as Megatron does.
std::int64_t vocabulary_slice(const Transformer& model, std::int64_t tensor);

// Chunks of a loss that is taken chunk by chunk (LossKernels::chunked), where nobody asks for another number
// (ChunkedCELoss.Config.num_chunks of torchtitan); and the tokens of one. The last one may have fewer.
inline constexpr std::int64_t kLossChunks = 8;
constexpr std::int64_t rows_of_chunk(std::int64_t tokens, std::int64_t chunks) {
  return (tokens + chunks - 1) / chunks;
}

// Attention and the output head stay in 2 bytes when the linear layers run in fp8.
constexpr bool scaled(Precision p) { return p == Precision::fp8 || p == Precision::fp4; }
constexpr Precision unscaled(Precision p) { return scaled(p) ? Precision::bf16 : p; }

// Traffic per parameter to add a gradient to its buffer, once.
double addition_bytes(const Training& training, const Framework& framework);
// The same per micro-batch; the first micro-batch of m only writes, so the
// average over an iteration is scaled by 1 - 1/m (0 for one micro-batch).
double accumulation_bytes(const Training& training, const Framework& framework, const Shard& shard);

}  // namespace rehearsal::models
