#include "traces/samples.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace rehearsal::traces {
namespace {

enum class Form : std::uint8_t { mm, addmm, bmm, baddbmm, linear, attention, pointwise, norm };

struct Known {
  std::string_view name;
  Form form;
};
// Operators whose kernels do no more than their inputs and outputs say. `pointwise`: all inputs are read and one output
// is as large as the largest of them, by a vectorized kernel: others are for inputs of several types, or that are not
// contiguous; `norm`: the first input is read and written once.
constexpr Known kKnown[] = {
    {"aten::mm", Form::mm},
    {"aten::addmm", Form::addmm},
    {"aten::bmm", Form::bmm},
    {"aten::baddbmm", Form::baddbmm},
    {"aten::linear", Form::linear},
    {"aten::_scaled_mm", Form::mm},
    {"aten::_flash_attention_forward", Form::attention},
    {"aten::_flash_attention_backward", Form::attention},
    {"aten::_scaled_dot_product_flash_attention", Form::attention},
    {"aten::_scaled_dot_product_flash_attention_backward", Form::attention},
    {"aten::_scaled_dot_product_cudnn_attention", Form::attention},
    {"aten::_scaled_dot_product_cudnn_attention_backward", Form::attention},
    {"aten::_cudnn_attention_forward", Form::attention},
    {"aten::_cudnn_attention_backward", Form::attention},
    {"aten::_efficient_attention_forward", Form::attention},
    {"aten::_efficient_attention_backward", Form::attention},
    {"aten::add", Form::pointwise},
    {"aten::mul", Form::pointwise},
    {"aten::sub", Form::pointwise},
    {"aten::div", Form::pointwise},
    {"aten::neg", Form::pointwise},
    {"aten::gelu", Form::pointwise},
    {"aten::silu", Form::pointwise},
    {"aten::relu", Form::pointwise},
    {"aten::sigmoid", Form::pointwise},
    {"aten::native_layer_norm", Form::norm},
    {"aten::_fused_rms_norm", Form::norm},
};

const Known* known(std::string_view name) {
  for (const auto& one : kKnown)
    if (one.name == name) return &one;
  return nullptr;
}

std::optional<Precision> precision_of(std::string_view type) {
  if (type.starts_with("c10::")) type.remove_prefix(5);
  if (type == "BFloat16") return Precision::bf16;
  if (type == "Half") return Precision::fp16;
  if (type == "float" || type == "Float") return Precision::fp32;
  if (type.starts_with("Float8")) return Precision::fp8;
  if (type.starts_with("Float4")) return Precision::fp4;
  return std::nullopt;
}

using Shape = std::vector<std::int64_t>;
constexpr std::int64_t kLargest = std::int64_t{1} << 40;  // of a size: beyond it nothing is multiplied

std::optional<std::int64_t> elements(const Shape& shape) {
  std::int64_t all = 1;
  for (const auto size : shape) {
    if (size < 0 || size > kLargest || (size > 0 && all > kLargest / size)) return std::nullopt;
    all *= size;
  }
  return all;
}

std::optional<FusedAttention> attention_of(const Operator& op) {
  const auto* form = known(op.name);
  const auto precision = precision_of(op.type);
  if (!form || form->form != Form::attention || !precision) return std::nullopt;
  const bool backward = op.name.ends_with("_backward");
  // Backward: the gradient of the output stands first.
  const std::size_t first = backward ? 1 : 0;
  if (op.shapes.size() < first + 3) return std::nullopt;
  const Shape &q = op.shapes[first], &k = op.shapes[first + 1], &v = op.shapes[first + 2];
  if (q.size() != 4 || k.size() != 4 || v.size() != 4) return std::nullopt;
  // scaled_dot_product has [batch, heads, sequence, head], the kernels' own operators [batch, sequence, heads, head].
  // and cuDNN's as the former.
  const bool heads_first =
      op.name.starts_with("aten::_scaled_dot_product") || op.name.starts_with("aten::_cudnn_attention");
  FusedAttention a;
  a.batch = q[0], a.heads = q[heads_first ? 1 : 2], a.queries = q[heads_first ? 2 : 1];
  a.keys = k[heads_first ? 2 : 1], a.head_dim = q[3];
  a.value_dim = v[3] == q[3] ? 0 : v[3];
  a.backward = backward, a.precision = *precision;
  for (const auto size : {a.batch, a.heads, a.queries, a.keys, a.head_dim})
    if (size <= 0 || size > kLargest) return std::nullopt;
  return a;
}

// Whether an operator of attention masks what comes later; nothing: the values of its inputs are not known.
std::optional<bool> is_causal(const Operator& op) {
  // The place of is_causal among the inputs (PyTorch 2.8 and 2.11, native_functions.yaml).
  static constexpr std::pair<std::string_view, std::size_t> kPlaces[] = {
      {"aten::_flash_attention_forward", 8},
      {"aten::_flash_attention_backward", 11},
      {"aten::_scaled_dot_product_flash_attention", 4},
      {"aten::_scaled_dot_product_flash_attention_backward", 11},
      {"aten::_scaled_dot_product_cudnn_attention", 6},
      {"aten::_cudnn_attention_forward", 10},
      {"aten::_cudnn_attention_backward", 14},
  };
  for (const auto& [name, place] : kPlaces) {
    if (op.name != name || place >= op.values.size()) continue;
    if (op.values[place] == "True") return true;
    if (op.values[place] == "False") return false;
  }
  return std::nullopt;
}

std::optional<Bytes> traffic_of(const Operator& op) {
  const auto* form = known(op.name);
  const auto each = bytes_of(op.type);
  if (!form || (form->form != Form::pointwise && form->form != Form::norm) || each == 0) return std::nullopt;
  std::int64_t read = 0, most = 0;
  for (const auto& shape : op.shapes) {
    if (shape.empty()) continue;
    const auto count = elements(shape);
    if (!count) return std::nullopt;
    read += *count, most = std::max(most, *count);
    if (form->form == Form::norm) break;
  }
  if (most == 0 || read > kLargest) return std::nullopt;
  return Bytes((read + most) * each);
}

Time quantile_of(const std::vector<std::int64_t>& sorted, double q) {
  const auto at = std::size_t(std::max(0., std::ceil(q * double(sorted.size())) - 1));
  return Time(sorted[std::min(at, sorted.size() - 1)] * 1000);
}

template <class S>
void longest_first(std::vector<S>& all) {
  std::stable_sort(all.begin(), all.end(), [](const S& a, const S& b) {
    return double(a.median.count()) * double(a.count) > double(b.median.count()) * double(b.count);
  });
}

}  // namespace

