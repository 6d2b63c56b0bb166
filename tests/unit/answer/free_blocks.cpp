// The free blocks of a pool against an ordered set of all of them.
#include "answer/free_blocks.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <tuple>

namespace rehearsal::answer {

TEST_CASE("best fit, lowest address, as an ordered set gives them") {
  using Key = std::tuple<std::int64_t, std::int64_t, std::uint32_t>;
  const auto key = [](const FreeBlocks::Entry& e) { return Key{e.size, e.address, e.block}; };
  std::mt19937 random(1);
  FreeBlocks blocks;
  std::set<Key> oracle;
  for (std::uint32_t i = 0; i < 20'000; i++) {
    // Addresses are distinct; of 40 sizes most come again, so that sizes come and go.
    const auto size = std::int64_t(random() % 40) * 512;
    const auto what = random() % 8;
    if (what < 4) {
      const FreeBlocks::Entry entry{size, std::int64_t(i) * 7919 % 20'011, i};
      blocks.insert(entry), oracle.insert(key(entry));
    } else if (what < 7) {
      FreeBlocks::Entry taken;
      const auto expected = oracle.lower_bound({size, 0, 0});
      REQUIRE(blocks.take(size, taken) == (expected != oracle.end()));
      if (expected == oracle.end()) continue;
      REQUIRE(key(taken) == *expected);
      oracle.erase(expected);
    } else if (!oracle.empty()) {
      const auto some = std::next(oracle.begin(), std::ptrdiff_t(random() % oracle.size()));
      const auto& [s, address, block] = *some;
      blocks.erase({s, address, block}), oracle.erase(some);
    }
  }
  const auto all = blocks.all();
  REQUIRE(all.size() == oracle.size());
  REQUIRE(!all.empty());
  auto expected = oracle.begin();
  for (const auto& entry : all) CHECK(key(entry) == *expected++);
}

}  // namespace rehearsal::answer
