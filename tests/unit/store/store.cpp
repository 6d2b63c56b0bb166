#include "store/store.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "../../program.hpp"
#include "base/error.hpp"

using namespace rehearsal;
using namespace rehearsal::store;

namespace {

const std::vector<Column> kColumns{{"time_s"}, {"count", true}};

// Both forms of a store.
struct Place : Scratch {
  explicit Place(const char* form) : path((folder / form).string()) {}
  std::string path;
  Claims self{path, "sweep"};
  Store open(const std::string& version = "1") { return {path, version, kColumns, &self}; }
};
constexpr const char* kForms[] = {"s.sqlite", "s/"};

Point point(int i) { return {"a.yaml", "{\"n\":" + std::to_string(i) + "}"}; }
Row row(int i, const std::string& digest = "d") {
  return {point(i), digest, "", {0.1 * i, std::nullopt}, "[]", "{\"n\":1}"};
}

std::size_t shards(const std::string& folder) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) count += entry.path().extension() == ".sqlite";
  return count;
}

}  // namespace

TEST_CASE("rows come back as they were written; the newest of a point counts; versions do not meet") {
  for (const char* form : kForms) {
    CAPTURE(form);
    Place place(form);
    auto a = place.open();
    auto wrong = row(4, "e");
    wrong.error = "error: 'x' is\nwrong", wrong.numbers = {std::nullopt, std::nullopt},
    wrong.warnings = wrong.result = "";
    a.write(std::vector{row(3), row(1), wrong});
    const auto back = a.row(point(3), true).value();
    CHECK(back.digest == "d");
    CHECK(back.numbers[0].value() == 0.1 * 3);  // to the last bit
    CHECK_FALSE(back.numbers[1]);
    CHECK(back.result == "{\"n\":1}");
    CHECK(a.row(point(4), true)->error == wrong.error);
    CHECK(a.row(point(4), true)->result.empty());
    CHECK_FALSE(a.row(point(2), true));
    CHECK(a.digest(point(4)) == "e");
    CHECK(a.digest(point(2)).empty());
    CHECK(a.points() == std::vector{point(1), point(3), point(4)});
    CHECK(a.least("time_s", "count")->point == point(1));

    auto newer = row(3, "other");
    newer.numbers = {7., 3.};
    a.write(std::vector{newer});
    CHECK(a.row(point(3), true)->numbers[1] == 3.);
    CHECK(a.points().size() == 3);
    CHECK(Store(place.path, "1", kColumns).row(point(3), false)->numbers[1] == 3.);  // while it is written

    Claims other(place.path, "sweep");
    Store b(place.path, "2", kColumns, &other);
    CHECK(b.points().empty());
    b.write(std::vector{row(3)});
    CHECK(b.versions() == std::vector<std::string>{"1", "2"});
    CHECK(a.row(point(3), true)->digest == "other");
  }
}

TEST_CASE(
    "in a folder every process writes a file, sees what the others have committed, and the latest edition counts") {
  Place first("s/");
  Claims second(first.path, "sweep"), third(first.path, "sweep");
  auto a = first.open();
  Store b(first.path, "1", kColumns, &second);
  CHECK(shards(first.path) == 0);  // until there is a row
  a.write(std::vector{row(0), row(1)});
  b.write(std::vector{row(1), row(2)});
  CHECK(shards(first.path) == 2);
  CHECK(a.digest(point(2)).empty());
  a.refresh();
  CHECK(a.digest(point(2)) == "d");
  CHECK(a.row(point(2), true)->result == "{\"n\":1}");

  // One that begins later has read them all: what it writes replaces what they hold, whatever its file is called.
  Store c(first.path, "1", kColumns, &third);
  CHECK(c.digest(point(2)) == "d");
  c.write(std::vector{row(2, "new")});
  a.write(std::vector{row(3)});
  for (auto* store : {&a, &c}) store->refresh();
  CHECK(a.digest(point(2)) == "new");
  CHECK(c.digest(point(2)) == "new");
  CHECK(c.digest(point(3)) == "d");
  CHECK(Store(first.path, "1", kColumns).digest(point(2)) == "new");
}

TEST_CASE("a store of other columns is refused") {
  for (const char* form : kForms) {
    Place place(form);
    place.open().write(std::vector{row(1)});
    CHECK_THROWS_AS(Store(place.path, "1", {{"time_s"}}, &place.self), UserError);
    CHECK_THROWS_AS(Store(place.path, "1", {{"time_s"}, {"rate"}}), UserError);
    CHECK_THROWS_AS(Store((place.folder / "missing").string(), "1", kColumns), UserError);
    CHECK(is_store(place.path));
    CHECK_FALSE(is_store((place.folder / "missing").string()));
  }
}
