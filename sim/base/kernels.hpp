// Kernels by shape: the shared vocabulary of models (how much), graph (what), cost (how long) and hw (really).
// All counts are per GPU, after sharding.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <cstdint>
#include <optional>

#include "base/axes.hpp"
#include "base/units.hpp"

namespace rehearsal {

enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8, fp4 };
constexpr const char* name(Precision p) {
  switch (p) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::fp16:
      return "fp16";
    case Precision::bf16:
      return "bf16";
    case Precision::fp8:
      return "fp8";
    case Precision::fp4:
      return "fp4";
  }
  return "";
}
constexpr std::int64_t bytes_per_element(Precision p) {
  switch (p) {
    case Precision::fp32:
    case Precision::tf32:
      return 4;
    case Precision::fp16:
    case Precision::bf16:
      return 2;
    case Precision::fp8:
    case Precision::fp4:  // two to a byte, and a scale for each 16: counted in whole bytes
      return 1;
  }
  return 0;
}

// C[m,n] += A[m,k] B[k,n], `batch` times independently.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Precision precision = Precision::bf16;
  bool weight_gradient = false;  // accumulates over tokens: another kernel family with its own rate
  friend auto operator<=>(const Gemm&, const Gemm&) = default;
  Flops flops() const { return Flops(2. * double(m) * double(n) * double(k) * double(batch)); }
  // Both operands and the result once; no result has fewer than 16 bits.
  double operand_bytes() const {
    const double in = double(bytes_per_element(precision)), out = std::max(2., in);
    return (in * double(k) * double(m + n) + out * double(m) * double(n)) * double(batch);
  }
};

// One fused (flash) attention kernel; scores never reach memory.
struct FusedAttention {
  std::int64_t batch = 1, heads = 0, queries = 0, keys = 0, head_dim = 0;
  bool causal = true, backward = false;
  std::int64_t value_dim = 0;             // columns of a head of the values, where keys have others; 0: as head_dim
  Precision precision = Precision::bf16;  // of any 16 bits, or fp32 or tf32
  // Keys counted per query if a causal mask is not discounted (graph/flops.hpp), for kernels that get only the keys
  // that the mask leaves; 0: all keys that they get.
  std::int64_t counted_keys = 0;
  // Keys that a query sees at most: the last ones, or (chunked) those of its own chunk of as many tokens; 0: all.
  std::int64_t seen = 0;
  bool chunked = false;
  double share = 1;  // of these keys that are of the same document as the query, on average
  std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
  friend auto operator<=>(const FusedAttention&, const FusedAttention&) = default;
  // Queries times the keys that each sees, of one head: with a window W of k keys on average W, causal W - W^2 / 2k,
  // which is k / 2 when W = k.
  double scores() const {
    const double q = double(queries), k = double(keys) * share, w = double(seen);
    if (seen <= 0 || w >= k) return share * all_scores();
    if (!chunked) return q * (causal ? w - w * w / (2 * k) : w);
    const double whole = std::floor(k / w), rest = k - whole * w;
    return q * (whole * w * w + rest * rest) / k * (causal ? .5 : 1.);
  }
  double all_scores() const { return double(queries) * double(keys) * (causal ? .5 : 1.); }
  // Forward 2 (d + d_v) per score and head, backward 2.5 times that (FlashAttention-2, arXiv 2307.08691, section 3.1).
  Flops flops() const {
    return Flops(2. * double(batch) * double(heads) * scores() * double(head_dim + values()) * (backward ? 2.5 : 1.));
  }
  // Queries, keys, values and the output once; backward the four gradients besides.
  double operand_bytes() const {
    return double(bytes_per_element(precision)) * double(batch * heads) * double(head_dim + values()) *
           double(queries + keys) * (backward ? 2 : 1);
  }
};

