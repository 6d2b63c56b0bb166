#include "base/parallel.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

namespace rehearsal {

TEST_CASE("every index is called once, whatever the number of threads") {
  for (const unsigned threads : {0u, 1u, 3u, 100u})
    for (const std::size_t count : {0u, 1u, 7u, 1000u}) {
      CAPTURE(threads);
      CAPTURE(count);
      std::vector<int> calls(count);
      in_parallel(count, threads, [&](std::size_t i) { ++calls[i]; });
      CHECK(calls == std::vector<int>(count, 1));
    }
}

TEST_CASE("what a thread throws reaches the caller, the least index first, and nothing is begun afterwards") {
  for (const unsigned threads : {1u, 4u}) {
    CAPTURE(threads);
    std::atomic<std::size_t> calls = 0;
    std::string what;
    try {
      in_parallel(100'000, threads, [&](std::size_t i) {
        ++calls;
        if (i % 2 == 1) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    CHECK(what == "1");  // index 1 has been begun before any later one
    CHECK(calls < 100'000);
  }
}

// Of a hundred steps each, whoever is asked for the 40th time stops them all.
TEST_CASE("who may stop a thread may stop what it has others do") {
  for (const unsigned threads : {1u, 4u}) {
    CAPTURE(threads);
    std::atomic<int> asked = 0;
    const auto work = [](std::size_t) {
      LooksUp looks(2);
      for (int step = 0; step < 100; ++step) looks.step();
    };
    in_parallel(10, threads, work);  // nobody may
    {
      const Stoppable stoppable([&] { return ++asked >= 40; });
      CHECK_THROWS_AS(in_parallel(10, threads, work), Stopped);
    }
    CHECK(asked >= 40);
    CHECK(asked < 40 + int(threads));
    CHECK_NOTHROW(go_on());
  }
}

}  // namespace rehearsal
