#include "kernels/host.hpp"

#include <vector>

#include "kernels/executor.hpp"
#include "kernels/expert_products.hpp"
#include "kernels/run_passes.hpp"

namespace rehearsal::kernels {
namespace {

using Floats32 = std::vector<float>;

template <class T>
Floats32 widen(const void* from, std::int64_t elements) {
  const T* values = static_cast<const T*>(from);
  Floats32 wide(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) wide[static_cast<std::size_t>(i)] = widened(values[i]);
  return wide;
}

void multiply(const Call& call, ProductFunction function) {
  Product product = product_of(call.kernel);
  const auto& x = call.operands;
  if (call.kernel.precision == Precision::fp32) {
    product.a = static_cast<const float*>(x[0]), product.b = static_cast<const float*>(x[1]);
    product.c = static_cast<float*>(x[2]);
    return function(product);
  }
  INVARIANT(call.kernel.precision == Precision::bf16, "kernels are made for fp32 and bf16");
  const Floats32 a = widen<BFloat16>(x[0], product.m * product.k), b = widen<BFloat16>(x[1], product.k * product.n);
  product.a = a.data(), product.b = b.data();
  if (product.accumulate) {  // stays in fp32
    product.c = static_cast<float*>(x[2]);
    return function(product);
  }
  Floats32 c(static_cast<std::size_t>(product.m * product.n));
  product.c = c.data();
  function(product);
  auto* rounded = static_cast<BFloat16*>(x[2]);
  for (std::size_t i = 0; i < c.size(); ++i) rounded[i] = stored<BFloat16>(c[i]);
}

}  // namespace

void plain_product(const Product& p) {
  for (std::int64_t i = 0; i < p.m; ++i) {
    float* row = p.c + i * p.n;
    if (!p.accumulate) std::fill_n(row, p.n, 0.f);
    for (std::int64_t k = 0; k < p.k; ++k) {
      const float a = p.a[p.transposed_a ? k * p.m + i : i * p.k + k];
      for (std::int64_t j = 0; j < p.n; ++j) row[j] += a * p.b[p.transposed_b ? j * p.k + k : k * p.n + j];
    }
  }
}

void perform_on_host(const Call& call, ProductFunction product, const HostOrder& order) {
  if (is_linear(call.kernel.kind)) return multiply(call, product);
  if (traits(call.kernel.kind).of_experts)
    return each_expert_call(call, [&](const Call& one) { multiply(one, product); });
  passes(call, order.multiprocessors, Executor(order));
}

void accumulate_on_host(Precision precision, void* to, const void* from, std::int64_t elements) {
  Call call;
  call.kernel = {KernelKind::add, {elements}, {}, precision};
  call.operands = {const_cast<void*>(from), to};
  perform_on_host(call);
}

}  // namespace rehearsal::kernels
