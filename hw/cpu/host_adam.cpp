#include "cpu/host_adam.hpp"

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "base/bf16.hpp"
#include "cpu/vectors.hpp"

namespace rehearsal::cpu {
namespace {

// Scalars of a step, the same for all elements.
struct Rates {
  float rate, epsilon, correction1, correction2, b1, b2, decay;
  Rates(const backend::TrainingData& o, std::int64_t t)
      : rate(o.learning_rate),
        epsilon(o.epsilon),
        correction1(float(1 - std::pow(double(o.beta1), double(t)))),
        correction2(float(1 - std::pow(double(o.beta2), double(t)))),
        b1(o.beta1),
        b2(o.beta2),
        decay(1 - o.learning_rate * o.weight_decay) {}
};

// Compiled for each instruction set: the compiler vectorises it, because the arrays do not overlap.
template <bool kStored>
REHEARSAL_BODY void step(const Rates r, std::int64_t n, const float* __restrict gradient, float* __restrict parameters,
                         float* __restrict m, float* __restrict v, std::uint16_t* __restrict stored) {
  for (std::int64_t i = 0; i < n; ++i) {
    m[i] = r.b1 * m[i] + (1 - r.b1) * gradient[i];
    v[i] = r.b2 * v[i] + (1 - r.b2) * gradient[i] * gradient[i];
    const float denominator = std::sqrt(v[i] / r.correction2) + r.epsilon;
    const float quotient = r.rate * (m[i] / r.correction1) / denominator;
    parameters[i] = parameters[i] * r.decay - (denominator > 0 ? quotient : 0);
    if constexpr (kStored) stored[i] = to_bf16(parameters[i]);
  }
}

REHEARSAL_BODY void either(const Rates& r, const HostAdam& c, std::int64_t from, std::int64_t n) {
  if (c.stored)
    step<true>(r, n, c.gradient + from, c.parameters + from, c.m + from, c.v + from, c.stored + from);
  else
    step<false>(r, n, c.gradient + from, c.parameters + from, c.m + from, c.v + from, nullptr);
}

void portable(const Rates& r, const HostAdam& c, std::int64_t from, std::int64_t n) { either(r, c, from, n); }
#if defined(__x86_64__)
REHEARSAL_AVX2 void avx2(const Rates& r, const HostAdam& c, std::int64_t from, std::int64_t n) {
  either(r, c, from, n);
}
#endif

void part(const Rates& r, const HostAdam& c, std::int64_t from, std::int64_t n) {
#if defined(__x86_64__)
  if (widest() == InstructionSet::avx2) return avx2(r, c, from, n);
#endif
  portable(r, c, from, n);
}

}  // namespace

void host_adam(const HostAdam& call, const backend::TrainingData& learning, unsigned threads) {
  const Rates rates(learning, call.step + 1);
  constexpr std::int64_t kLine = 32;  // of bf16 elements: no two threads write the same line
  const std::int64_t share = (call.elements + threads - 1) / threads, each = (share + kLine - 1) / kLine * kLine;
  std::vector<std::jthread> others;
  for (std::int64_t from = each; from < call.elements; from += each)
    others.emplace_back([&, from] { part(rates, call, from, std::min(each, call.elements - from)); });
  part(rates, call, 0, std::min(each, call.elements));
}

}  // namespace rehearsal::cpu
