#include "dispatch/add.hpp"

#include <cstdint>

#include "base/bf16.hpp"
#include "base/error.hpp"

namespace rehearsal::dispatch {

void add(Precision precision, const std::byte* a, const std::byte* b, std::byte* to, std::size_t bytes) {
  const auto over = [&]<class T>(T, auto sum) {
    const T *const x = reinterpret_cast<const T*>(a), *const y = reinterpret_cast<const T*>(b);
    T* const z = reinterpret_cast<T*>(to);
    const std::size_t n = bytes / sizeof(T);
    for (std::size_t i = 0; i < n; ++i) z[i] = sum(x[i], y[i]);
  };
  switch (precision) {
    case Precision::fp32:
      return over(float(), [](float x, float y) { return x + y; });
    case Precision::bf16:
      return over(std::uint16_t(),
                  [](std::uint16_t x, std::uint16_t y) { return to_bf16(from_bf16(x) + from_bf16(y)); });
    default:
      INVARIANT(false, "sums are of fp32 or of bf16");
  }
}

}  // namespace rehearsal::dispatch
