// Execution traces of Chakra: what they hold by the three forms that they come in, and what is refused.
#include "interchange/chakra.hpp"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "trainers.hpp"

namespace rehearsal::interchange::trainers {
namespace {

using chakra::NodeType;

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}
const std::string kBinary = sample("chakra/chakra.0.et"), kGraph = sample("chakra/small_chakra.0.json");

// As chakra_jsonizer prints it: 64-bit numbers as texts, what is 0 by default left out.
const std::string kObjects =
    "{\n  \"version\": \"0.0.4\"\n}{\n  \"id\": \"1\",\n  \"name\": \"a \\\"}\\\" b\",\n  \"type\": \"COMP_NODE\",\n"
    "  \"durationMicros\": \"33\",\n  \"attr\": [\n    {\"name\": \"is_cpu_op\", \"boolVal\": false},\n"
    "    {\"name\": \"num_ops\", \"int64Val\": \"1000000\"}]\n}{\n  \"id\": \"2\", \"type\": \"COMM_COLL_NODE\", "
    "\"attr\": [\n"
    "    {\"name\": \"comm_type\", \"int64Val\": \"7\"}, {\"name\": \"comm_size\", \"int64Val\": \"4096\"},\n"
    "    {\"name\": \"pg_name\", \"stringVal\": \"3\"}]}{\"id\": \"3\", \"type\": \"COMM_SEND_NODE\", \"attr\": [\n"
    "    {\"name\": \"comm_size\", \"uint64Val\": \"512\"}]}{\"id\": \"4\", \"type\": \"MEM_LOAD_NODE\", \"attr\": [\n"
    "    {\"name\": \"tensor_size\", \"uint64Val\": \"2048\"}]}\n";

}  // namespace

TEST_CASE("the sums of a binary trace: nodes of the GPU by kind, collectives by kind, operators of the host apart") {
  const auto trace = chakra::read_trace(bytes_of(kBinary), "chakra.0.et");
  CHECK(trace.nodes == 40);
  CHECK(trace[NodeType::compute].nodes + trace[NodeType::collective].nodes + trace.host.nodes == 40);
  // ncclKernel_Broadcast of 53120 floats, 28 us; c10d::broadcast_ that launches it is the host's.
  REQUIRE(trace.between.count("broadcast"));
  const auto& broadcast = trace.between.at("broadcast");
  CHECK(broadcast.bytes == 53120 * 4 + (broadcast.nodes - 1) * 53 * 8);
  CHECK(broadcast.picoseconds >= 28e6);
  CHECK(trace[NodeType::collective].bytes == broadcast.bytes);
  CHECK(trace.host.picoseconds > trace[NodeType::compute].picoseconds);
}

TEST_CASE("the JSON of the feeder, and that of chakra_jsonizer") {
  const auto graph = chakra::read_trace(bytes_of(kGraph), "small.json");
  CHECK(graph.nodes == 7);
  CHECK(graph.gpus == 8);
  CHECK(graph[NodeType::compute].nodes == 1);
  CHECK(graph[NodeType::compute].picoseconds == 4e6);
  CHECK(graph.between.at("collective").nodes == 1);
  CHECK(graph.host.nodes == 5);
  CHECK(graph.host.picoseconds == (318 + 28 + 85 + 79 + 153) * 1e6);

  const auto trace = chakra::read_trace(kObjects, "t.json");
  CHECK(trace.version == "0.0.4");
  CHECK(trace.nodes == 4);
  CHECK(trace[NodeType::compute].picoseconds == 33e6);
  CHECK(trace.operations == 1e6);
  CHECK(trace.between.at("reduce-scatter in group 3").bytes == 4096);
  CHECK(trace[NodeType::send].bytes == 512);
  CHECK(trace[NodeType::load].bytes == 2048);
  const auto all = fmt::format("{}", fmt::join(chakra::phrases(trace), "; "));
  CHECK(all ==
        "1 kernel in 33.0 us with 1e+06 operations; 1 x reduce-scatter in group 3, 4.00 KiB in all; 1 x send, 512 B in "
        "all; 1 x load from memory, 2.00 KiB in all");
}

TEST_CASE("a trace alone is no scenario, and says what it holds; beside a model it says how many GPUs there are") {
  const auto alone = refusal([] { import({.files = { kGraph }}, scenario::disk()); });
  CHECK(holds(alone, "an execution trace of one rank, Chakra: 1 kernel in 4.0 us; 1 x collective in 28.0 us; 5 "));
  CHECK(holds(alone, "nothing here says what was trained"));
  const auto beside_model = import({.files = {kGraph}, .sets = {"model=llama3-8b"}}, scenario::disk());
  CHECK(value(beside_model, "parallelism.data") == "8");
  CHECK(names(beside_model.draft.unworded(), "5 operators in 663.0 us on the host"));
  const auto groups = import({.files = {kBinary, "g.json"}, .sets = {"model=llama3-8b", "parallelism.tensor=2"}},
                             beside({{"g.json", "{\"0\": [0, 1, 2, 3], \"7\": [4, 5]}"}}));
  CHECK(value(groups, "cluster.gpus") == "6");
  CHECK(names(groups.draft.unworded(), "groups of ranks: 1 of 2, 1 of 4"));
  CHECK(names(groups.draft.unworded(), "broadcast"));
  CHECK(holds(refusal([] { imported_text("g.json", "{\"0\": [0, -1]}", {.sets = {"model=llama3-8b"}}); }),
              "g.json:1: a rank is a number from 0 on"));
}

TEST_CASE("traces that are cut short or damaged, and what is none") {
  const auto whole = bytes_of(kBinary);
  CHECK(holds(refusal([&] { imported_text("cut.et", whole.substr(0, whole.size() - 10)); }),
              "the trace ends in the middle of node 39"));
  CHECK(holds(refusal([&] { imported_text("cut.json", kObjects.substr(0, kObjects.size() - 20)); }), "node 3 (byte "));
  CHECK(holds(refusal([&] { imported_text("cut.json", bytes_of(kGraph).substr(0, 900)); }),
              "'workload_graph' must be a list of nodes"));
  CHECK_FALSE(chakra::is_trace(std::string("\x7f\x45LF\x02\x01\x01\0\0\0\0", 11)));
  CHECK_FALSE(chakra::is_trace("{\"version\": 1}{\"type\": \"other\"}"));
  CHECK_FALSE(chakra::is_trace(""));
  CHECK(holds(refusal([] { imported_text("k.json", "{\n\"schemaVersion\": 1,\n \"traceEvents\": [\n{}]}"); }),
              "a profiler's trace"));
  CHECK(holds(refusal([] { imported_text("t.json.gz", std::string("\x1f\x8b\x08\0abc", 7)); }), "is compressed"));
}

TEST_CASE("UTF-16 becomes UTF-8, and a mark of UTF-8 goes") {
  CHECK(as_utf8("\xEF\xBB\xBFplain") == "plain");
  CHECK(as_utf8(std::string("\xFF\xFEi\0\xE4\0\xAC\x20\x3D\xD8\x00\xDE", 12)) ==
        "i\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
  CHECK(as_utf8(std::string("\xFE\xFF\0i\0", 5)) == "i");
  CHECK(as_utf8("ordinary") == "ordinary");
}

}  // namespace rehearsal::interchange::trainers
