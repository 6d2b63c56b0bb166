// Linear layers as frameworks run them: GEMMs, casts of their operands to fp8, and both gradients.
#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "models/framework_rewrite.hpp"

namespace rehearsal::models {
namespace {

// Bytes per element that a cast to fp8 moves: 2 read, 1 written. The maximum of a row is known only after the whole row
// was read, so a row is read twice; the 128 elements of a block stay in registers, with an fp32 scale for each block.
// The maximum of a tensor comes from the previous kernel or step, unless it is the current one: then 2 more are read.
constexpr double cast_bytes(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::tensorwise:
      return 3;
    case Fp8Scaling::current:
    case Fp8Scaling::rowwise:
      return 5;
    case Fp8Scaling::blockwise:
      return 3 + 4. / 128;
    case Fp8Scaling::mx:
      return 3 + 1. / 32;
  }
  return 0;
}

// NVFP4: along each dimension of the tensor 1/2 byte and 1/16 of scales are written. The weight gradient takes what a
// Hadamard transform made of its operands, and gradients are rounded stochastically (arXiv 2509.25149, section 4), so
// neither cast follows from the other. Reads for the maxima, the transform and the casts, and what the transform
// writes in between: 11 1/8 bytes an element (NVIDIA/TransformerEngine, pull 3317).
constexpr double kFp4 = .5 + 1. / 16, kFp4CastBytes = 11.125;

// A scale for each row is torchao's recipe. Its cast along the other dimension, which torch.compile makes, takes so
// many times longer than one along rows: 3.5 to 4.5 times as long as a kernel of Triton's (pytorch/ao pull 1932), which
// reaches 3.9 TB/s where the cast along rows reaches 5.5 (torchao/prototype/mx_formats/README.md, B200).
constexpr double kAcrossRows = 5;

// The steps of a linear operator.
struct Names {
  std::string_view forward, gradient, weights;
};
constexpr Names kLinear[] = {{"qkv", "qkv gradient", "qkv weights"},
                             {"attention out", "attention out gradient", "attention out weights"},
                             {"mlp up", "mlp up gradient", "mlp up weights"},
                             {"mlp down", "mlp down gradient", "mlp down weights"},
                             {"head", "head gradient", "head weights"},
                             {"query down", "query down gradient", "query down weights"},
                             {"query up", "query up gradient", "query up weights"},
                             {"latent down", "latent down gradient", "latent down weights"},
                             {"latent up", "latent up gradient", "latent up weights"},
                             {"shared up", "shared up gradient", "shared up weights"},
                             {"shared down", "shared down gradient", "shared down weights"},
                             {"join", "join gradient", "join weights"},
                             {"patch embedding", "patch embedding gradient", "patch embedding weights"},
                             {"output gate", "output gate gradient", "output gate weights"},
                             {"index query", "index query gradient", "index query weights"},
                             {"index key", "index key gradient", "index key weights"},
                             {"mixer in", "mixer in gradient", "mixer in weights"},
                             {"mixer out", "mixer out gradient", "mixer out weights"},
                             {"latent in", "latent in gradient", "latent in weights"},
                             {"latent out", "latent out gradient", "latent out weights"}};
const Names& names(std::string_view linear) {
  const auto* found =
      std::find_if(std::begin(kLinear), std::end(kLinear), [&](auto& n) { return n.forward == linear; });
  INVARIANT(found != std::end(kLinear), "every linear operator has names for its gradients");
  return *found;
}

}  // namespace

Gemm FrameworkRewrite::product(const Operator& op) const {
  const auto precision = op.section != Section::none ? run_.training.precision : unscaled(run_.training.precision);
  const auto& in = block_.values[op.in[0]];
  return {in.elements / in.columns, block_.columns(op.out), block_.columns(op.in), 1, precision, false};
}

