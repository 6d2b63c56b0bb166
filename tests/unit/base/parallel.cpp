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

}  // namespace rehearsal