// Kernels whose time is bytes over bandwidth. Dropout kernels are bound by their random generator instead:
// classes of their own, because measured time and byte count disagree (models/README.md).
enum class Traffic : std::uint8_t { plain, with_dropout_forward, with_dropout_backward };
struct MemoryBound {
  Bytes traffic;             // read + written
  std::int64_t kernels = 1;  // launches that the traffic is spread over
  Traffic kind = Traffic::plain;
  Bytes beyond{};  // what the multiprocessors take longer than the memory, at the rate of Gpu::eager_rate
  friend auto operator<=>(const MemoryBound&, const MemoryBound&) = default;
};

// What kernels move of each element, or of all, in bytes; see MemoryBound.
struct Moved {
  double bytes = 0, beyond = 0;
  constexpr Moved(double moved = 0, double longer = 0) : bytes(moved), beyond(longer) {}
  constexpr Moved& operator+=(Moved b) { return bytes += b.bytes, beyond += b.beyond, *this; }
  friend constexpr Moved operator+(Moved a, Moved b) { return {a.bytes + b.bytes, a.beyond + b.beyond}; }
  friend constexpr Moved operator*(double times, Moved a) { return {times * a.bytes, times * a.beyond}; }
  friend constexpr Moved operator*(Moved a, double times) { return times * a; }
};

