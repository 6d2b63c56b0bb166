// Schedules with overlapped pairs, two directions or pieces of sequences, as their own projects run them, and the
// comparison table in DualPipe's README (tests/golden/schedules/README.md).
#include <iterator>
#include <map>
#include <sstream>

#include "reference_cases.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;
using nlohmann::json;

namespace {

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

}  // namespace

TEST_CASE("dualpipe and dualpipev as deepseek-ai/DualPipe steps through them") {
  reference::each_case("dualpipe.jsonl", 78, [](const json& row) {
    Problem problem = reference::problem_of(row);
    problem.overlapped.assign(problem.stages(), Time(row.at("FB").get<std::int64_t>()));
    reference::compare(registry().at(row.at("gen").get<std::string>()), problem, row);
  });
}

// `F0.3`: forward of direction (dualpipe) or chunk (dualpipev) 0, micro-batch 3; `F0.3|B1.1`: an overlapped pair; a
// batch of messages in brackets is not part of an order.
TEST_CASE("dualpipe and dualpipev between the batches of messages of deepseek-ai/DualPipe") {
  reference::each_case("dualpipe_events.jsonl", 10, [&](const json& row) {
    CAPTURE(row.at("id").get<std::string>());
    const bool vee = row.at("gen").get<std::string>() == "dualpipev_events";
    const Schedule& schedule = registry().at(vee ? "dualpipev" : "dualpipe");
    const std::uint32_t p = row.at("p");
    const Problem problem = uniform_problem(p, row.at("m"), 2, Time(1), Time(1), Time(1), Time(0));
    for (std::uint32_t rank = 0; rank < p; ++rank) {
      CAPTURE(rank);
      std::vector<std::string> expected;
      for (const std::string& token : words(row.at("ranks").at(rank)))
        if (token.front() != '[') expected.push_back(token);
      std::vector<std::string> tokens;
      bool second = false;  // of a pair
      for (Order order = schedule.order(problem, rank); order.next();) {
        const Action action = order.value();
        const std::string token = std::string(1, "FIWB"[static_cast<int>(action.op)]) +
                                  (action.stage < p ? "0." : "1.") + std::to_string(action.microbatch);
        if (second)
          tokens.back() += "|" + token;
        else
          tokens.push_back(token);
        second = action.overlaps_next;
      }
      CHECK(tokens == expected);
    }
  });
}

// Tokens: D down, U up; the number counts pipeline instances, two per unit of p micro-batches; f forward, b backward, s
// the gradient reduction of an instance, which is not part of an order.
TEST_CASE("chimera in the order of Shigangli/Chimera") {
  const Schedule& schedule = registry().at("chimera");
  reference::each_case("chimera.jsonl", 4, [&](const json& row) {
    CAPTURE(row.at("id").get<std::string>());
    const std::uint32_t p = row.at("p");
    const Problem problem = uniform_problem(p, row.at("m"), 2, Time(1), Time(1), Time(0), Time(0));
    for (std::uint32_t rank = 0; rank < p; ++rank) {
      CAPTURE(rank);
      std::vector<std::string> expected;
      for (const std::string& token : words(row.at("ranks").at(rank)))
        if (token != "." && token.back() != 's') expected.push_back(token);
      std::map<std::string, std::uint32_t> seen;  // occurrences of a token: the traces do not contain micro-batches
      std::vector<std::string> tokens;
      for (Order order = schedule.order(problem, rank); order.next();) {
        const Action action = order.value();
        const bool up = action.stage >= p;
        tokens.push_back((up ? "U" : "D") + std::to_string(action.microbatch / (p / 2) * 2 + up) +
                         (action.op == Op::forward ? "f" : "b"));
        CHECK(action.microbatch % (p / 2) == seen[tokens.back()]++);
      }
      CHECK(tokens == expected);
    }
    // Slots of equal length: the planner's idle slots are those between the first and the last action of a rank.
    std::size_t longest = 0;
    for (std::uint32_t rank = 0; rank < p; ++rank) {
      const auto slots = words(row.at("ranks").at(rank));
      std::size_t first = 0, last = 0, syncs_before = 0, syncs = 0;
      while (slots[first] == ".") ++first;
      for (std::size_t n = 0; n < slots.size(); ++n) {
        if (slots[n].back() == 's') ++syncs;
        if (slots[n].back() == 'b') last = n, syncs_before = syncs;
      }
      // The planner puts a reduction into a waiting slot; none makes the pipeline longer.
      CHECK(syncs_before <= 1);
      longest = std::max(longest, last - first + 1);
    }
    CHECK(replay(schedule, problem).cost == Time(std::int64_t(longest)));
  });
}

