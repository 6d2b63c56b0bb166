#include "store/store.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "../../program.hpp"
#include "base/error.hpp"
#include "store/workers.hpp"

using namespace rehearsal;
using namespace rehearsal::store;

namespace {

const std::vector<Column> kColumns{{"time_s"}, {"count", true}};

struct File : Scratch {
  std::string path = (folder / "s.sqlite").string();
  Store open(const std::string& version = "1") const { return {path, version, kColumns, Access::write}; }
};

std::vector<Point> points(std::size_t count) {
  std::vector<Point> all;
  for (std::size_t i = 0; i < count; i++) all.push_back({"a.yaml", "{\"n\":" + std::to_string(i) + "}"});
  return all;
}
const std::vector<Point> kPoints = points(6);
const std::vector<std::size_t> kAll{0, 1, 2, 3, 4, 5};

std::vector<std::size_t> ours(const Claims& claims) {
  std::vector<std::size_t> list;
  for (const auto& c : claims.ours) list.push_back(c.index);
  return list;
}

Row row(std::size_t i, const std::string& digest = "d") {
  return {kPoints[i], digest, "", {0.1 * double(i), std::nullopt}, "[]", "{\"n\":1}"};
}

using Indices = std::vector<std::size_t>;

}  // namespace

TEST_CASE("a point is claimed by one process, done once finished, and valid for later ones") {
  const File file;
  auto a = file.open(), b = file.open();
  CHECK(ours(a.claim(kPoints, kAll, 2)) == Indices{0, 1});
  const auto seen = b.claim(kPoints, kAll, 3);
  CHECK(seen.taken == Indices{0, 1});
  CHECK(ours(seen) == Indices{2, 3, 4});
  CHECK(seen.looked == 5);

  a.finish(std::vector{row(0), row(1)}, {});
  CHECK(b.claim(kPoints, Indices{0, 1, 2}, 9).done == Indices{0, 1});
  CHECK(b.finished() == 2);
  CHECK(ours(a.claim(kPoints, Indices{5}, 1)) == Indices{5});

  // Whoever opens it now has to look whether rows are right, and is told their digest.
  auto c = file.open();
  CHECK(c.finished() == 0);
  const auto later = c.claim(kPoints, kAll, 9);
  CHECK(ours(later) == Indices{0, 1});
  CHECK(later.ours[0].digest == "d");
  CHECK(later.taken == Indices{2, 3, 4, 5});
  c.finish({}, std::vector{kPoints[0]});
  CHECK(c.finished() == 1);
  CHECK(c.claim(kPoints, Indices{0}, 9).done == Indices{0});
}

TEST_CASE("rows come back as they were written; the newest of a point counts; versions do not meet") {
  const File file;
  auto a = file.open();
  a.claim(kPoints, kAll, 9);
  auto wrong = row(4, "e");
  wrong.error = "error: 'x' is\nwrong", wrong.numbers = {std::nullopt, std::nullopt},
  wrong.warnings = wrong.result = "";
  a.finish(std::vector{row(3), row(1), wrong}, {});
  const auto back = a.row(kPoints[3], true).value();
  CHECK(back.digest == "d");
  CHECK(back.numbers[0].value() == 0.1 * 3);  // to the last bit
  CHECK_FALSE(back.numbers[1]);
  CHECK(back.result == "{\"n\":1}");
  CHECK(a.row(kPoints[3], false)->result.empty());
  CHECK(a.row(kPoints[4], true)->error == wrong.error);
  CHECK_FALSE(a.row(kPoints[2], true));
  CHECK(a.points() == std::vector{kPoints[1], kPoints[3], kPoints[4]});
  CHECK(a.least("time_s", "count")->point == kPoints[1]);

  auto newer = row(3, "other");
  newer.numbers = {7., 3.};
  a.finish(std::vector{newer}, {});
  CHECK(a.row(kPoints[3], true)->numbers[1] == 3.);
  CHECK(a.points().size() == 3);

  auto b = file.open("2");
  CHECK(b.points().empty());
  CHECK(ours(b.claim(kPoints, kAll, 9)).size() == 6);
  b.finish(std::vector{row(3)}, {});
  CHECK(b.versions() == std::vector<std::string>{"1", "2"});
  CHECK(a.row(kPoints[3], true)->digest == "other");
}

TEST_CASE("claims end with their store, with their process, and with their lease") {
  const File file;
  auto a = file.open();
  {
    auto b = file.open();
    CHECK(ours(b.claim(kPoints, kAll, 2)) == Indices{0, 1});
  }
  CHECK(ours(a.claim(kPoints, Indices{0}, 1)) == Indices{0});

  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    auto b = file.open();
    const bool got = ours(b.claim(kPoints, Indices{2, 3}, 2)).size() == 2;
    (void)!write(pipe_ends[1], got ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  char got = 0;
  REQUIRE(read(pipe_ends[0], &got, 1) == 1);
  CHECK(got == 'y');
  CHECK(a.claim(kPoints, Indices{2, 3}, 2).taken == Indices{2, 3});
  kill(child, SIGKILL);
  // Gone as soon as it ends, although its status has not been collected.
  siginfo_t info;
  REQUIRE(waitid(P_PID, id_t(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(ours(a.claim(kPoints, Indices{2, 3}, 2)) == Indices{2, 3});
  waitpid(child, nullptr, 0);

  // Somebody of another host, heard of now, or longer ago than a lease.
  Database database(file.path, Access::write);
  for (const auto& [seen, taken] : {std::pair("unixepoch()", true), std::pair("unixepoch() - 61", false)}) {
    database.run((std::string("INSERT INTO workers(id, host, process, born, seen) VALUES (99, 'elsewhere', 1, 1, ") +
                  seen + "); INSERT OR REPLACE INTO work VALUES ('1', 'a.yaml', '{\"n\":4}', 99, 0)")
                     .c_str());
    auto b = file.open();
    CHECK(b.claim(kPoints, Indices{4}, 1).taken.empty() != taken);
    database.run("DELETE FROM workers WHERE id = 99");
  }
}

TEST_CASE("processes are told apart by their start") {
  auto self = this_worker();
  CHECK_FALSE(is_gone(self));
  self.born++;
  CHECK(is_gone(self));
  self.host = "elsewhere";
  CHECK_FALSE(is_gone(self));
}

TEST_CASE("a store of other columns is refused") {
  const File file;
  file.open();
  CHECK_THROWS_AS(Store(file.path, "1", {{"time_s"}}, Access::write), UserError);
  CHECK_THROWS_AS(Store(file.path, "1", {{"time_s"}, {"rate"}}, Access::read), UserError);
  CHECK_THROWS_AS(Store(file.path + ".missing", "1", kColumns, Access::read), UserError);
  CHECK(is_database(file.path));
  CHECK_FALSE(is_database(file.path + ".missing"));
}