// Elements that a GEMM of this rank casts of an operand. A tensor's scale is known before its parts are gathered, so
// each rank casts its own part; with a scale per row, every rank casts all that it gathered (torchtitan gathers in fp8
// with tensor-wise scales only).
double FrameworkRewrite::cast_elements(Index v) const {
  const bool whole = run_.framework.fp8_scaling == Fp8Scaling::rowwise;
  const auto source = entered_from_[v];
  return double(block_.values[source && !whole ? *source : v].elements);
}
// One kernel per pass, unless casts are parts of the kernels before them.
void FrameworkRewrite::cast(List& list, const Operator& op, bool back, Operands& of_product) {
  if (!run_.fp8() || op.section == Section::none) return;
  const auto scaling = run_.framework.fp8_scaling;
  const bool fp4 = run_.training.precision == Precision::fp4;
  const double inputs = cast_elements(op.in[0]);
  double moved = inputs, slow = 0;
  std::string_view last = "mlp down";
  if (back) {
    // One scale per tensor serves the input gradient and the weight gradient. Scales along K do not: the weight
    // gradient sums over tokens, so gradients are cast a second time along them, and the inputs again.
    double gradients = 0;
    const bool whole = scaling == Fp8Scaling::rowwise;
    for (const auto v : op.out)
      gradients += before_gather_[v] && !whole ? double(part_.values[*before_gather_[v]].size.count()) / element_
                                               : double(block_.values[v].elements);
    const double across = scales_tensors(scaling) || fp4 ? 0 : gradients + inputs;
    moved = gradients + across;
    if (scaling == Fp8Scaling::rowwise) slow = (kAcrossRows - 1) * across;
    last = "qkv";
  }
  // Gathered operands are cast before they are gathered.
  const auto* gather = list.empty() ? nullptr : std::get_if<GroupCollective>(&list.back().what);
  const bool before = gather && gather->kind == CollectiveKind::all_gather;
  Operands operands;
  if (before)
    operands.push_back(list.back().operands.front());
  else
    for (const auto v : back ? op.out : op.in) operands.push_back(read(back ? *gradients_[v] : v));
  const Index narrow = value((fp4 ? kFp4 : 1) * moved);
  operands.push_back(write(narrow));
  of_product.push_back(read(narrow));
  // Of a gathered operand only the rank's own part, if that was what was cast.
  const bool own = !entered_from_[op.in[0]] || scaling != Fp8Scaling::rowwise;
  if (!back && keeps_cast(op.in[0]) && own) casts_[op.in[0]] = narrow;
  list.insert(list.end() - (before ? 1 : 0),
              traffic("fp8 cast", (fp4 ? kFp4CastBytes : cast_bytes(scaling)) * (moved + slow), op.name == last ? 1 : 0,
                      back, std::move(operands)));
}

void FrameworkRewrite::forward_linear(const Operator& op) {
  Operands operands{read(op.in[0])};
  cast(part_.forward, op, false, operands);
  dequantise(part_.forward, op, operands);
  if (const auto tiles = tiles_of(op); !tiles.empty()) return forward_tiles(op, operands, tiles);
  for (const auto v : op.out) operands.push_back(write(v));
  part_.forward.push_back({op.name, product(op), std::move(operands)});
  if (adapted(op)) forward_adapter(op);
}

// With sequence parallelism the gathered input, which the weight gradient needs, was not kept and is gathered again
// meanwhile (Korthikanti 2205.05198, section 4.2.2). A weight gradient in its own pass has only the parts. Shared
// experts beside an exchange gather outside of their GEMM, which keeps its input.
void FrameworkRewrite::backward_linear(const Operator& op) {
  auto& list = part_.input_gradient_steps;
  const Gemm forward = product(op);
  const Gemm back = input_gradient(forward);
  const Index in = op.in[0];
  Step step{names(op.name).gradient, back, {}};
  cast(list, op, true, step.operands);
  dequantise(list, op, step.operands);
  WeightGradient weight{names(op.name).gradient, {names(op.name).weights, weight_gradient(forward), {}}, {}};
  for (const auto v : op.out) {
    step.operands.push_back(read(*gradients_[v]));
    weight.step.operands.push_back(read(*gradients_[v]));
    weight.kept.push_back(read(before_gather_[v].value_or(*gradients_[v])));
  }
  // The input is for the weight gradient; frozen weights have none.
  const bool frozen = !learns(op), read_again = !frozen || (adapted(op) && !copies_adapter_input());
  Index at_hand = frozen ? in : casts_[in].value_or(in), until_then = at_hand;
  if (read_again && entered_from_[in] && !run_.framework.saves_gathered && !beside_exchange(op)) {
    const Index parts = casts_[in].value_or(*entered_from_[in]);
    const Index again = value(double(part_.values[in].size.count()), Value::Holds::gathered);
    step.what = OverlappedKernel{back, 1, of_tokens(CollectiveKind::all_gather, in)};
    step.operands.push_back(read(parts));
    step.operands.push_back(write(again));
    at_hand = again, until_then = parts;
  }
  weight.step.operands.push_back(read(at_hand));
  weight.kept.push_back(read(until_then));
  if (const auto tiles = tiles_of(op); !tiles.empty()) {
    step.tile = first_tile_.at(&op);
    return backward_tiles(std::move(step), weight, in, tiles);
  }
  if (is_given(in)) {  // sums for the bias alone
    step.what = plain(step.name, element_ * double(forward.m) * double(forward.n), 1, {}).what;
  } else {
    step.operands.push_back(write(gradient_of(in)));
  }
  list.push_back(std::move(step));
  if (!frozen) return weights_.push_back(std::move(weight));
  if (adapted(op)) backward_adapter(op, at_hand, until_then);
}

}  // namespace rehearsal::models
