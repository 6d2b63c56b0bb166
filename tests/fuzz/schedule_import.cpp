// Any text as a schedule file gives a legal order or a UserError; an order that was read, written and read again is the
// same order.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "schedule/csv.hpp"
#include "schedule/replay.hpp"
#include "schedule/text.hpp"

namespace {

using namespace rehearsal;
using namespace rehearsal::schedule;

Problem problem_of(const Imported& imported) {
  auto problem =
      uniform_problem(imported.ranks, imported.microbatches, imported.chunks, Time{7}, Time{5}, Time{3}, Time{2});
  problem.pieces = imported.pieces;
  problem.stage_ranks = imported.stage_ranks;
  return problem;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::optional<Imported> read;
  try {
    read = import_csv({reinterpret_cast<const char*>(data), size}, "fuzz.csv", "fuzz");
  } catch (const UserError&) {
    return 0;
  }
  // From here on nothing may be refused: the order has been checked.
  const auto problem = problem_of(*read);
  if (replay(read->schedule, problem).cost <= Time{}) std::abort();
  std::string text;
  export_csv(read->schedule, problem, {}, [&](std::string_view piece) { text += piece; });
  const auto again = import_csv(text, "again.csv", "again");
  if (order_text(again.schedule, problem_of(again)) != order_text(read->schedule, problem)) std::abort();
  return 0;
}
