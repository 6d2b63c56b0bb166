// A database by the schema that NVIDIA documents; no real file was ever read.
#include "traces/nsys.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include "base/error.hpp"
#include "made_up.hpp"

namespace rehearsal::traces {
namespace {

const KernelClasses& rules() {
  static const KernelClasses all;
  return all;
}

void fill(const std::string& path, const char* sql) {
  std::filesystem::remove(path);
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  char* wrong = nullptr;
  const int code = sqlite3_exec(database, sql, nullptr, nullptr, &wrong);
  CAPTURE(wrong);
  REQUIRE(code == SQLITE_OK);
  sqlite3_close(database);
}

constexpr const char* kTables = R"(
  CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
  INSERT INTO StringIds VALUES (1, 'sgemm_128x64'), (2, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL'), (3, 'step 8');
  CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER,
    shortName INTEGER, gridX INTEGER);
  INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000000, 1100000, 0, 1, 7, 1, 0, 1, 1, 1), (1100000, 1150000, 0, 1, 20, 2, 0, 2, 2, 1),
    (1000500, 1200500, 1, 1, 7, 3, 0, 1, 1, 1);
  CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, bytes INTEGER);
  INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1160000, 1170000, 0, 9, 4096);
  CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, textId INTEGER);
  INSERT INTO NVTX_EVENTS VALUES (1000000, 1090000, 59, 'iteration 7', NULL), (1090000, 1180000, 59, NULL, 3),
    (1000000, 1180000, 59, 'forward', NULL), (1000000, NULL, 34, 'step 9', NULL);
  CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER);
  INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100', 85000000000, 132), (1, 'NVIDIA H100', 85000000000, 132);
)";

TEST_CASE("kernels, copies and marked steps of every GPU in a database") {
  const TemporaryFile file("", ".sqlite");
  fill(file.path(), kTables);
  const auto two = read(std::vector{file.path()}, rules());
  REQUIRE(two.size() == 2);
  const auto& first = two[0];
  CHECK(first.rank == 0);
  CHECK(two[1].rank == 1);
  CHECK(first.gpu.name == "NVIDIA H100");
  CHECK(first.gpu.multiprocessors == 132);
  REQUIRE(first.kernels.size() == 3);
  CHECK(first.names[first.kernels[0].name].text == "sgemm_128x64");
  CHECK(first.kind(first.kernels[1]) == Kind::collective);
  CHECK(first.kind(first.kernels[2]) == Kind::copy);
  REQUIRE(first.steps.size() == 2);
  CHECK(first.steps[0].number == 7);
  CHECK(first.steps[1].end == 180'000);
  const auto whole = analyse(two, rules())[0].whole;
  CHECK(us(whole.window) == 170);
  CHECK(us(whole.computing) == 110);
  CHECK(us(whole.exposed) == 50);
  CHECK(us(whole.idle()) == 10);
  CHECK(us(analyse(two, rules())[1].whole.window) == 200);
}

// Two processes, of which each has a call 1, on a GPU each. Threads 5 and 6 of the first (0x1000000): 6 launches while
// 5 waits in a range; the other process has no ranges, and nothing of the first counts for it.
TEST_CASE("passes of a database are told by NVTX ranges of the process that launched") {
  const TemporaryFile file("", ".sqlite");
  fill(file.path(), R"(
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    INSERT INTO StringIds VALUES (1, 'sgemm'), (2, 'cudaLaunchKernel_v7000'), (3, 'backward mb 1');
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
      correlationId INTEGER, globalPid INTEGER, shortName INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 2000, 0, 7, 1, 0x1000000, 1), (3000, 4000, 0, 7, 2, 0x1000000, 1),
      (1500, 2500, 1, 7, 1, 0x2000000, 1);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, correlationId INTEGER, globalTid INTEGER,
      nameId INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 910, 1, 0x1000005, 2), (2900, 2910, 2, 0x1000006, 2),
      (1400, 1450, 1, 0x2000005, 2);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
    INSERT INTO NVTX_EVENTS VALUES (800, 1600, 59, 'forward mb 1', NULL, 0x1000005),
      (2800, 5000, 59, NULL, 3, 0x1000005);)");
  const auto two = read(std::vector{file.path()}, rules());
  REQUIRE(two.size() == 2);
  const auto label = [&](std::size_t trace, std::size_t kernel) {
    return two[trace].labels[two[trace].kernels[kernel].label];
  };
  CHECK(label(0, 0) == Label{Pass::forward, 1});
  CHECK(label(0, 1) == Label{Pass::backward, 1});
  CHECK(label(1, 0) == Label{});
  CHECK(two[0].launches[two[0].kernels[1].launch].start == 1900);
  CHECK(two[1].launches[two[1].kernels[0].launch].duration == 50);
}

TEST_CASE("tables and columns that a version lacks are done without") {
  const TemporaryFile file("", ".sqlite");
  fill(file.path(), R"(CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    INSERT INTO StringIds VALUES (1, 'sgemm');
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, shortName INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 10, 0, 7, 1);)");
  const auto one = read(file.path(), rules());
  REQUIRE(one.size() == 1);
  CHECK(one[0].steps.empty());
  CHECK(one[0].kernels.size() == 1);
}

TEST_CASE("a database of something else is refused") {
  const TemporaryFile file("", ".sqlite");
  fill(file.path(), "CREATE TABLE results (a INTEGER)");
  CHECK_THROWS_WITH_AS(read(file.path(), rules()), doctest::Contains("CUPTI_ACTIVITY_KIND_KERNEL"), UserError);
}

}  // namespace
}  // namespace rehearsal::traces
