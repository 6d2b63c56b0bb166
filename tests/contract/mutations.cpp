// The mistakes of tests/mutations, which tools/mutate makes one by one to check that tests find them: each must still
// match exactly one line.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <vector>

namespace rehearsal::contract {

namespace {

using Mutation = std::map<std::string, std::string>;  // name, file, find, put

std::vector<Mutation> mutations() {
  std::ifstream in(PROJECT_ROOT "/tests/mutations/cost_model.txt");
  std::vector<Mutation> all(1);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (line.empty() && !all.back().empty()) all.emplace_back();
    if (line.empty() || line[0] == '#' || colon == std::string::npos) continue;
    all.back()[line.substr(0, colon)] = line.substr(std::min(line.size(), colon + 2));
  }
  if (all.back().empty()) all.pop_back();
  return all;
}

}  // namespace

TEST_CASE("every mistake of tests/mutations can be made in one place") {
  const auto all = mutations();
  CHECK(all.size() >= 10);
  for (const auto& mutation : all) {
    CAPTURE(mutation.at("name"));
    REQUIRE(mutation.size() == 4);
    std::ifstream in(PROJECT_ROOT "/" + mutation.at("file"));
    REQUIRE(in.good());
    std::stringstream text;
    text << in.rdbuf();
    const auto source = text.str(), find = mutation.at("find");
    const auto first = source.find(find);
    CHECK(first != std::string::npos);
    CHECK(source.find(find, first + 1) == std::string::npos);
    CHECK(mutation.at("put") != find);
  }
}

}  // namespace rehearsal::contract