// The kernels of this program itself, which hw performs and cost prices (`framework: native`). A task that runs one
// names its operands as buffer uses, in the order given here: (read; written). "In place" and accumulated operands are
// written. All tensors are row major. T = rows (tokens of the micro-batch), n = outputs, k = inputs of a linear layer.
// What differs between the ranks of a class (its tensor, data and context index) comes from the rank, not from the
// kernel; where dims end in t the T rows are those of one of t tensor ranks (0: of all); `first`: of the micro-batch's
// rows, for a chunk of them; `documents`: positions begin anew with each document of a sequence. A row of qkv holds
// [Q: heads d | K: kv d | V: kv d] columns; query head i reads the keys and values of head i / (heads / kv) (Ainslie et
// al., arXiv 2305.13245). dims: kv = 0 means as many as heads.
enum class KernelKind : std::uint8_t {
  // --- forward
  load_rows,            // (; x[T,n])  synthetic input rows of the micro-batch                dims T n
  embed,                // (table[r,n]; y[T,n])  rows of this tensor rank's slice, else 0     dims T n r
  add_positions,        // (positions[cs,n]; y[T,n] in place)                       dims T n s c balanced t documents
  layer_norm,           // (x, gain[n], bias[n]; y, stats[T,2]: mean and 1/deviation)         dims T n
  linear,               // (x[T,k], weight[n,k]; y[T,n])  y = x weight^T                      dims T n k
  add_bias,             // (bias; y[T,n] in place)                                            dims T n Bias
  gelu,                 // (u; g)  tanh form                                                  dims elements
  attention,            // (qkv[T,(heads+2kv)d]; out[T,hd], lse[b,heads,s])             dims b heads s d Sight kv
  add_residual,         // (x, bias[n]; r[T,n] in place)  r += x + bias                       dims T n
  cross_entropy_local,  // (logits[T,r]; parts)  max, sum, target logit of the own slice  dims T r vocabulary ranks
                        // first
  cross_entropy,  // (parts[ranks,T,3]; lse[T], loss)                                   dims T r vocabulary ranks total
  squared_error,  // (y[T,n]; loss)                                                     dims T n total
  // --- input gradient
  cross_entropy_gradient,  // (lse[T]; logits[T,r] in place)                            dims T r vocabulary total first
  squared_error_gradient,  // (y[T,n]; dy[T,n])                                               dims T n total
  linear_input_gradient,   // (dy[T,n], weight[n,k]; dx[T,k])  dx = dy weight                 dims T n k
  bias_gradient,           // (dy[T,n]; dbias += column sums)                                 dims T n Bias
  layer_norm_gradient,     // (x, stats, gain; dgain +=, dbias +=, dy -> dx in place)         dims T n
  gelu_gradient,           // (u; dg -> du in place)                                          dims elements
  attention_gradient,      // (qkv, out, lse, dout; dqkv)                               dims b heads s d Sight kv
  add,                     // (a; b += a)                                                     dims elements
  // --- weight gradient
  linear_weight_gradient,  // (dy[T,n], x[T,k]; dweight[n,k] += dy^T x)                       dims T n k
  embed_gradient,          // (dy[T,n]; dtable[r,n] +=)                                       dims T n r
  positions_gradient,      // (dy[T,n]; dpositions[cs,n] +=)                        dims T n s c balanced t documents
  // --- gradients and optimizers, over flat buffers
  clear,          // (; x = 0)                                                                dims elements
  copy,           // (a; b = a)                                                               dims elements
  add_own_shard,  // (whole[shards,e]; shard[e] += the own part of it)                        dims e Replicas
  sgd,    // (; gradient, parameters)  and clears the gradient                   dims e Flat Flat Master Replicas Clip
  adamw,  // (; gradient, parameters, moments[2,e])  and clears the gradient          dims e Flat Flat
  adamw_keep,      // as adamw, but keeps the gradient, for a rollback                         dims e Flat Flat
  adamw_rollback,  // (; gradient, parameters, moments[2,e])  undoes the last adamw_keep      dims e Flat Flat
  // --- Llama (Touvron et al., arXiv 2302.13971, section 2.2). Kinds are appended: their numbers are in digests
  rms_norm,           // (x, gain[n]; y, stats[T]: 1 / root mean square)                      dims T n
  rms_norm_gradient,  // (x, stats, gain; dgain +=, dy -> dx in place)                        dims T n
  rotary,             // (; qkv[T,columns] in place)  first heads d columns       dims T s heads d columns c balanced
  rotary_gradient,    // (; dqkv[T,columns] in place)  turns them back             dims T s heads d columns c balanced
  swiglu,             // (u[T,2f]: gate, up; g[T,f] = silu(gate) up)                          dims T f
  swiglu_gradient,    // (u[T,2f], dg[T,f]; du[T,2f])                                         dims T f
  // --- mixture of experts (Lepikhin et al., arXiv 2006.16668, section 2.2): a row goes to the k experts of its largest
  // logits, into slots that every expert has for the rows of every rank. A slot is expert C + the number of the row
  // among those of the expert, or -1 - expert when there are C already (dropped); slots that no row has are zero
  route,                          // (logits[T,E]; weights[T,k], slots[T,k], p[T,E]: softmax)  dims T E k C sum Routing
  route_gradient,                 // (p, slots, dweights[T,k]; dlogits[T,E])                   dims T E k C sum Routing
  dispatch_rows,                  // (x[T,h], slots; sent[E,C,h])                              dims T h k E C
  dispatch_rows_gradient,         // (dsent, slots; dx[T,h])                                   dims T h k E C
  expert_linear,                  // (x[e,m,C,k], weight[m,n,k]; y[e,m,C,n])                   dims e m C n k
  expert_linear_input_gradient,   // (dy, weight; dx)                                          dims e m C n k
  expert_linear_weight_gradient,  // (dy, x; dweight +=)                                       dims e m C n k
  combine_rows,                   // (back[E,C,h], slots, weights; y[T,h])                     dims T h k E C
  combine_rows_gradient,          // (dy, back, slots, weights; dback, dweights)               dims T h k E C
  // --- sequences cut over c context ranks, s rows of each here (kernels/cut.hpp says which). block: the keys and
  // values of the rank that is `step` before this one; with step = kAllBlocks those of all ranks, block[c,T,2kvd]. Sums
  // are fp32; step 0 (and kAllBlocks) begins them
  attention_part,  // (qkv, block[T,2kvd]; sums[T,hd], lse)                     dims b heads s d Sight kv c step
  attention_part_gradient,  // (qkv, block, out, lse, dout; dq[T,hd] +=, dblock +=)      dims b heads s d Sight kv c
                            // step
  take_columns,             // (x[T,columns]; y[T,n])                                         dims T columns first n
  put_columns,              // (sums[T,n]; x[T,columns] in place)                             dims T columns first n
  // Heads in place of rows, around an all-to-all (Jacobs et al., arXiv 2309.14509): each of the runs of columns [n|m|m]
  // in c equal ones; blocks of whole sequences' rows
  cut_columns,   // (x[T,n+2m]; blocks[c,T,(n+2m)/c])                                        dims T c n m
  join_columns,  // (blocks; x)                                                              dims T c n m
  join_rows,     // (blocks[c,b,s,n]; y[b,c s,n])                                             dims b s n c balanced
  cut_rows,      // (y; blocks)                                                              dims b s n c balanced
  own_rows,      // (x[t T,n]; y[T,n]: those of this tensor rank)                            dims T n t
  // A step of one matrix, whose second moment is kept as sums of rows and of columns; rows = 1: a vector, all of whose
  // moment is kept. Clears the gradient. last: of the matrices of a segment
  adalomo,  // (; gradient[r,c], parameters[r,c], moment[r+c], or [c] of a vector)            dims r c last
  // --- around attention. head_norm: RMS norm of every head of queries and keys, with a gain [d] for all queries and
  // one
  // for all keys (Henry et al., arXiv 2010.04245, section 3; Qwen3); values are copied. sinks: each head has one more
  // score, whose key has no value (Xiao et al., arXiv 2309.17453, section 3; gpt-oss): lse and out become those with
  // it.
  // c > 0: heads are those of one of c context ranks, with whole sequences. gate: y = x sigmoid(u)
  head_norm,                 // (qkv[T,(heads+2kv)d], gain[2,d]; y, stats[T,heads+kv])           dims T heads kv d
  head_norm_gradient,        // (qkv, stats, gain; dgain +=, dy -> dqkv in place)                dims T heads kv d
  attention_sinks,           // (sinks[c heads]; out[T,hd], lse[b,heads,s], both in place)       dims b heads s d c
  attention_sinks_gradient,  // (out, lse, dout, sinks; dsinks +=)                               dims b heads s d c
  gate,                      // (x, u; y)                                                        dims elements
  gate_gradient,             // (x, u, dy; dx, du)                                               dims elements
  // --- Mamba-2 (Dao and Gu, arXiv 2405.21060, section 6). A row of m columns holds [x: heads d | B: groups n |
  // C: groups n]; head i has group i / (heads / groups). c > 0: heads and groups are those of one of c context ranks,
  // with whole sequences. `before` and `after` belong to other pieces of the sequence, if Piece says that there are
  // any. convolve: y = silu(k taps of every column, the bias behind them); g = groups n. scan: the state at the begin
  // of every chunk of n tokens is kept, that behind the last chunk too, and two numbers for each head and token.
  // gated_norm: RMS norm of x silu(z) within each of g runs of columns
  convolve,           // (x[T,m], taps[c m,k+1], before[b,k-1,m]; y[T,m])                        dims T m s k g c Piece
  convolve_gradient,  // (x, taps, before, dy, after[b,k-1,m]; dtaps +=, dx, dbefore)            dims T m s k g c Piece
  last_rows,          // (x[T,m]; y[b,k-1,m])  of every sequence                                 dims T m s k
  scan,  // (x[T,m], steps[T,heads], scalars[3,c heads]; y[T,heads d], kept)   dims b s heads groups n d c Piece
  scan_gradient,  // (x, scalars, kept, dy; dscalars +=, dx, dsteps, scratch)           dims b s heads groups n d c
                  // Piece
  copy_state,     // (from; to)  of `kept` or `scratch`, or one by itself                         dims e from to
  gated_norm,     // (x[T,m], z[T,m], gain[m]; y[T,m], stats[T,g])                                dims T m g
  gated_norm_gradient,  // (x, z, stats, gain, dy; dgain +=, dx, dz)                              dims T m g
  // --- a step on whole matrices (models/optimizers/muon.cpp), all in fp32 but the parameters. momentum: m' = mu m + g,
  // in place of g then g + mu m'. newton_schulz: b = f a + g b with the factors of NewtonSchulz, and those of a last
  // step times 0.2 sqrt(side). muon: a step by the update, which is clear afterwards; [e]: the master copy below fp32
  momentum,        // (; gradient, m[e])                                              dims e Flat - - Replicas
  over_frobenius,  // (; x in place)  x / (||x|| + 1e-7)                              dims elements
  newton_schulz,   // (a; b in place)                                                 dims elements NewtonSchulz side
  muon             // (; update, parameters, master[e])                               dims e Flat Flat - Replicas
};
inline constexpr std::size_t kKernelKinds = static_cast<std::size_t>(KernelKind::muon) + 1;
inline constexpr std::int64_t kAllBlocks = -1;