std::optional<models::AttentionKernel> attention_kernel(std::string_view kernel) {
  const auto has = [&](std::string_view text) { return kernel.find(text) != kernel.npos; };
  if (has("cudnn")) return models::AttentionKernel::cudnn;
  if (has("hopper") || has("FlashAttnFwdSm90") || has("FlashAttnBwdSm90")) return models::AttentionKernel::flash3;
  if (has("flash")) return models::AttentionKernel::flash2;
  return std::nullopt;
}

bool is_sampled(std::string_view name) { return known(name) != nullptr; }

std::optional<Gemm> product_of(const Operator& op) {
  const auto* form = known(op.name);
  const auto precision = precision_of(op.type);
  if (!form || !precision) return std::nullopt;
  const bool added = form->form == Form::addmm || form->form == Form::baddbmm;  // what is added stands first
  const std::size_t first = added ? 1 : 0;
  if (op.shapes.size() < first + 2) return std::nullopt;
  const Shape &a = op.shapes[first], &b = op.shapes[first + 1];
  Gemm gemm;
  gemm.precision = *precision;
  switch (form->form) {
    case Form::mm:
    case Form::addmm:
      if (a.size() != 2 || b.size() != 2 || a[1] != b[0]) return std::nullopt;
      gemm.m = a[0], gemm.k = a[1], gemm.n = b[1];
      break;
    case Form::bmm:
    case Form::baddbmm:
      if (a.size() != 3 || b.size() != 3 || a[2] != b[1] || a[0] != b[0]) return std::nullopt;
      gemm.batch = a[0], gemm.m = a[1], gemm.k = a[2], gemm.n = b[2];
      break;
    case Form::linear: {
      if (a.empty() || b.size() != 2 || a.back() != b[1] || b[1] <= 0) return std::nullopt;
      const auto all = elements(a);
      if (!all) return std::nullopt;
      gemm.m = *all / b[1], gemm.k = b[1], gemm.n = b[0];
      break;
    }
    default:
      return std::nullopt;
  }
  for (const auto size : {gemm.m, gemm.n, gemm.k, gemm.batch})
    if (size <= 0 || size > kLargest) return std::nullopt;
  return gemm;
}

