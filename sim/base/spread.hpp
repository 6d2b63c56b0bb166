// A list in an order that samples all of it early, so that work which is stopped has seen every region.
#pragma once
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace rehearsal {

// Steps by the golden section, made coprime to the number of items so that each is visited exactly once; the first
// stays the first.
template <class T>
std::vector<T> spread(std::vector<T> items) {
  const auto count = items.size();
  auto step = std::max<std::size_t>(1, std::size_t(double(count) * 0.618));
  while (std::gcd(step, count) > 1) ++step;
  std::vector<T> all;
  all.reserve(count);
  for (std::size_t i = 0, at = 0; i < count; ++i, at = (at + step) % count) all.push_back(std::move(items[at]));
  return all;
}

}  // namespace rehearsal
