// Orders, costs and peaks equal to those of the original generators (tests/golden/schedules/README.md).
#include "reference_cases.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;
using nlohmann::json;

namespace {

// Our name for an original generator.
std::string house_name(const std::string& generator) {
  if (generator == "zb_h1") return "zb-h1";
  if (generator == "gpipe" || generator == "alpa_gpipe") return "gpipe";
  if (generator == "1f1b" || generator == "alpa_1f1b") return "1f1b";
  return "interleaved-1f1b";
}

Problem problem_of(const json& row) {
  Problem problem = reference::problem_of(row);
  const std::string generator = row.at("gen");
  if (generator == "meg_interleaved_moe_overlap") problem.extra_warmup = 1;
  if (generator == "pt_interleaved_1f1b") {
    const std::uint32_t rounds = std::max(1u, problem.microbatches / problem.ranks);
    problem.group = problem.microbatches / rounds;
  }
  return problem;
}

void compare_file(const std::string& name, std::size_t expected) {
  reference::each_case(name, expected, [](const json& row) {
    reference::compare(registry().at(house_name(row.at("gen"))), problem_of(row), row);
  });
}

}  // namespace

TEST_CASE("gpipe, 1f1b and zb-h1 as in their papers") { compare_file("basic.jsonl", 117); }
TEST_CASE("interleaved-1f1b as planned by Megatron-LM") { compare_file("megatron.jsonl", 123); }
TEST_CASE("gpipe and 1f1b as in alpa") { compare_file("alpa.jsonl", 26); }
TEST_CASE("interleaved-1f1b as in torch.distributed.pipelining") { compare_file("pytorch.jsonl", 36); }
