#include "base/radix_heap.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>

namespace rehearsal {

TEST_CASE("the radix heap hands out instants like an ordered map") {
  RadixHeap<int> heap;
  std::multimap<std::int64_t, int> model;
  std::mt19937_64 random(1);
  std::int64_t now = 0;
  for (int i = 0; i < 20000; ++i) {
    if (model.empty() || random() % 5 < 3) {
      // Near and far: ties, small steps and steps of up to 2^40.
      const std::int64_t at = now + static_cast<std::int64_t>(random() >> (24 + random() % 40));
      heap.push(Time(at), i);
      model.emplace(at, i);
    } else {
      std::vector<int> items, expected;
      REQUIRE(heap.pop_instant(items) == Time(now = model.begin()->first));
      for (auto at = model.begin(); at != model.end() && at->first == now; at = model.erase(at))
        expected.push_back(at->second);
      std::sort(items.begin(), items.end());
      std::sort(expected.begin(), expected.end());
      REQUIRE(items == expected);
    }
    REQUIRE(heap.empty() == model.empty());
  }
}

}  // namespace rehearsal
