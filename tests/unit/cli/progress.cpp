#include "cli/progress.hpp"

#include <doctest/doctest.h>

#include "page/layout.hpp"

using namespace rehearsal;
using namespace rehearsal::cli;

namespace {

Standing standing(std::string what, double elapsed, std::uint64_t done = 0, std::uint64_t total = 0,
                  std::optional<double> left = {}, std::string note = "") {
  Standing at;
  at.what = std::move(what), at.elapsed = elapsed, at.done = done, at.total = total;
  at.left = left, at.note = std::move(note);
  return at;
}

}  // namespace

// 100 rows are there already, then 2 a second come. At 10 s: 118 of 138 in all, 11.8 a second since the start, by which
// the 20 that are left would take 1.7 s. In the last 5 s were 10, by which they take 10 s.
TEST_CASE("the time left is that by the speed of the last seconds") {
  RecentRate pace(0);
  CHECK(!pace.left(.5, 138));
  for (int i = 0; i <= 18; ++i) pace.look(1 + .5 * i, std::uint64_t(100 + i));
  CHECK(pace.left(10, 138).value() == doctest::Approx(10));
  CHECK(pace.left(10, 118) == 0.);
}

// One in 8 s: at 20 s the last two were done at 8 and 16 s. The window of 5 s has none in it; one has come since 8 s,
// 12 s ago, so that each of the two that are left takes 12 s.
TEST_CASE("what takes longer than the window counts since the last but one") {
  RecentRate pace(0);
  for (double now = 0; now < 20; now += .25) pace.look(now, std::uint64_t(now / 8));
  CHECK(pace.left(20, 4).value() == doctest::Approx(24));
}

TEST_CASE("the line says what is done, what is left, and what else is known") {
  auto at = standing("rows", 3, 12, 54, 8.2, "best so far 15 ms");
  CHECK(progress_text(at) == "12 of 54 rows, 22 %, 8 s left; best so far 15 ms");
  at.left.reset(), at.parts = 3, at.part = 2, at.note.clear();
  CHECK(progress_text(at) == "part 2 of 3: 12 of 54 rows, 22 %, 3 s so far");
  at.done = 1'000'000, at.total = 10'079'306;
  CHECK(progress_text(at) == "part 2 of 3: 1,000,000 of 10,079,306 rows, 10 %, 3 s so far");
  CHECK(progress_text(standing("predicting", 200)) == "predicting, 3 min so far");
  CHECK(progress_text(standing("a\x1b[2Jb\nc", 1)).find_first_of("\x1b\n") == std::string::npos);
}

TEST_CASE("the line never needs more columns than there are") {
  const auto at = standing("r\u00e9sultats", 1, 0, 54, {}, "best so far 15 ms per sequence: \u6a21\u578b.yaml");
  const auto whole = progress_text(at);
  CHECK(progress_text(at, 23) == "0 of 54 r\u00e9sultats, 0...");
  CHECK(progress_text(at, 1000) == whole);
  const auto most = int(page::columns(whole)) + 2;  // two characters are two columns wide
  CHECK(progress_text(at, most) == whole);
  CHECK(progress_text(at, most - 1).ends_with("..."));
  for (int columns = 1; columns < most; ++columns) {
    const auto text = progress_text(at, columns);
    const auto wide = text.find("\u6a21") != std::string::npos ? text.find("\u578b") != std::string::npos ? 2 : 1 : 0;
    CHECK(int(page::columns(text)) + wide <= columns);
  }
}

TEST_CASE("JSON has all fields always, and null for what is not known") {
  auto rows = standing("rows", 1.25, 12, 48, .5, "n");
  rows.figures = {{"gap", .5}};
  CHECK(progress_json(rows, "sweep") ==
        R"({"command":"sweep","part":1,"parts":1,"what":"rows","done":12,"total":48,"share":0.25,)"
        R"("elapsed_s":1.25,"left_s":0.5,"note":"n","figures":{"gap":0.5},"ended":false})");
  auto alone = standing("predicting", 2);
  alone.parts = 0;
  CHECK(progress_json(alone, "run") ==
        R"({"command":"run","part":1,"parts":null,"what":"predicting","done":null,"total":null,"share":null,)"
        R"("elapsed_s":2.0,"left_s":null,"note":"","figures":null,"ended":false})");
}
