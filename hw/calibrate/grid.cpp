#include "calibrate/grid.hpp"

#include <array>

namespace rehearsal::calibrate {
namespace {

using Dims = KernelDims;

// Rows, outputs, inputs: square, wide and tall products, each matrix in turn the largest; 2^13 to 2^27 FLOP.
constexpr std::array<std::array<std::int64_t, 3>, 21> kProducts{
    {{16, 16, 16},   {32, 64, 64},    {128, 64, 64},   {64, 256, 64},   {64, 64, 256},   {16, 256, 256},
     {8, 1024, 256}, {128, 128, 128}, {512, 64, 64},   {512, 256, 64},  {512, 64, 256},  {128, 256, 256},
     {32, 512, 512}, {64, 1024, 256}, {64, 256, 1024}, {128, 512, 512}, {256, 256, 256}, {512, 256, 256},
     {128, 101, 64}, {48, 96, 192},   {256, 512, 512}}};
constexpr std::array<std::array<std::int64_t, 2>, 9> kRows{
    {{16, 32}, {32, 64}, {64, 256}, {256, 64}, {128, 512}, {512, 256}, {2048, 64}, {256, 2048}, {1024, 1024}}};
constexpr std::array<std::int64_t, 8> kElements{256, 2048, 16384, 49152, 131072, 262144, 524288, 1048576};
constexpr std::array<std::array<std::int64_t, 4>, 10> kHeads{{{1, 1, 32, 16},
                                                              {1, 4, 32, 16},
                                                              {2, 2, 32, 16},
                                                              {4, 4, 32, 32},
                                                              {1, 2, 128, 32},
                                                              {1, 4, 128, 64},
                                                              {4, 4, 64, 16},
                                                              {1, 1, 256, 64},
                                                              {2, 4, 128, 16},
                                                              {1, 2, 512, 32}}};

constexpr std::int64_t kVocabulary = 1000, kPositions = 64, kTurned = 32, kExperts = 8;

class Grid {
 public:
  explicit Grid(bool quick) : quick_(quick) {}

  template <class List, class Make>
  void add(std::initializer_list<KernelKind> kinds, const List& list, Make&& make) {
    for (const auto kind : kinds) {
      std::size_t i = 0;
      for (const auto& entry : list)
        if (!quick_ || (i++ % 3 == 0 && i < list.size())) kernels_.push_back({kind, make(entry), {}});
    }
  }
  std::vector<Kernel> take() { return std::move(kernels_); }

 private:
  bool quick_;
  std::vector<Kernel> kernels_;
};

}  // namespace

std::vector<Kernel> kernel_grid(bool quick) {
  using enum KernelKind;
  Grid grid(quick);
  grid.add({linear, linear_input_gradient, linear_weight_gradient}, kProducts, [](auto& p) {
    return Dims{p[0], p[1], p[2]};
  });
  for (const std::int64_t causal : {1, 0})
    grid.add({attention, attention_gradient}, kHeads, [causal](auto& h) {
      return Dims{h[0], h[1], h[2], h[3], causal};
    });
  grid.add(
      {load_rows, layer_norm, add_residual, layer_norm_gradient, rms_norm, rms_norm_gradient, swiglu, swiglu_gradient},
      kRows, [](auto& r) {
        return Dims{r[0], r[1]};
      });
  grid.add({attention_part, attention_part_gradient}, kHeads,
           [](auto& h) { return Dims{h[0], h[1], h[2], h[3], std::int64_t(Mask::none), h[1], 2, 0}; });
  grid.add({own_rows}, kRows, [](auto& r) { return Dims{r[0], r[1], 2}; });
  grid.add({take_columns, put_columns}, kRows, [](auto& r) { return Dims{r[0], r[1], r[1] / 4, r[1] / 2}; });
  grid.add({cut_columns, join_columns}, kRows, [](auto& r) { return Dims{r[0], 2, r[1] / 2, r[1] / 4}; });
  grid.add({cut_rows, join_rows}, kRows, [](auto& r) { return Dims{1, r[0], r[1], 2, 1}; });
  // Eight experts, two per row.
  grid.add({route, route_gradient}, kRows, [](auto& r) { return Dims{r[0], r[1], 2, r[0], 1}; });
  grid.add({dispatch_rows, dispatch_rows_gradient, combine_rows, combine_rows_gradient}, kRows, [](auto& r) {
    return Dims{r[0], r[1], 2, kExperts, r[0] / 4 + 1};
  });
  grid.add({expert_linear, expert_linear_input_gradient, expert_linear_weight_gradient}, kProducts, [](auto& p) {
    return Dims{2, 2, p[0] / 4, p[1], p[2]};
  });
  // Queries and keys of equal width; values are not rotated.
  grid.add({rotary, rotary_gradient}, kRows, [](auto& r) {
    return Dims{r[0], kPositions, r[1] / kTurned, kTurned, r[1] * 3 / 2};
  });
  grid.add({add_bias, bias_gradient}, kRows, [](auto& r) { return Dims{r[0], r[1], std::int64_t(Bias::whole)}; });
  grid.add({add_positions, positions_gradient}, kRows, [](auto& r) { return Dims{r[0], r[1], kPositions}; });
  grid.add({embed, embed_gradient}, kRows, [](auto& r) { return Dims{r[0], r[1], kVocabulary}; });
  grid.add({squared_error, squared_error_gradient}, kRows, [](auto& r) { return Dims{r[0], r[1], r[0]}; });
  grid.add({cross_entropy_local}, kRows, [](auto& r) { return Dims{r[0], r[1], r[1], 1}; });
  grid.add({cross_entropy}, kRows, [](auto& r) { return Dims{r[0], r[1], r[1], 1 + r[1] / 256, r[0]}; });
  grid.add({cross_entropy_gradient}, kRows, [](auto& r) { return Dims{r[0], r[1], r[1], r[0]}; });
  grid.add({gelu, gelu_gradient, add, clear, copy, add_own_shard}, kElements, [](auto e) { return Dims{e}; });
  grid.add({gate, gate_gradient}, kElements, [](auto e) { return Dims{e}; });
  grid.add({head_norm, head_norm_gradient}, kRows, [](auto& r) { return Dims{r[0], r[1] / kTurned, 0, kTurned}; });
  grid.add({attention_sinks, attention_sinks_gradient}, kHeads, [](auto& h) { return Dims{h[0], h[1], h[2], h[3]}; });
  // Heads of one group each, with states as wide as the heads; sequences of four rows, of which the last three are
  // taken.
  grid.add({convolve, convolve_gradient}, kRows, [](auto& r) { return Dims{r[0], r[1], r[0], 4}; });
  grid.add({last_rows}, kRows, [](auto& r) { return Dims{r[0], r[1], 4, 4}; });
  grid.add({scan, scan_gradient}, kHeads, [](auto& h) { return Dims{h[0], h[2], h[1], h[1], h[3], h[3]}; });
  grid.add({copy_state}, kElements, [](auto e) { return Dims{e}; });
  grid.add({gated_norm, gated_norm_gradient}, kRows, [](auto& r) { return Dims{r[0], r[1], r[1] / kTurned}; });
  grid.add({over_frobenius, newton_schulz}, kElements, [](auto e) { return Dims{e}; });
  grid.add({sgd, adamw, adamw_keep, adamw_rollback, momentum, muon}, kElements, [](auto e) {
    return Dims{e, std::int64_t(Flat::own), std::int64_t(Flat::own)};
  });
  grid.add({adalomo}, kRows, [](auto& r) { return Dims{r[0], r[1], 1}; });
  return grid.take();
}

}  // namespace rehearsal::calibrate
