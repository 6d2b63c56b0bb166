// Rules for values that a table does not state, by hand; and the shipped rules against values that tables print.
#include "published/mapping.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "published/row_scenario.hpp"

using namespace rehearsal;
using namespace rehearsal::published;

namespace {

Mapping mapping(const std::string& rules) {
  return read_mapping(scenario::MemoryFiles({{"configs/published_runs.yaml", "rules:\n" + rules}}));
}

Run run(std::map<std::string, std::string> cells) {
  Run r;
  r.cells = std::move(cells);
  return r;
}

std::string rule_error(const std::string& rules) {
  try {
    mapping(rules);
  } catch (const UserError& error) {
    const auto& first = error.diagnostics().front();
    return fmt::format("{}: {}", first.where.line, first.message);
  }
  return "no error";
}

}  // namespace

TEST_CASE("patterns: somewhere, at the beginning, the whole, above; none of them") {
  const auto meets = [](const std::string& column, const std::string& pattern, const std::string& cell) {
    return fits({column, {pattern}}, cell);
  };
  CHECK(meets("gpu", "a100", "NVIDIA A100-SXM"));
  CHECK(!meets("gpu", "^a100", "NVIDIA A100-SXM"));
  CHECK(meets("gpu", "^nvidia", "NVIDIA A100-SXM"));
  CHECK(meets("tp", "=8", "8"));
  CHECK(!meets("tp", "=8", "80"));
  CHECK(meets("tp", "=", ""));
  CHECK(meets("tp", ">1", "8"));
  CHECK(!meets("tp", ">1", "1"));
  CHECK(!meets("tp", ">1", ""));
  CHECK(!meets("tp", ">1", "n/a"));
  CHECK(meets("!gpu", "h100", "A100"));
  CHECK(fits({"gpu", {"h100", "a100"}}, "A100"));
}

TEST_CASE("a setting may be a number that the row prints") {
  const auto m =
      mapping("  - {when: {gpu: h100}, set: {a: number in tp, b: number after GA in notes, c: number in pp}}\n");
  const auto set = m.of(run({{"gpu", "H100"}, {"tp", "4 (recipe)"}, {"notes", "GA 16; x"}, {"pp", "many"}})).set;
  REQUIRE(set.size() == 2);
  CHECK(set[0] == std::pair<std::string, std::string>{"a", "4"});
  CHECK(set[1] == std::pair<std::string, std::string>{"b", "16"});
}

TEST_CASE("the first machine and the first framework count, settings add up") {
  const auto m = mapping(
      "  - {when: {gpu: a100, interconnect: roce}, cluster: slow}\n"
      "  - {when: {gpu: a100}, cluster: fast, gpus_per_node: 4}\n"
      "  - {when: {framework: mega}, software: megatron-2021, set: {training.attention: unfused, a: 1}}\n"
      "  - {when: {framework: mega}, software: megatron-2025}\n"
      "  - {when: {software: =megatron-2021, framework: '2026'}, software: megatron-2026, set: {a: 2}}\n"
      "  - {when: {table: ^x}, not_judged: odd}\n"
      "  - {when: {table: ^y}, not_timed: toy, fine_tuning: true, over: {b: {c: [1, two]}}}\n");
  const auto first = m.of(run({{"gpu", "A100"}, {"framework", "Megatron"}}));
  CHECK(first.cluster == "fast");
  CHECK(first.gpus_per_node == 4);
  CHECK(first.framework == "megatron-2021");
  CHECK(first.set.size() == 2);
  const auto second = m.of(run({{"gpu", "A100"}, {"interconnect", "RoCE"}, {"framework", "Megatron 2026"}}));
  CHECK(second.cluster == "slow");
  CHECK(second.framework == "megatron-2026");  // a rule that asks for the framework may replace it
  CHECK(second.set.back() == std::pair<std::string, std::string>{"a", "2"});
  auto own = run({{"gpu", "A100"}, {"table", "y"}});
  own.cluster = "mine", own.profile = "theirs";
  const auto third = m.of(own);
  CHECK(third.cluster == "mine");
  CHECK(third.framework == "theirs");
  CHECK(third.not_timed == "toy");
  CHECK(third.fine_tuning);
  CHECK(third.over == std::vector<std::pair<std::string, std::string>>{{"b", "{c: [1, two]}"}});
  CHECK(m.of(run({{"table", "x1"}})).not_judged == "odd");
}

