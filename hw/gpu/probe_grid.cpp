// Which shapes of kernels a probe times.
#include <array>

#include "gpu/probe.hpp"

namespace rehearsal::gpu {
namespace {

using Dims = KernelDims;

// Tokens, outputs, inputs: layers of transformers with hidden size 1024 to 8192, squares, and sizes that do not fill
// tiles. The third of each row is held out.
constexpr std::array<std::array<std::int64_t, 3>, 33> kProducts{
    {{2048, 4096, 4096},  {2048, 12288, 4096}, {256, 4096, 4096},   //
     {2048, 16384, 4096}, {2048, 4096, 16384}, {3072, 3072, 3072},  //
     {4096, 4096, 4096},  {4096, 12288, 4096}, {2048, 8192, 8192},  //
     {4096, 16384, 4096}, {4096, 4096, 16384}, {2048, 5120, 1280},  //
     {1024, 4096, 4096},  {1024, 12288, 4096}, {512, 4096, 4096},   //
     {1024, 16384, 4096}, {1024, 4096, 16384}, {1000, 3000, 2000},  //
     {2048, 1024, 1024},  {8192, 8192, 8192},  {4096, 8192, 2048},  //
     {8192, 4096, 4096},  {2048, 3072, 1024},  {2048, 4096, 1024},  //
     {128, 4096, 4096},   {2048, 1024, 4096},  {4096, 2048, 8192},  //
     {4096, 2048, 2048},  {2048, 32000, 4096}, {4224, 2056, 4104},  //
     {512, 512, 512},     {8192, 1024, 4096},  {1024, 1024, 1024}}};
constexpr std::array<std::array<std::int64_t, 2>, 9> kRows{{{512, 1024},
                                                            {2048, 1024},
                                                            {2048, 4096},
                                                            {8192, 1024},
                                                            {4096, 4096},
                                                            {1024, 8192},
                                                            {8192, 4096},
                                                            {512, 4096},
                                                            {2048, 16384}}};
constexpr std::array<std::int64_t, 9> kElements{1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 23,
                                                1 << 24, 3 << 23, 1 << 25, 1 << 26};
// Sequences of a micro-batch, heads, tokens of a sequence, size of a head.
constexpr std::array<std::array<std::int64_t, 4>, 6> kHeads{
    {{1, 16, 512, 64}, {1, 32, 2048, 128}, {2, 16, 1024, 64}, {1, 32, 1024, 128}, {4, 16, 512, 64}, {1, 8, 4096, 128}}};
// Tokens, vocabulary.
constexpr std::array<std::array<std::int64_t, 2>, 6> kLogits{
    {{512, 32000}, {2048, 32000}, {1024, 50304}, {4096, 32000}, {1024, 8192}, {2048, 50304}}};
constexpr std::int64_t kVocabulary = 32000, kPositions = 2048, kTurned = 128, kExperts = 8;

class Grid {
 public:
  explicit Grid(bool quick) : quick_(quick) {}

  // Every third shape is held out; `quick` takes every other shape, which keeps that share. `most`: shapes of the list.
  template <class List, class Make>
  void add(std::initializer_list<KernelKind> kinds, std::initializer_list<Precision> precisions, const List& list,
           Make&& make, std::size_t most = 1000) {
    for (const Precision precision : precisions)
      for (const KernelKind kind : kinds)
        for (std::size_t i = 0; i < std::min(most, list.size()); i += quick_ ? 2 : 1) {
          const Kernel kernel{kind, make(list[i]), {}, precision};
          if (precision != Precision::fp8 || divides(kernel, 16)) kernels_.push_back({kernel, i % 3 == 2});
        }
  }
  std::vector<ProbedKernel> take() { return std::move(kernels_); }

 private:
  // Products in fp8 exist for multiples of 16 only (cuda/gemm.hpp).
  static bool divides(const Kernel& product, std::int64_t by) {
    return product.dims[0] % by == 0 && product.dims[1] % by == 0 && product.dims[2] % by == 0;
  }