Samples samples(const Trace& trace) {
  Samples all;
  struct Call {
    std::int64_t time = 0, longest = -1;
    std::uint32_t kernel = kNone;  // the longest
    Pass pass = Pass::unknown;
  };
  std::vector<Call> calls(trace.calls.size());
  for (const auto& kernel : trace.kernels) {
    const auto kind = trace.kind(kernel);
    if (kind != Kind::gemm && kind != Kind::attention && kind != Kind::memory_bound) continue;
    ++all.kernels;
    if (kernel.moves || kernel.fact == kNone) continue;
    const auto form = known(trace.operators[trace.calls[kernel.fact]].name)->form;
    const Kind of = form == Form::attention                         ? Kind::attention
                    : form == Form::pointwise || form == Form::norm ? Kind::memory_bound
                                                                    : Kind::gemm;
    if (of != kind) continue;  // a product that copies its operands first, ...
    if (form == Form::pointwise && trace.names[kernel.name].text.find("vectorized_") == std::string::npos) continue;
    ++all.with_shapes;
    auto& call = calls[kernel.fact];
    call.time += kernel.duration;
    if (kernel.duration > call.longest) call.longest = kernel.duration, call.kernel = kernel.name;
    call.pass = trace.pass(kernel);
  }
  std::map<std::uint32_t, std::vector<std::int64_t>> times;  // by operator
  std::map<std::uint32_t, std::uint32_t> kernel_of;          // likewise
  std::set<std::uint32_t> backward;                          // likewise: some call is of that pass
  std::set<std::int64_t> tokens;                             // rows of forward products
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].kernel == kNone) continue;
    times[trace.calls[i]].push_back(calls[i].time), kernel_of.try_emplace(trace.calls[i], calls[i].kernel);
    if (calls[i].pass == Pass::backward) backward.insert(trace.calls[i]);
    if (calls[i].pass != Pass::forward) continue;
    if (const auto gemm = product_of(trace.operators[trace.calls[i]])) tokens.insert(gemm->m);
  }
  for (auto& [number, durations] : times) {
    const auto& op = trace.operators[number];
    std::sort(durations.begin(), durations.end());
    const Sample sample{op.name,
                        op.type,
                        durations.size(),
                        quantile_of(durations, .1),
                        quantile_of(durations, .5),
                        quantile_of(durations, .9)};
    if (auto gemm = product_of(op)) {
      // The gradient of a weight adds up over tokens; where its rows may be tokens, too, it is not told apart.
      gemm->weight_gradient =
          gemm->batch == 1 && backward.count(number) && tokens.count(gemm->k) && !tokens.count(gemm->m);
      all.gemms.push_back({sample, *gemm});
    }
    if (auto attention = attention_of(op)) {
      const auto causal = is_causal(op);
      attention->causal = causal.value_or(true);
      all.attention.push_back({sample, *attention, causal.has_value(), kernel_of[number]});
    }
    if (const auto traffic = traffic_of(op)) all.memory_bound.push_back({sample, *traffic});
  }
  longest_first(all.gemms), longest_first(all.attention), longest_first(all.memory_bound);
  return all;
}

}  // namespace rehearsal::traces
