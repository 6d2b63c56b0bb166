#include "explore/compare.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace rehearsal;
using namespace rehearsal::explore;

namespace {

using Set = std::vector<std::pair<std::string, std::string>>;
const std::string kTeaching = std::string(PROJECT_ROOT) + "/scenarios/teaching-1f1b-8-stages.yaml";

}  // namespace

TEST_CASE("commas inside brackets, braces and quotes do not divide values") {
  const auto values = [](const std::string& option) { return parse_vary(option).values; };
  using Values = std::vector<std::string>;
  CHECK(parse_vary("schedule=gpipe,1f1b").key == "schedule");
  CHECK(values("schedule=gpipe,1f1b") == Values{"gpipe", "1f1b"});
  CHECK(values("k=a, b ,c") == Values{"a", "b", "c"});
  CHECK(values("k=[1,2],[3,4]") == Values{"[1,2]", "[3,4]"});
  CHECK(values("parallelism={tensor: 2, pipeline: 4},{tensor: 4}") ==
        Values{"{tensor: 2, pipeline: 4}", "{tensor: 4}"});
  CHECK(values("k={a: [1, {b: 2, c: 3}]},x") == Values{"{a: [1, {b: 2, c: 3}]}", "x"});
  CHECK(values("k=\"a,b\",'c,]d'") == Values{"\"a,b\"", "'c,]d'"});
  CHECK(values("k=a=b,c") == Values{"a=b", "c"});  // the first '=' divides key and values
  for (const char* wrong :
       {"", "schedule", "=a", "k=", "k=a,,b", "k=a,", "k=[1,2", "k=1]", "k={a]}", "k='a", "k=a,a"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_vary(wrong), UserError);
  }
}

TEST_CASE("the cross product: the last key varies fastest, files slowest") {
  const std::vector<std::string> files{"x", "y"};
  const std::vector<Vary> varies{{"a", {"1", "2"}}, {"b", {"p", "q", "r"}}};
  const auto all = variants(files, varies);
  REQUIRE(all.size() == 12);  // 2 files x 2 x 3
  CHECK(all[0].set == Set{{"a", "1"}, {"b", "p"}});
  CHECK(all[1].set == Set{{"a", "1"}, {"b", "q"}});
  CHECK(all[3].set == Set{{"a", "2"}, {"b", "p"}});
  CHECK(all[5].file == "x");
  CHECK(all[6].file == "y");
  CHECK(all[11].set == Set{{"a", "2"}, {"b", "r"}});
  CHECK(variants(files, {}).size() == 2);
  CHECK_THROWS_AS(variants(files, std::vector<Vary>{{"a", {"1"}}, {"a", {"2"}}}), UserError);
  std::vector<std::string> many;
  for (int i = 0; i < 1000; i++) many.push_back(std::to_string(i));
  CHECK_THROWS_AS(variants(files, std::vector<Vary>{{"a", many}, {"b", many}}), UserError);
}

TEST_CASE("results do not depend on the number of threads; a wrong variant does not stop the others") {
  const std::vector<std::string> files{kTeaching};
  const auto all = variants(files, std::vector<Vary>{{"schedule", {"1f1b", "nonsense", "gpipe", "zb-h1"}},
                                                     {"batch.microbatches", {"0", "8", "24", "40"}}});
  const std::vector<std::string> common{"parallelism.pipeline=4"};
  std::vector<std::vector<std::int64_t>> results;
  for (const unsigned jobs : {1u, 2u, 7u, 100u}) {
    std::vector<std::int64_t> periods(all.size(), -1);
    const auto errors = compare(all, common, jobs, [&](std::size_t i, const answer::Result& prediction) {
      CHECK(prediction.scenario().parallelism.pipeline == 4);
      periods[i] = prediction.timeline.makespan().count();
    });
    REQUIRE(errors.size() == all.size());
    for (std::size_t i = 0; i < all.size(); i++) {
      const bool wrong = all[i].set[0].second == "nonsense" || all[i].set[1].second == "0";
      CHECK(errors[i].empty() == !wrong);
      CHECK((periods[i] == -1) == wrong);
    }
    results.push_back(periods);
  }
  for (const auto& r : results) CHECK(r == results[0]);
  // 1F1B with p = 4, m = 8, F = 18.522, I = 18.086, W = 9.337, C = 0.601 ms: m S + (p-1) S + [2(p-1)(m/p+1) - 2] C
  // = 11 x 45.945 + 16 x 0.601 = 515.011 ms (p divides m). Row 1 of the table.
  CHECK(results[0][1] == 515'011'000'000);
}

TEST_CASE("an error that is not the user's stops the comparison") {
  const auto all = variants(std::vector<std::string>{kTeaching}, std::vector<Vary>{{"batch.microbatches", {"8", "9"}}});
  const auto throws = [&](unsigned jobs) {
    compare(all, {}, jobs, [](std::size_t i, const answer::Result&) {
      if (i == 1) throw InternalError("as if we were wrong");
    });
  };
  CHECK_THROWS_AS(throws(1), InternalError);
  CHECK_THROWS_AS(throws(2), InternalError);
}