// Queries see all keys, or those up to their own positions, in the order of the ranks or balanced among them. c = 0 of
// the others means 1.
enum class Mask : std::int64_t { none, causal, causal_balanced };
// dims[4] of attention: what a query sees. Of what the mask leaves, the last `keys` positions, its own included, or
// (chunked) those of its own chunk of as many; 0: all. `documents`: of that what is of its own document, which is data
// of the micro-batch; the number is what that leaves of the scores on average, in 2^-20 (0: a sequence is one
// document). As a dim 3 (2 keys + chunked) + mask, so that without `keys` it is the mask, and documents from bit 40 on.
struct Sight {
  static constexpr std::int64_t kShares = std::int64_t{1} << 20, kDocuments = std::int64_t{1} << 40;
  Mask mask = Mask::none;
  std::int64_t keys = 0;
  bool chunked = false;
  std::int64_t documents = 0;
  constexpr std::int64_t dim() const {
    return documents * kDocuments + 3 * (2 * keys + (chunked ? 1 : 0)) + static_cast<std::int64_t>(mask);
  }
  // The first position that a query at this position sees; chunks are counted from the beginning of its document.
  constexpr std::int64_t first(std::int64_t position, std::int64_t document = 0) const {
    if (keys == 0) return document;
    const std::int64_t within = position - document;
    if (chunked) return position - within % keys;
    return within < keys ? document : position - keys + 1;
  }
  // Whether a query sees less than what the mask leaves it.
  constexpr bool limited() const { return keys > 0 || documents > 0; }
  // What documents leave of the scores.
  constexpr double share() const { return documents > 0 ? double(documents) / double(kShares) : 1; }
};
constexpr Sight sight_of(std::int64_t dim) {
  const std::int64_t documents = dim / Sight::kDocuments, rest = dim % Sight::kDocuments;
  return {static_cast<Mask>(rest % 3), rest / 6, rest / 3 % 2 != 0, documents};
}
// dims[6] of convolve, dims[7] of scan, and of their gradients: which other pieces of its sequences there are.
struct Piece {
  bool follows = false, goes_on = false;
  constexpr std::int64_t dim() const { return (follows ? 1 : 0) + (goes_on ? 2 : 0); }
};
constexpr Piece piece_of(std::int64_t dim) { return {(dim & 1) != 0, (dim & 2) != 0}; }
// Where the parts of `kept` and of `scratch` begin, in elements: states[chunks + 1,b,heads,d,n], then of kept
// [T,heads,2] the step and the logarithm of what it and those before it in its chunk leave of the state; of scratch
// [T,3 heads] what every token adds to dscalars (A_log, D, bias of steps).
struct ScanShape {
  std::int64_t batch = 0, positions = 0, heads = 0, groups = 0, states = 0, depth = 0, context = 1;
  constexpr std::int64_t chunk() const { return states; }
  constexpr std::int64_t chunks() const { return (positions + chunk() - 1) / chunk(); }
  constexpr std::int64_t tokens() const { return batch * positions; }
  constexpr std::int64_t columns() const { return heads * depth + 2 * groups * states; }
  constexpr std::int64_t state() const { return batch * heads * depth * states; }  // of all heads
  constexpr std::int64_t behind_states() const { return (chunks() + 1) * state(); }
  constexpr std::int64_t kept() const { return behind_states() + 2 * heads * tokens(); }
  constexpr std::int64_t scratch() const { return behind_states() + 3 * heads * tokens(); }
};
// dims[2] of the bias kernels: `whole` has one entry per column; `query_value` skips the middle third of the columns
// (the key's bias has no gradient: softmax does not see it).
enum class Bias : std::int64_t { whole, query_value };
// dims[1] and dims[2] of the optimizer kernels: the operand is the e elements themselves (own), or a buffer of all
// shards of which the rank updates its own (part).
enum class Flat : std::int64_t { own, part };
// The axis along which a rank finds the index of its shard: dims[1] of add_own_shard, dims[4] of the optimizers.
// Experts have replicas of their own; shard: where only some of the replicas share states.
enum class Replicas : std::int64_t { data, expert_data, shard };
Axis axis_of(Replicas replicas);
std::int64_t dim_of(Axis replicas);  // as a dim of those kernels
// dims[5] of route: the experts of the largest logits; each in turn, so that all get as many rows; the first k for
// every row. dims[4]: whether the weights of the chosen experts are divided by their sum.
enum class Routing : std::int64_t { by_logits, balanced, skewed };
// dims[3] of sgd, below fp32: it keeps the parameters in fp32 too, or (LOMO) rounds them at every step.
enum class Master : std::int64_t { kept, none };

