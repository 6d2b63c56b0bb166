#include "base/spelling.hpp"

#include <doctest/doctest.h>

using namespace rehearsal;

TEST_CASE("what is near is suggested; else each allowed word once, though a reader asks for it twice") {
  const std::vector<std::string> words{"layers", "hidden", "layers", "heads"};
  CHECK(suggestion("layrs", words) == "; did you mean 'layers'?");
  CHECK(suggestion("qqqqqqqq", words) == "; allowed: layers, hidden, heads");
  CHECK(suggestion("qqqqqqqq", {}).empty());
  // At most 40 are listed; a word that comes again is none of them.
  std::vector<std::string> many(100, "layers");
  CHECK(suggestion("qqqqqqqq", many) == "; allowed: layers");
  for (int i = 0; i < 40; ++i) many.push_back("key" + std::to_string(i));
  CHECK(suggestion("qqqqqqqq", many).empty());
}
