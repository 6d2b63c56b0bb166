// Layers one by one, folded: unfolded again they are the same, and the text is what a person would write.
#include "interchange/runs.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

namespace rehearsal::interchange {
namespace {

Json layer_of(char kind) { return kind == '.' ? Json::object() : Json{{"mixer", std::string(1, kind)}}; }
std::vector<Json> layers_of(const std::string& kinds) {
  std::vector<Json> all;
  for (const char kind : kinds) all.push_back(layer_of(kind));
  return all;
}
std::string unfolded(const Json& runs) {
  std::string all;
  for (const auto& run : runs.items()) {
    const auto* repeat = run.find("repeat");
    const auto* inner = run.find("layers");
    const auto* mixer = run.find("mixer");
    const auto once = inner ? unfolded(*inner) : mixer ? mixer->text() : ".";
    for (int i = 0; i < (repeat ? int(repeat->real()) : 1); ++i) all += once;
  }
  return all;
}
std::string text_of_runs(const std::string& kinds) { return folded(layers_of(kinds)).dump(); }

}  // namespace

TEST_CASE("equal layers are a run, and a block that comes again is one") {
  CHECK(text_of_runs(".") == "[{}]");
  CHECK(text_of_runs("....") == R"([{"repeat":4}])");
  // Gemma: five windows and one that sees all, five times.
  CHECK(text_of_runs("wwwww.wwwww.wwwww.") == R"([{"repeat":3,"layers":[{"repeat":5,"mixer":"w"},{}]}])");
  CHECK(text_of_runs("d.w.w.w") == R"([{"mixer":"d"},{"repeat":3,"layers":[{},{"mixer":"w"}]}])");
}

TEST_CASE("folded layers are the same layers, at every length") {
  std::mt19937 random(7);
  for (int length = 1; length < 200; length += 1 + length / 7) {
    std::string kinds;
    for (int i = 0; i < length; ++i) kinds += ".ww."[i % 3 == 0 ? random() % 4 : 1];
    INFO(kinds);
    CHECK(unfolded(folded(layers_of(kinds))) == kinds);
  }
  // More than are searched for blocks: runs alone.
  std::string many;
  for (int i = 0; i < 600; ++i) many += i % 2 == 0 ? "ww" : ".";
  CHECK(unfolded(folded(layers_of(many))) == many);
}

}  // namespace rehearsal::interchange