  bool quick_;
  std::vector<ProbedKernel> kernels_;
};

}  // namespace

// In order of importance, because time may run out.
std::vector<ProbedKernel> kernel_grid(bool quick) {
  using enum KernelKind;
  using enum Precision;
  Grid grid(quick);
  const auto product = [](auto& p) { return Dims{p[0], p[1], p[2]}; };
  const auto row = [](auto& r) { return Dims{r[0], r[1]}; };
  grid.add({linear, linear_input_gradient, linear_weight_gradient}, {bf16}, kProducts, product);
  grid.add({layer_norm, layer_norm_gradient, add_residual}, {bf16, fp32}, kRows, row);
  grid.add({add_bias, bias_gradient}, {bf16, fp32}, kRows, [](auto& r) {
    return Dims{r[0], r[1], std::int64_t(Bias::whole)};
  });
  grid.add({gelu, gelu_gradient, add, copy, clear}, {bf16, fp32}, kElements, [](auto e) { return Dims{e}; });
  grid.add({adamw, sgd}, {bf16, fp32}, kElements, [](auto e) {
    return Dims{e, std::int64_t(Flat::own), std::int64_t(Flat::own)};
  });
  for (const std::int64_t causal : {1, 0})
    grid.add(
        {attention, attention_gradient}, {bf16, fp32}, kHeads,
        [causal](auto& h) {
          return Dims{h[0], h[1], h[2], h[3], causal};
        },
        causal ? 6 : 3);
  grid.add({cross_entropy_local}, {bf16, fp32}, kLogits, [](auto& l) { return Dims{l[0], l[1], l[1], 1}; });
  grid.add({cross_entropy}, {bf16, fp32}, kLogits, [](auto& l) { return Dims{l[0], l[1], l[1], 1, l[0]}; });
  grid.add({cross_entropy_gradient}, {bf16, fp32}, kLogits, [](auto& l) { return Dims{l[0], l[1], l[1], l[0]}; });
  grid.add({embed, embed_gradient}, {bf16, fp32}, kRows, [](auto& r) { return Dims{r[0], r[1], kVocabulary}; });
  grid.add({add_positions, positions_gradient}, {bf16, fp32}, kRows, [](auto& r) { return Dims{r[0], r[1], r[0]}; });
  grid.add({linear, linear_input_gradient, linear_weight_gradient}, {fp32}, kProducts, product, 21);
  grid.add({linear}, {tf32, fp8}, kProducts, product);
  grid.add({load_rows}, {bf16, fp32}, kRows, row, 6);
  grid.add(
      {own_rows}, {bf16, fp32}, kRows,
      [](auto& r) {
        return Dims{r[0] / 2, r[1], 2};
      },
      3);
  grid.add({rms_norm, rms_norm_gradient, swiglu, swiglu_gradient}, {bf16, fp32}, kRows, row, 6);
  grid.add(
      {attention_part, attention_part_gradient}, {bf16, fp32}, kHeads,
      [](auto& h) { return Dims{h[0], h[1], h[2], h[3], std::int64_t(Mask::none), h[1], 2, 0}; }, 3);
  grid.add(
      {take_columns, put_columns}, {bf16, fp32}, kRows,
      [](auto& r) {
        return Dims{r[0], r[1], r[1] / 4, r[1] / 2};
      },
      3);
  grid.add(
      {cut_columns, join_columns}, {bf16, fp32}, kRows,
      [](auto& r) {
        return Dims{r[0], 2, r[1] / 2, r[1] / 4};
      },
      3);
  grid.add(
      {cut_rows, join_rows}, {bf16, fp32}, kRows,
      [](auto& r) {
        return Dims{1, r[0], r[1], 2, 1};
      },
      3);
  // Eight experts, two per row.
  grid.add(
      {route, route_gradient}, {bf16, fp32}, kRows,
      [](auto& r) {
        return Dims{r[0], r[1] / 128, 2, r[0], 1};
      },
      3);
  grid.add(
      {dispatch_rows, dispatch_rows_gradient, combine_rows, combine_rows_gradient}, {bf16, fp32}, kRows,
      [](auto& r) {
        return Dims{r[0], r[1], 2, kExperts, r[0] / 4};
      },
      6);
  grid.add(
      {expert_linear, expert_linear_input_gradient, expert_linear_weight_gradient}, {bf16, fp32}, kProducts,
      [](auto& p) {
        return Dims{2, 2, p[0] / 4, p[1], p[2]};
      },
      6);
  grid.add(
      {rotary, rotary_gradient}, {bf16, fp32}, kRows,
      [](auto& r) {  // turns queries and keys, not values
        return Dims{r[0], kPositions, r[1] / kTurned, kTurned, r[1] * 3 / 2};
      },
      6);
  grid.add(
      {gate, gate_gradient}, {bf16, fp32}, kElements, [](auto e) { return Dims{e}; }, 6);
  grid.add(
      {head_norm, head_norm_gradient}, {bf16, fp32}, kRows,
      [](auto& r) {
        return Dims{r[0], r[1] / kTurned, r[1] / kTurned, kTurned};
      },
      6);
  grid.add(
      {attention_sinks, attention_sinks_gradient}, {bf16, fp32}, kHeads,
      [](auto& h) {
        return Dims{h[0], h[1], h[2], h[3]};
      },
      6);
  grid.add(
      {convolve, convolve_gradient}, {bf16, fp32}, kRows,
      [](auto& r) {
        return Dims{r[0], r[1], r[0], 4};
      },
      3);
  grid.add(
      {last_rows}, {bf16, fp32}, kRows,
      [](auto& r) {
        return Dims{r[0], r[1], 4, 4};
      },
      3);
  grid.add(
      {scan, scan_gradient}, {bf16, fp32}, kHeads, [](auto& h) { return Dims{h[0], h[2], h[1], h[1], h[3], h[3]}; }, 3);
  grid.add(
      {copy_state}, {bf16, fp32}, kElements, [](auto e) { return Dims{e}; }, 3);
  grid.add(
      {gated_norm, gated_norm_gradient}, {bf16, fp32}, kRows,
      [](auto& r) {
        return Dims{r[0], r[1], r[1] / kTurned};
      },
      3);
  grid.add(
      {squared_error, squared_error_gradient}, {bf16, fp32}, kRows,
      [](auto& r) {
        return Dims{r[0], r[1], r[0]};
      },
      6);
  grid.add(
      {add_own_shard}, {bf16, fp32}, kElements, [](auto e) { return Dims{e}; }, 6);
  grid.add(
      {adamw_keep, adamw_rollback}, {bf16, fp32}, kElements,
      [](auto e) {
        return Dims{e, std::int64_t(Flat::own), std::int64_t(Flat::own)};
      },
      6);
  grid.add(
      {momentum, muon}, {bf16, fp32}, kElements,
      [](auto e) {
        return Dims{e, std::int64_t(Flat::own), std::int64_t(Flat::own)};
      },
      6);
  grid.add(
      {over_frobenius, newton_schulz}, {bf16, fp32}, kElements, [](auto e) { return Dims{e}; }, 6);
  grid.add(
      {adalomo}, {bf16, fp32}, kRows,
      [](auto& r) {
        return Dims{r[0], r[1], 1};
      },
      6);
  return grid.take();
}

}  // namespace rehearsal::gpu