// dims[5] of sgd: whether its step is scaled by the norm of all gradients; its last operand holds the square of that, a
// double. `add` takes no step: it adds its part to that operand, and clears the gradient as well. Steps are limited to
// norm 1 (LOMO's examples: clip_grad_norm 1).
enum class Clip : std::int64_t { none, add, scale };
inline constexpr double kLargestNorm = 1, kNormOffset = 1e-6;

// dims[1] of newton_schulz: one iteration X' = a X + (b A + c A^2) X, A = X X^T, is products and twice this: of A and
// its square (inner), of the product and X (outer; dims[2] > 0: the last one, and the longer side of the matrix, which
// makes steps as large as AdamW's: Liu et al., arXiv 2502.16982, section 2.2). Coefficients: Jordan et al. 2024 (Muon).
enum class NewtonSchulz : std::int64_t { inner, outer };
inline constexpr float kQuintic[] = {3.4445f, -4.7750f, 2.0315f};
inline constexpr double kMuonScale = .2;
inline constexpr float kMuonMomentum = .95f;
struct Kernel;
struct TwoFactors {
  float of_a, of_b;
};
TwoFactors newton_schulz_factors(const Kernel& kernel);

inline constexpr std::size_t kMostOperands = 8;
using KernelDims = std::array<std::int64_t, 8>;  // as the table says; the rest are 0