TEST_CASE("a setting may be a number that the row prints") {
  const auto m = mapping(
      "  - {when: {notes: alpha}, set: {a: number after alpha in notes}, over: {b: number after beta in notes}}\n");
  const auto printed = m.of(run({{"gpu", "A100"}, {"notes", "Figure 9; alpha 0.522; beta none"}}));
  CHECK(printed.set == std::vector<std::pair<std::string, std::string>>{{"a", "0.522"}});
  CHECK(printed.over.empty());
  const auto option = m.of(run({{"gpu", "A100"}, {"notes", "beta=16 alpha=x"}}));  // as a command line has it
  CHECK(option.over == std::vector<std::pair<std::string, std::string>>{{"b", "16"}});
  CHECK(option.set.empty());
}

TEST_CASE("errors say where") {
  CHECK(rule_error("  - {set: {a: 1}}\n").find("2:") != std::string::npos);
  CHECK(rule_error("  - {set: {a: 1}}\n").find("'when'") != std::string::npos);
  CHECK(rule_error("  - {when: {tp: '>many'}}\n").find("'>' needs a number") != std::string::npos);
  CHECK(rule_error("  - {when: {tp: [[1]]}}\n").find("a pattern is a text") != std::string::npos);
  CHECK(rule_error("  - {when: {tp: 1}, cluters: x}\n").find("unknown key 'cluters'") != std::string::npos);
}

TEST_CASE("a release of Megatron-Bridge brings its recipe, also over knobs that do not know it") {
  Run r = run({{"framework", "Megatron-Bridge 26.08 NeMo Container"},
               {"model", "DeepSeekV3"},
               {"gpu", "GB200-NVL72"},
               {"n_experts", "256"},
               {"layers", "61"},
               {"pp", "4"},
               {"vp", "4"}});
  r.id = "r-1", r.table = "r", r.framework = r.cell("framework"), r.model = r.cell("model"), r.gpu = r.cell("gpu");
  r.layers = 61, r.hidden = 7168, r.heads = 128, r.sequence = 4096, r.gpus = 256, r.global_batch = 4096;
  r.micro_batch = 1, r.experts = 256, r.experts_per_token = 8, r.expert_ffn = 2048, r.iteration_s = 13.3;
  r.expert = 64, r.pipeline = 4, r.chunks = 4, r.profile = "megatron-2025";
  r.cluster = "{use: gb200-nvl72, gpus_per_node: 64, nodes: 4, links: {scale_out: {per_node: 64}}}";
  r.knobs = R"({"training.recompute": "none", "training.precision": "fp8"})";
  const auto row = scenario_of(r, read_mapping(), FrameworkDetail::knobs);
  REQUIRE(row.not_judged == "");
  const auto s = scenario::load_text(row.yaml, "row", row.sets);
  CHECK(s.concrete->framework.name == "megatron-2026");
  CHECK(s.concrete->framework.dispatcher == models::Dispatcher::hybridep);
  CHECK(s.concrete->framework.cuda_graph == models::CudaGraph::full);
  CHECK(s.concrete->model.mla);
  CHECK(s.concrete->model.mtp_layers == 1);
  CHECK(s.concrete->training.recompute == models::Recompute::selective);
}

TEST_CASE("a row's GPU wins over a cluster of another GPU, or the row is refused") {
  Run r = run({{"gpu", "4090x4"}});
  r.id = "r-1", r.table = "r", r.gpu = "4090x4", r.layers = 2, r.hidden = 256, r.heads = 4, r.sequence = 128;
  r.gpus = 4, r.global_batch = 4, r.micro_batch = 1, r.iteration_s = 1;
  r.cluster = R"({"use": "dgx-h100", "gpus": 4})";
  const auto mapping = read_mapping();
  const auto row = scenario_of(r, mapping, FrameworkDetail::knobs);
  REQUIRE(row.not_judged == "");
  CHECK(scenario::load_text(row.yaml, "row", row.sets).concrete->cluster.gpu.name == "rtx-4090");
  r.gpu = "X9000", r.cells["gpu"] = r.gpu;
  CHECK(scenario_of(r, mapping, FrameworkDetail::knobs).not_judged.find("h100-80g-sxm") != std::string::npos);
  for (const char* same : {"H100-SXM5-80GB", "H100", "not printed"}) {
    r.gpu = same, r.cells["gpu"] = same;
    CHECK(scenario_of(r, mapping, FrameworkDetail::knobs).yaml.find("dgx-h100") != std::string::npos);
  }
}