TEST_CASE("seq1f1b in the order of its authors' generator") {
  const Schedule& schedule = registry().at("seq1f1b");
  reference::each_case("seq1f1b.jsonl", 5, [&](const json& row) {
    CAPTURE(row.at("id").get<std::string>());
    Problem problem = uniform_problem(row.at("p"), row.at("m"), 1, Time(20), Time(20), Time(20), Time(1));
    problem.pieces = row.at("splits").get<std::uint32_t>();
    const std::vector<std::string> rows = order_text(schedule, problem);
    for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
      std::string expected;  // theirs is F0.1, ours 3F0.1 with the stage in front
      for (const std::string& token : words(row.at("ranks").at(rank)))
        expected += (expected.empty() ? "" : ",") + std::to_string(rank) + token;
      CHECK(rows[rank] == expected);
    }
    CHECK_NOTHROW(replay(schedule, problem));
    CHECK_NOTHROW(check_zero_buffer(schedule, problem));
  });
}

namespace {

// The longest idle time of a rank between its first and its last action.
Time longest_idle(const Schedule& schedule, const Problem& problem) {
  std::vector<Time> first(problem.ranks, Time(-1)), last(problem.ranks);
  ReplayOptions options;
  options.visit = [&](const ReplayedAction& a) {
    if (first[a.rank] < Time()) first[a.rank] = a.start;
    last[a.rank] = a.end;
  };
  const Replay got = replay(schedule, problem, options);
  Time idle;
  for (std::uint32_t r = 0; r < problem.ranks; ++r) idle = std::max(idle, last[r] - first[r] - got.busy[r]);
  return idle;
}

struct Row {
  const char* schedule;
  bool folded;  // PP stages on PP/2 ranks
  Time bubble;
  std::uint32_t parameters;  // per rank, in stages of PP
  std::int64_t activations;  // per rank at most, in stages of PP
};

}  // namespace

// "Pipeline Bubbles and Memory Usage Comparison" of deepseek-ai/DualPipe, README.md: PP stages; F, B, W = one forward,
// full backward, weight gradient of a stage, F&B = an overlapped pair.
//   1F1B       (PP-1)(F+B)             1x   PP
//   ZB1P       (PP-1)(F+B-2W)          1x   PP
//   DualPipe   (PP/2-1)(F&B+B-3W)      2x   PP+1
//   DualPipeV  (PP/2-1)(F&B+B-3W)      2x   PP+1   on PP/2 ranks
// Replayed with free transfers. The formulas of the last two assume forwards as long as input gradients, W not longer,
// and F&B = F + B.
TEST_CASE("the comparison table of DualPipe's README comes out of the runs") {
  for (const std::int64_t pp : {4, 8, 16})
    for (const std::int64_t w : {6, 8, 10}) {
      CAPTURE(pp);
      CAPTURE(w);
      const Time f(10), i(10), weight(w), b = i + weight, pair = f + b;
      const auto stages = std::uint32_t(pp);
      for (const Row& row :
           {Row{"1f1b", false, (pp - 1) * (f + b), 1, pp}, Row{"zb-h1", false, (pp - 1) * (f + b - 2 * weight), 1, pp},
            Row{"dualpipe", false, (pp / 2 - 1) * (pair + b - 3 * weight), 2, pp + 1},
            Row{"dualpipev", true, (pp / 2 - 1) * (pair + b - 3 * weight), 2, pp + 1}}) {
        CAPTURE(row.schedule);
        const Schedule& schedule = registry().at(row.schedule);
        const std::uint32_t ranks = row.folded ? stages / 2 : stages;
        Problem problem = uniform_problem(ranks, 3 * stages, schedule.min_chunks, f, i, weight, Time(0));
        CHECK(longest_idle(schedule, problem) == row.bubble);
        CHECK(problem.chunks == row.parameters);
        const auto held = replay(schedule, problem).in_flight_FB;
        CHECK(*std::max_element(held.begin(), held.end()) == row.activations);
      }
    }
}

// The table omits: a pair that is shorter than its halves shortens the bubble too, (PP/2-2) times more than the formula
// says; with four stages the two agree.
TEST_CASE("the bubble of overlapped pairs, beside the formula") {
  for (const std::int64_t pp : {4, 8, 16})
    for (const char* name : {"dualpipe", "dualpipev"}) {
      CAPTURE(pp);
      CAPTURE(name);
      const Time f(10), i(10), w(10), b = i + w, pair(24), saved = f + b - pair;
      const Schedule& schedule = registry().at(name);
      const auto ranks = std::uint32_t(schedule.placement == Placement::vee ? pp / 2 : pp);
      Problem problem = uniform_problem(ranks, std::uint32_t(3 * pp), 2, f, i, w, Time(0));
      problem.overlapped.assign(problem.stages(), pair);
      CHECK(longest_idle(schedule, problem) == (pp / 2 - 1) * (pair + b - 3 * w) - (pp / 2 - 2) * saved);
    }
}
