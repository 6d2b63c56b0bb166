// Which rows of a comparison are best, Pareto-optimal and shown.
#include <doctest/doctest.h>

#include <random>

#include "base/error.hpp"
#include "report/compare_report.hpp"

using namespace rehearsal;
using namespace rehearsal::report;

namespace {

CompareRow made(double time, double memory, double gpus, std::optional<double> fits = 1) {
  CompareRow row{"s.yaml", {}, "", {}, {}};
  row.figures[Figure::item_time] = time, row.figures[Figure::device] = memory, row.figures[Figure::gpus] = gpus;
  row.figures[Figure::fits] = fits;
  row.figures[Figure::gpu_token_rate] = 1 / (time * gpus);  // one token per item
  return row;
}

bool better(const CompareRow& a, const CompareRow& b) {
  const auto [t, m, g] = std::tuple(Figure::item_time, Figure::device, Figure::gpus);
  const auto le = [&](Figure f) { return *a.figures[f] <= *b.figures[f]; };
  const auto lt = [&](Figure f) { return *a.figures[f] < *b.figures[f]; };
  return le(t) && le(m) && le(g) && (lt(t) || lt(m) || lt(g));
}

}  // namespace

TEST_CASE("Pareto: as by comparing every pair, among those that fit") {
  std::mt19937 random(3);
  for (int round = 0; round < 60; round++) {
    std::uniform_int_distribution<int> small(1, round % 2 ? 4 : 40);  // with many equals, and with few
    std::vector<CompareRow> rows;
    for (int i = 0; i < 80; i++)
      rows.push_back(made(small(random), small(random), small(random), round % 3 && small(random) > 2 ? 1 : 0));
    rows[7].error = "wrong", rows[7].figures = {};
    rank_rows(rows);
    const bool some_fit =
        std::any_of(rows.begin(), rows.end(), [](const auto& r) { return r.worked() && r.figures.yes(Figure::fits); });
    const auto counts = [&](const CompareRow& r) { return r.worked() && (r.figures.yes(Figure::fits) || !some_fit); };
    for (const auto& row : rows) {
      const bool expected = counts(row) && std::none_of(rows.begin(), rows.end(), [&](const auto& other) {
                              return counts(other) && better(other, row);
                            });
      CHECK(row.figures.yes(Figure::pareto) == expected);
    }
  }
}

TEST_CASE("cost is GPU time per token beside the first row that works") {
  std::vector<CompareRow> rows{made(9, 1, 1), made(4, 1, 8), made(2, 1, 32), made(1, 1, 32, 0)};
  rows[0].error = "wrong", rows[0].figures = {};
  rank_rows(rows);
  CHECK_FALSE(rows[0].figures[Figure::cost]);
  CHECK(*rows[1].figures[Figure::cost] == 1);
  CHECK(*rows[2].figures[Figure::cost] == doctest::Approx(2));  // 64 GPU seconds for 32
  CHECK(*rows[3].figures[Figure::cost] == doctest::Approx(1));
  CHECK(rows[2].figures.yes(Figure::best));  // the fastest does not fit
  CHECK(*rows[3].figures[Figure::relative] == 0.5);
}

TEST_CASE("rows are sorted as numbers, keep their order where equal, and lack what they lack at the end") {
  std::vector<CompareRow> rows{made(3, 1, 1), made(1, 1, 1, 0), made(2, 1, 1), made(1, 2, 1), made(5, 1, 1)};
  const std::vector<std::string> batch{"16", "4", "{a: 1}", "8", ""};
  for (std::size_t i = 0; i < rows.size(); i++)
    if (!batch[i].empty()) rows[i].set = {{"batch.micro", batch[i]}};
  rows[4].error = "wrong", rows[4].figures = {};
  rank_rows(rows);
  using Order = std::vector<std::size_t>;
  CHECK(choose(rows, {}) == Order{0, 1, 2, 3, 4});
  CHECK(choose(rows, {.sort = "item_s"}) == Order{1, 3, 2, 0, 4});
  CHECK(choose(rows, {.sort = "-item_s"}) == Order{0, 2, 1, 3, 4});
  CHECK(choose(rows, {.sort = "batch.micro"}) == Order{1, 3, 0, 2, 4});
  CHECK(choose(rows, {.sort = "file", .top = 2}) == Order{0, 1});
  CHECK(choose(rows, {.sort = "item_s", .top = 2, .fits = true}) == Order{3, 2});
  CHECK(choose(rows, {.pareto = true}) == Order{2, 3});
  CHECK_THROWS_AS(choose(rows, {.sort = "batch.macro"}), UserError);
  CHECK_THROWS_AS(choose(rows, {.sort = "-"}), UserError);
}
