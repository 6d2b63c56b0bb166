// Schedules of one chunk and of several chunks in a loop: orders, costs and peaks equal to those of their papers and of
// the original generators (tests/golden/schedules/README.md).
#include "reference_cases.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;
using nlohmann::json;

namespace {

void compare_file(const std::string& name, std::size_t expected, const std::map<std::string, std::string>& names) {
  reference::each_case(name, expected, [&](const json& row) {
    const Schedule& schedule = registry().at(names.at(row.at("gen")));
    reference::compare(schedule, reference::problem_of(row), row);
  });
}

}  // namespace

TEST_CASE("zb-h2 as in its paper, eager-1f1b as in alpa") {
  compare_file("one_chunk.jsonl", 52, {{"zb_h2", "zb-h2"}, {"alpa_eager_1f1b", "eager-1f1b"}});
}

TEST_CASE("looped-bfs and interleaved-zb as in torch.distributed.pipelining, grouped-interleaved as in PipeOffload") {
  compare_file("several_chunks.jsonl", 75,
               {{"pt_looped_bfs", "looped-bfs"},
                {"pt_interleaved_zb", "interleaved-zb"},
                {"group_interleaved_1f1b", "grouped-interleaved"}});
}
