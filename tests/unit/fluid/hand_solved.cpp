// Small cases with times worked out in the comments. Capacities and rates are round, so rounding down does not show.
#include <doctest/doctest.h>

#include <functional>

#include "base/error.hpp"
#include "fluid/flows.hpp"

namespace rehearsal::fluid {
namespace {

constexpr std::int64_t kGiga = 1'000'000'000;
Time ms(std::int64_t n) { return Time(n * kGiga); }

Phase moves(Time moving, std::int64_t rate, std::vector<Use> uses, Time trailing = {}) {
  return {{{moving, rate, std::move(uses)}}, trailing};
}

struct Start {
  Time at;
  std::vector<Phase> phases;
};
struct Ends {
  std::vector<Time> moved, ended;
};

// Starts are timers; tags are the indices of the starts. All methods must agree.
Ends run(const std::vector<Wide>& capacities, const std::vector<Start>& starts,
         const std::function<void(Flows&)>& at_the_end = {}) {
  std::vector<Ends> all;
  for (const Flows::Method method : {Flows::Method{}, Flows::Method{false, true}, Flows::Method{true, true}}) {
    Flows flows(capacities, method);
    std::vector<std::uint32_t> profiles;
    for (const Start& start : starts) profiles.push_back(flows.profile(start.phases));
    for (std::size_t i = 0; i < starts.size(); ++i) flows.at(starts[i].at, i);
    Ends ends{std::vector<Time>(starts.size(), Time(-1)), std::vector<Time>(starts.size(), Time(-1))};
    std::vector<Event> events;
    while (!flows.empty()) {
      const Time now = flows.pop_instant(events);
      if (events.empty()) break;
      for (const Event& event : events) {
        if (event.kind == Event::Kind::timer) flows.start(event.tag, profiles[event.tag]);
        if (event.kind == Event::Kind::moved) ends.moved[event.tag] = now;
        if (event.kind == Event::Kind::ended) ends.ended[event.tag] = now;
      }
    }
    if (at_the_end) at_the_end(flows);
    all.push_back(ends);
  }
  for (const Ends& other : all) {
    CHECK(other.moved == all.front().moved);
    CHECK(other.ended == all.front().ended);
  }
  return all.front();
}

}  // namespace

TEST_CASE("two flows on one link") {
  // 10 GB/s for 1 ms is 10 MB each. Half the rate each: both end at 2 ms, slowed by 1 ms each.
  const Phase flow = moves(ms(1), 10 * kGiga, {{0, 1, 0}});
  const Ends ends = run({10 * kGiga}, {{Time{}, {flow}}, {Time{}, {flow}}}, [](const Flows& flows) {
    CHECK(flows.usage()[0].slowed == ms(2));
    CHECK(flows.usage()[0].carried == 20'000'000);
    CHECK(flows.usage()[0].busy == doctest::Approx(1));
  });
  CHECK(ends.ended == std::vector{ms(2), ms(2)});
}

TEST_CASE("one that starts in the middle") {
  // The first moves 5 MB alone in .5 ms; then both at 5 GB/s: its other 5 MB last until 1.5 ms, when the second has
  // moved 5 of its 10 MB. Alone again: until 2 ms.
  const Phase flow = moves(ms(1), 10 * kGiga, {{0, 1, 0}});
  const Ends ends = run({10 * kGiga}, {{Time{}, {flow}}, {Time(kGiga / 2), {flow}}});
  CHECK(ends.ended == std::vector{Time(3 * kGiga / 2), ms(2)});
}

TEST_CASE("a bound below the fair share leaves the rest to others") {
  // 2 GB/s by its own bound; 8 are left for the other: 8 MB in 1 ms.
  const Ends ends = run({10 * kGiga}, {{Time{}, {moves(ms(3), 2 * kGiga, {{0, 1, 0}})}},
                                       {Time{}, {moves(Time(8 * kGiga / 10), 10 * kGiga, {{0, 1, 0}})}}});
  CHECK(ends.ended == std::vector{ms(3), ms(1)});
}

TEST_CASE("weights: equal progress, not equal load") {
  // 3 x + 1 x = 12 GB/s: x = 3 GB/s. The first moves 3 MB until 1 ms. Then the second has 12: its other 9 MB take .75
  // ms.
  const Ends ends = run({12 * kGiga}, {{Time{}, {moves(Time(3 * kGiga / 4), 4 * kGiga, {{0, 3, 0}})}},
                                       {Time{}, {moves(ms(1), 12 * kGiga, {{0, 1, 0}})}}});
  CHECK(ends.ended == std::vector{ms(1), Time(7 * kGiga / 4)});
}

TEST_CASE("uses of one resource add up") {
  // 1 + 2 units of capacity each: 3 x + 3 x = 12, x = 2 of 4 GB/s.
  const Phase flow = moves(ms(1), 4 * kGiga, {{0, 1, 0}, {0, 2, 0}});
  CHECK(run({12 * kGiga}, {{Time{}, {flow}}, {Time{}, {flow}}}).ended == std::vector{ms(2), ms(2)});
}

TEST_CASE("24 of 132 SMs held: the kernel takes 1.22 of its time") {
  // 108 of 132 SMs are left: 132 / 108 of 9 ms = 11 ms. SMs are scaled by 2^64, so that a weight per unit keeps its
  // bits. The collective is not slowed. The rate is rounded down to 2^-12 units/s, so the end is the next picosecond.
  const Wide sm = Wide{1} << 64;
  const std::int64_t rate = std::int64_t{1} << 40;
  const auto weight = static_cast<std::int64_t>(132 * sm / rate);
  const Ends ends =
      run({132 * sm},
          {{Time{}, {moves(ms(9), rate, {{0, weight, 0}})}}, {Time{}, {moves(ms(20), kGiga, {{0, 0, 24 * sm}})}}},
          [&](const Flows& flows) {
            CHECK(flows.usage()[0].slowed == ms(2));
            CHECK(flows.usage()[0].held.count() == doctest::Approx(20e9 * 24 / 132).epsilon(1e-8));
          });
  CHECK(ends.ended == std::vector{ms(11) + Time(1), ms(20)});
  CHECK(double(ends.ended[0].count()) / 9e9 == doctest::Approx(1.22).epsilon(.01));
}

TEST_CASE("a hold begins and ends while a kernel runs") {
  // 1 ms alone, then 2 ms at half speed, then the 8 ms that are left of 10: ends at 11.
  const Ends ends = run({8 * kGiga}, {{Time{}, {moves(ms(10), kGiga, {{0, 8, 0}})}},
                                      {ms(1), {moves(ms(2), kGiga, {{0, 0, 4 * kGiga}})}}});
  CHECK(ends.ended == std::vector{ms(11), ms(3)});
}

TEST_CASE("a hold that takes everything") {
  // The kernel stalls from 1 to 3 ms, and reports what it waited for.
  const Ends ends = run(
      {8 * kGiga}, {{Time{}, {moves(ms(10), kGiga, {{0, 8, 0}})}}, {ms(1), {moves(ms(2), kGiga, {{0, 0, 8 * kGiga}})}}},
      [](const Flows& flows) { CHECK(flows.usage()[0].slowed == ms(2)); });
  CHECK(ends.ended == std::vector{ms(12), ms(3)});
}

TEST_CASE("each holds what the other needs: nothing happens any more") {
  const Ends ends = run({8 * kGiga, 8 * kGiga},
                        {{Time{}, {moves(ms(1), kGiga, {{0, 8, 0}, {1, 0, 8 * kGiga}})}},
                         {Time{}, {moves(ms(1), kGiga, {{1, 8, 0}, {0, 0, 8 * kGiga}})}}},
                        [](const Flows& flows) { CHECK(!flows.empty()); });
  CHECK(ends.ended == std::vector{Time(-1), Time(-1)});
}

TEST_CASE("a chain of links: who is stopped leaves the rest") {
  // Links of 10, 6 and 10 GB/s; A on the first, B on the first two, C on the last two, D on the last.
  // Level of the middle: 3 each for B and C; of the others 5. So B = C = 3, then A = D = 7. All have 21 MB:
  // A, D end at 3 ms; B and C have 12 MB left, still 3 GB/s each: until 7 ms.
  const std::int64_t g = kGiga;
  auto flow = [&](std::vector<Use> uses, std::int64_t rate) {
    return moves(Time(21'000'000'000'000'000 / rate * 1000), rate, std::move(uses));
  };
  const Ends ends = run({10 * g, 6 * g, 10 * g}, {{Time{}, {flow({{0, 1, 0}}, 10 * g)}},
                                                  {Time{}, {flow({{0, 1, 0}, {1, 1, 0}}, 6 * g)}},
                                                  {Time{}, {flow({{1, 1, 0}, {2, 1, 0}}, 6 * g)}},
                                                  {Time{}, {flow({{2, 1, 0}}, 10 * g)}}});
  CHECK(ends.ended == std::vector{ms(3), ms(7), ms(7), ms(3)});
}

TEST_CASE("phases follow each other; a trailing one takes nothing") {
  // Twice (1 ms moving, 1 ms trailing). The other runs through: 1 ms shared, and so on. First: 2 ms at half rate, 1 ms
  // trailing, during which the other is alone. Other: 5 ms of work = 1 in [0,2], 1 in [2,3], 1 in [3,5], 2 in [5,7].
  Phase twice = moves(ms(1), 10 * kGiga, {{0, 1, 0}}, ms(1));
  twice.count = 2;
  const Ends ends = run({10 * kGiga}, {{Time{}, {twice}}, {Time{}, {moves(ms(5), 10 * kGiga, {{0, 1, 0}})}}});
  CHECK(ends.moved == std::vector{ms(5), ms(7)});
  CHECK(ends.ended == std::vector{ms(6), ms(7)});
}

TEST_CASE("a phase lasts as long as its longest strand; alone counts its own strands' sharing") {
  // Two flows of one phase on one link: 1 ms and 3 ms of work at full rate: 2 ms shared, then 2 alone.
  const Phase phase{{{ms(1), 10 * kGiga, {{0, 1, 0}}}, {ms(3), 10 * kGiga, {{0, 1, 0}}}}, ms(1)};
  Flows flows(std::vector<Wide>{10 * kGiga});
  CHECK(flows.alone(flows.profile({phase, phase})) == ms(10));
  const Ends ends = run({10 * kGiga}, {{ms(7), {phase, phase}}}, [](const Flows& after) {
    CHECK(after.usage()[0].slowed == ms(4));  // half of 2 ms, twice, in either phase
  });
  CHECK(ends.moved == std::vector{ms(16)});
  CHECK(ends.ended == std::vector{ms(17)});
}

TEST_CASE("nothing to move takes no time, and is another round of the instant") {
  const Ends ends = run({kGiga}, {{ms(2), {}}, {ms(2), {moves(Time{}, kGiga, {{0, 1, 0}})}}, {ms(2), {{{}, ms(1)}}}});
  CHECK(ends.moved == std::vector{ms(2), ms(2), ms(2)});
  CHECK(ends.ended == std::vector{ms(2), ms(2), ms(3)});
}

TEST_CASE("alone a strand ends exactly when it says") {
  // A rate that divides nothing, and no resource that it could fill.
  const Time odd(1'234'567'891);
  CHECK(run({1'000'000'007}, {{Time{}, {moves(odd, 999'999'937, {{0, 1, 0}})}}}).ended == std::vector{odd});
}

TEST_CASE("a resource that carries all at full speed limits no flow") {
  // 4 + 6 of 10: none is slowed, although the fair share of 5 is less than the second takes.
  const Ends ends =
      run({10 * kGiga},
          {{Time{}, {moves(ms(1), 4 * kGiga, {{0, 1, 0}})}}, {Time{}, {moves(ms(2), 6 * kGiga, {{0, 1, 0}})}}},
          [](const Flows& flows) { CHECK(flows.usage()[0].slowed == Time{}); });
  CHECK(ends.ended == std::vector{ms(1), ms(2)});
}

TEST_CASE("an undisturbed long run is one event; a disturbed one continues as if it always had events") {
  std::vector<Phase> layers(300, moves(ms(1), 10 * kGiga, {{0, 1, 0}}, ms(1)));
  const std::vector<Wide> capacities{10 * kGiga, 10 * kGiga};
  Flows flows(capacities);
  const auto many = flows.profile(layers);
  const auto one = flows.profile({moves(ms(1), 10 * kGiga, {{0, 1, 0}})});
  std::vector<Event> events;
  flows.start(1, many);
  flows.pop_instant(events);
  CHECK(events == std::vector{Event{1, Event::Kind::moved}});
  CHECK(flows.now() == ms(599));
  flows.pop_instant(events);
  CHECK(flows.now() == ms(600));
  CHECK(flows.counts().instants == 2);

  // Again, and at 600 + 100.5 ms another one for 1 ms: in the middle of the 51st phase, which it delays by .5 ms, while
  // the other needs the .5 ms after that too.
  flows.start(1, many);
  flows.at(ms(600) + Time(201 * kGiga / 2), 2);
  flows.pop_instant(events);
  flows.start(3, one);
  flows.pop_instant(events);
  CHECK(flows.now() == ms(600) + Time(204 * kGiga / 2));
  CHECK(events == std::vector{Event{3, Event::Kind::moved}, Event{3, Event::Kind::ended}});
  flows.pop_instant(events);
  CHECK(flows.now() == ms(1199) + Time(kGiga / 2));
  CHECK(flows.counts().woken == 1);
  CHECK(flows.counts().instants < 10);
}

}  // namespace rehearsal::fluid