struct Kernel {
  KernelKind kind{};
  KernelDims dims{};
  std::array<std::int64_t, kMostOperands> offsets{};  // of each operand: its first element within the buffer
  // Of activations and parameters: fp32 or bf16. See KernelOperand for the operands that stay in fp32.
  Precision precision = Precision::fp32;
  friend auto operator<=>(const Kernel&, const Kernel&) = default;
  Flops flops() const;    // of its matrix products; attention counts the whole square, or what a window leaves of it
  Bytes traffic() const;  // read and written at least once
};

// --- All else of a kernel is a row of one table (kernels.cpp)

// Elements, by the dims of a kernel; `data`: index of the rank among the replicas, on which the reach of a buffer of
// all shards depends.
using ElementCount = std::int64_t (*)(const Kernel& kernel, std::int64_t data);

struct KernelOperand {
  enum class Access : std::uint8_t { read, write, update };  // update: in place, or accumulated
  // values: activations, their gradients and parameters, in the precision of the kernel. All others take four bytes an
  // element. floats: statistics (stats, lse, parts; weights and probabilities of routing), gradients of parameters,
  // what the optimizer keeps. In bf16 that is [3,e]: both moments and the parameters in fp32 (master copy); of sgd the
  // third operand, [e], unless it does without (Master). slots: integers. loss: one double, which is two elements.
  enum class Holds : std::uint8_t { values, floats, slots, loss };
  Access access{};
  Holds holds{};
  ElementCount extent = nullptr;  // from its first element to the last one accessed; below 0: it is left out
  ElementCount moved = nullptr;   // read and written, together; null: the extent, twice for an update
};

