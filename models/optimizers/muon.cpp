// Muon (Jordan et al. 2024; Liu et al., arXiv 2502.16982): matrices of layers keep a momentum alone and step by its
// orthogonal factor; tables, the head and vectors take AdamW's step.
//
// Five Newton-Schulz iterations of three products in 16 bits (2502.16982, section 2.2): X X^T, its square, and their
// sum times X, for the short side m and the long side n: 5 (4 m^2 n + 2 m^3) FLOP. A tensor rank orthogonalises the
// slice that it holds (blockwise, as Megatron-Core's dist_muon by default). ZeRO deals whole matrices to owners:
// momenta go there, and what owners have made goes to all (2502.16982, section 3.1). Never compared with a run of a
// framework.
//
// Native kernels (lower/whole_matrices.hpp) iterate in fp32. Fused products are several matrices here, as in Jordan's
// code: queries, keys and values, and gate and up, are orthogonalised one by one, for their gradients have sizes of
// their own. Whole matrices alone: one rank, with which they are compared, knows of no slices.
#include <algorithm>
#include <map>
#include <utility>

#include "models/part.hpp"
#include "models/registry.hpp"
#include "models/traffic.hpp"

namespace rehearsal::models {
namespace {

constexpr std::int64_t kIterations = 5;

// The gains of queries and keys are two vectors; taps and scalars of heads multiply nothing as matrices do.
bool is_of_vectors(TensorKind kind) {
  constexpr TensorKind kVectors[] = {TensorKind::head_gain, TensorKind::head_scalars, TensorKind::convolution,
                                     TensorKind::value_convolution, TensorKind::state_convolution};
  return std::find(std::begin(kVectors), std::end(kVectors), kind) != std::end(kVectors);
}

bool by_adamw(const Tensor& tensor) {
  return !is_of_layer(tensor.kind) || is_of_vectors(tensor.kind) || matrices_of(tensor).front().rows == 1;
}

double second_moments(std::span<const Tensor> tensors) {
  double bytes = 0;
  for (const auto& tensor : tensors)
    if (by_adamw(tensor)) bytes += 4 * double(tensor.elements());
  return bytes;
}

std::vector<StepPiece> newton_schulz(const StepOf& step) {
  // Of experts and of everything else, which have other replicas: matrices by their short and their long side.
  struct Kind {
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> matrices{};
    double elements = 0;
  };
  Kind dense, experts;
  for (const auto* part : step.parts)
    for (const auto& segment : part->segments)
      for (const auto& tensor : segment.tensors) {
        if (by_adamw(tensor)) continue;
        auto& kind = replicas_of(segment.tensors) == Axis::expert_data ? experts : dense;
        for (const auto& m : matrices_of(tensor)) {
          ++kind.matrices[std::minmax(m.rows, m.columns)];
          kind.elements += double(m.rows) * double(m.columns);
        }
      }
  std::vector<StepPiece> pieces;
  const auto add = [&](const Kind& kind, std::int64_t owners, bool of_experts) {
    const auto exchange = [&](CollectiveKind what) {
      if (owners > 1 && kind.elements > 0)
        pieces.push_back({StepPiece::Exchange{what, bytes(2 * kind.elements), of_experts}});
    };
    exchange(CollectiveKind::all_to_all);
    for (const auto& [shape, all] : kind.matrices) {
      const auto [m, n] = shape;
      const auto count = static_cast<std::uint32_t>(kIterations * ((all + owners - 1) / owners));
      for (const auto& gemm : {Gemm{m, m, n}, Gemm{m, m, m}, Gemm{m, n, m}}) pieces.push_back({gemm, count});
    }
    exchange(CollectiveKind::all_gather);
  };
  add(dense, step.shards, false), add(experts, step.expert_shards, true);
  return pieces;
}

bool steps_whole(const Tensor& tensor) { return !by_adamw(tensor); }

// Of segments without matrices of layers.
std::vector<Kernel> kernels(const OwnShard& own) { return {own.flat(KernelKind::adamw)}; }

std::string kernels_refuse(const Setting& setting) {
  if (setting.tensor > 1)
    return "steps on whole matrices for muon, of which each tensor rank has a slice; set 'tensor' to 1, or 'optimizer' "
           "to adamw";
  if (setting.experts)
    return "has one matrix for all experts of a rank, and muon steps on the matrix of each; set 'optimizer' to adamw";
  return "";
}

// One moment less than AdamW reads and writes.
double moves_more(const Training&) { return -8; }

}  // namespace

void register_muon(Registry& registry) {
  registry.add({.name = "muon",
                .summary = "orthogonalized momentum for the layers' matrices, adamw for the rest",
                .moments = 1,
                .also_keeps = second_moments,
                .shards_also = true,
                .learning_rate = 1e-3,
                .weight_decay = .1,
                .moves_more = moves_more,
                .on_matrices = newton_schulz,
                .kernels = kernels,
                .steps_whole = steps_whole,
                .bf16_tolerance = .2,
                .kernels_refuse = kernels_refuse});
}

}  // namespace rehearsal::models
