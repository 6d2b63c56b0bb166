#include "traces/profiler_json.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "made_up.hpp"

namespace rehearsal::traces {
namespace {

const KernelClasses& rules() {
  static const KernelClasses all;
  return all;
}
struct Listed : Events {
  std::vector<Event> all;
  void event(const Event& one) override { all.push_back(one); }
};
struct ReadText {
  Header header;
  Listed events;
  ReadSoFar so_far;
};
ReadText read_text(const std::string& text) {
  const TemporaryFile file(text);
  ReadText result;
  result.so_far = read_profiler_json(file.path(), result.header, result.events);
  return result;
}
std::string refused(const std::string& text) {
  try {
    read_text(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("times are microseconds, to the nanosecond") {
  CHECK(nanoseconds("4458677009853.422") == 4458677009853422);
  CHECK(nanoseconds("1682725898236567") == 1682725898236567000);  // beyond what a double holds exactly
  CHECK(nanoseconds("1682725898236567.0019") == 1682725898236567002);
  CHECK(nanoseconds("0.0005") == 1);
  CHECK(nanoseconds("68.0") == 68000);
  CHECK(nanoseconds("-2.5") == -2500);
  CHECK(nanoseconds("1.5e3") == 1500000);
  CHECK(nanoseconds("1e300") == std::nullopt);
  CHECK(nanoseconds("99999999999999999999") == std::nullopt);
  CHECK(nanoseconds("NaN") == std::nullopt);
  CHECK(nanoseconds("") == std::nullopt);
}

TEST_CASE("texts become readable") {
  CHECK(readable("a\xc3\xa4") == "a\xc3\xa4");
  CHECK(readable("a\xff\xc3") == "a??");
  CHECK(readable("\xed\xa0\x80") == "???");  // half of a pair
  CHECK(readable("a\x01"
                 "b") == "a b");
}

TEST_CASE("an event has what its keys say, and wrong values are left out") {
  const auto read = read_text(R"({"baseTimeNanoseconds": 17, "traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "k", "ts": 1.5, "dur": "2", "pid": 0, "tid": 7, "args": {"stream": 7, "device": 1,
     "External id": 12, "grid": [1, {"deep": [2]}], "Collective name": "allgather", "In msg nelems": 5, "Out msg nelems": 1e3}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": null, "dur": [1], "args": {"External id": "x",
     "Input Dims": [[2, 3], [], [3, 4]], "Input type": ["", "Scalar", "c10::Half"]}}, 5, [6], null], "displayTimeUnit": "ns"})");
  CHECK(read.header.base == 17);
  REQUIRE(read.events.all.size() == 2);
  const auto &a = read.events.all[0], &b = read.events.all[1];
  CHECK(a.start == 1500);
  CHECK(a.duration == 2000);
  CHECK(a.stream == 7);
  CHECK(a.device == 1);
  CHECK(a.external == 12);
  CHECK(a.collective == "allgather");
  CHECK(a.in_elements == 5);
  CHECK(a.out_elements == -1);
  CHECK_FALSE(b.start.has_value());
  CHECK_FALSE(b.duration.has_value());
  CHECK(b.external == kNoId);
  CHECK(b.shapes == "2,3;;3,4;");
  CHECK(b.type == "c10::Half");
  CHECK(b.collective.empty());
}

TEST_CASE("events may be the whole file, and stand before what describes them") {
  CHECK(read_text("[" + kernel("a", 0, 1) + "]").events.all.size() == 1);
  const auto read =
      read_text(R"({"traceEvents":[)" + kernel("a", 0, 1) + R"(],"distributedInfo":{"rank":3,"world_size":8,
    "pg_config":[{"pg_name":"1","ranks":[3,7]}]}})");
  CHECK(read.header.rank == 3);
  REQUIRE(read.header.groups.size() == 1);
  CHECK(read.header.groups[0].ranks == std::vector<std::int64_t>{3, 7});
}

TEST_CASE("bytes that no JSON has do not stop it") {
  const auto read = read_text("{\"traceEvents\":[" + kernel("a\x01\xff\nb", 0, 1) + ",]}");
  REQUIRE(read.events.all.size() == 1);
  CHECK(readable(read.events.all[0].name) == "a ? b");
  CHECK(read_text(R"({"traceEvents":[{"name":"a","ts":NaN,"dur":Infinity}]})").events.all.size() == 1);
}

TEST_CASE("a file that ends early says how far it came") {
  const auto whole = trace_of(0, {kernel("a", 0, 1), kernel("b", 1, 1), kernel("c", 2, 1)});
  const auto cut = whole.substr(0, whole.find("\"c\""));
  const auto read = read_text(cut);
  CHECK(read.events.all.size() == 2);
  CHECK(read.so_far.events == 2);
  CHECK(read.so_far.bytes == cut.size());
  CHECK(read.so_far.incomplete == "the file ends in the middle");
  const TemporaryFile file(cut);
  const auto trace = traces::read(file.path(), rules()).front();
  REQUIRE(trace.notes.size() == 1);
  CHECK(trace.notes[0].find("read 2 events") != std::string::npos);
}

TEST_CASE("a compressed file that ends early is read as far as it goes") {
  std::ifstream in(TEST_DATA "/traces/resnet_2_a100_kernels.json.gz", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const TemporaryFile file(bytes.substr(0, bytes.size() / 2), ".json.gz");
  const auto trace = traces::read(file.path(), rules()).front();
  CHECK(trace.kernels.size() > 1000);
  CHECK(trace.kernels.size() < 3000);
  REQUIRE(!trace.notes.empty());
  CHECK(trace.notes[0].find("the compressed file ends early") == 0);
}

TEST_CASE("what is no trace says why") {
  CHECK(refused("").find("is empty") != std::string::npos);
  CHECK(refused("time,kernel\n1,2\n").find("is no JSON at byte") != std::string::npos);
  CHECK(refused("{\"a\": 1}").find("has no 'traceEvents'") != std::string::npos);
  CHECK(refused("{\"traceEvents\": [" + kernel("a", 0, 1) + " oops]}").find("after 1 events") != std::string::npos);
  CHECK(refused("{\"traceEvents\": [" + std::string(100'000, '[')).find("levels deep") != std::string::npos);
  CHECK(refused(std::string(100'000, '{')).find("is no JSON") != std::string::npos);
  const TemporaryFile host(R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":0,"dur":1}]})");
  CHECK_THROWS_WITH_AS(traces::read(host.path(), rules()), doctest::Contains("1 events and no kernel of a GPU"),
                       UserError);
}

TEST_CASE("kernels without a possible time are left out, and counted") {
  const TemporaryFile file(
      R"({"traceEvents":[)" + kernel("a", 10, 1) +
      R"(,{"ph":"X","cat":"kernel","name":"b","pid":0,"ts":1},)"
      R"({"ph":"X","cat":"kernel","name":"c","pid":0,"ts":1,"dur":-4},{"ph":"X","cat":"kernel","name":"d","pid":0,"ts":8e15,"dur":1}]})");
  const auto trace = traces::read(file.path(), rules()).front();
  CHECK(trace.kernels.size() == 1);
  REQUIRE(trace.notes.size() >= 1);
  CHECK(trace.notes[0] == "3 kernels without a possible start and duration are left out");
}

}  // namespace
}  // namespace rehearsal::traces