// One of the products of a linear layer. Its operands: (x, weight; y), (dy, weight; dx), (dy, x; dweight).
enum class LinearProduct : std::uint8_t { none, forward, input_gradient, weight_gradient };
enum class AttentionPass : std::uint8_t { none, forward, backward };
enum class BatchData : std::uint8_t { none, tokens, rows };  // of the micro-batch; tokens: and targets

struct KernelTraits {
  LinearProduct linear{};
  bool of_experts = false;  // one product for every expert and every rank that sent it rows
  AttentionPass attention{};
  bool scan = false;  // of a state through a sequence
  BatchData data{};
  bool flat = false;  // its first dim is elements, not rows
  bool optimizer = false;
  bool master = false;       // below fp32 it keeps the parameters in fp32 too (but see Master)
  bool positive = false;     // takes a logarithm or a root of operands, which negative ones lead to other code
  std::size_t replicas = 0;  // which dim is Replicas; 0: it works on no shard
};

struct KernelInfo {
  KernelKind kind{};
  const char* name = "";  // with underscores
  std::array<KernelOperand, kMostOperands> operands{};
  KernelTraits traits{};
};
const KernelInfo& info(KernelKind kind);

inline const char* name(KernelKind kind) { return info(kind).name; }
inline const KernelTraits& traits(KernelKind kind) { return info(kind).traits; }
// One product of a linear layer, not those of all experts.
inline bool is_linear(KernelKind kind) {
  return traits(kind).linear != LinearProduct::none && !traits(kind).of_experts;
}
inline bool uses_data(KernelKind kind) { return traits(kind).data != BatchData::none; }
bool uses_data(const Kernel& kernel);        // also where the documents of its sequences begin
bool adds_loss(KernelKind kind);             // its last operand is the loss
std::size_t operands_read(KernelKind kind);  // the number of those before the semicolon, which are only read
// The operand that a kernel reads its slots from, if any.
std::optional<std::size_t> slots_operand(KernelKind kind);

// Elements that a kernel accesses, from the first one of each operand on, in the order of the table.
struct OperandElements {
  std::array<std::int64_t, kMostOperands> elements{};
  std::size_t count = 0;
};
OperandElements operand_elements(const Kernel& kernel, std::int64_t data);
Precision operand_precision(const Kernel& kernel, std::size_t operand);  // fp32 stands for any four bytes
Axis replicas(const Kernel& kernel);  // the axis along which it finds its shard, if it works on one
bool keeps_master(const Kernel& optimizer);

// T n k of a product of a linear layer, for each of `products` products with one of `weights` matrices.
struct LinearLayer {
  std::int64_t rows = 0, outputs = 0, inputs = 0, weights = 1, products = 1;
};
LinearLayer linear_layer(const Kernel& product);
std::optional<Gemm> gemm_of(const Kernel& kernel);  // of a product of linear layers

std::int64_t kv_heads(const Kernel& attention);
// The most that an attention kernel computes on any rank of its context group (with a window on a balanced one: the
// mean): half of the pairs when `causal`.
FusedAttention fused_attention(const Kernel& attention);
ScanShape scan_shape(const Kernel& scan);
// Products of two numbers, forward: scores, once for each group, their products with values, and what goes into states
// and comes out of them. They are few for the bytes, and count as no FLOPs (models/README.md, section 2).
double scan_products(const Kernel& scan);

// shift: every rank sends its buffer to the next rank of the group, and receives that of the previous one.
enum class CollectiveKind : std::uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, shift };
const char* name(CollectiveKind kind);  // "all-reduce"

// Where the ranks of a group sit: all that decides the time of a collective on a machine whose nodes are alike.
struct GroupShape {
  std::uint32_t ranks = 1;   // participants
  std::uint32_t stride = 1;  // GPUs from one to the next
  friend auto operator<=>(const GroupShape&, const GroupShape&) = default;
};

}  // namespace rehearsal
