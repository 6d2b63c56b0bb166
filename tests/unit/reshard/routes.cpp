// Plans as messages: every device ends with what it needs, none sends what it does not have, and nothing is sent twice.
#include "reshard/routes.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>

using namespace rehearsal;
using namespace rehearsal::reshard;

namespace {

// Elements of a box, row-major, as numbers of the whole tensor.
std::vector<std::int64_t> numbers(const Box& box, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> all{0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> next;
    for (const auto n : all)
      for (auto i = box[d].low; i < box[d].high; ++i) next.push_back(n * shape[d] + i);
    all = std::move(next);
  }
  return all;
}

std::vector<std::set<std::int64_t>> held(const Layout& layout, const std::vector<std::int64_t>& shape) {
  std::vector<std::set<std::int64_t>> of(layout.mesh.devices());
  for (const auto& tile : tiles_of(layout, shape))
    for (const auto device : tile.devices)
      for (const auto n : numbers(tile.box, shape)) of[device].insert(n);
  return of;
}

}  // namespace

TEST_CASE("for any plan, messages in order bring every device what it needs, once") {
  std::mt19937 random(5);
  const char* specs[] = {"RR", "S0R", "RS0", "S1R", "RS1", "S01R", "S0S1", "S1S0", "S10R"};
  std::size_t relayed = 0, flowing = 0;
  for (int round = 0; round < 400; ++round) {
    const auto side = [&] {
      return Layout{{1 + std::uint32_t(random() % 3), 1 + std::uint32_t(random() % 4)},
                    parse_spec(specs[random() % 9])};
    };
    Question question;
    question.resharding =
        Resharding{side(), side(), {std::int64_t(1 + random() % 12), std::int64_t(1 + random() % 12)}};
    const auto& r = *question.resharding;
    const Strategy strategies[] = {Strategy::send_recv, Strategy::local_allgather, Strategy::global_allgather,
                                   Strategy::broadcast, Strategy::automatic};
    question.method.strategy = strategies[random() % 5];
    question.method.nic = random() % 2 ? NicSharing::gpu : NicSharing::host;
    question.method.chunks = std::int64_t(random() % 6);  // 0: as many as make it shortest
    question.method.link.latency = 1e-6, question.method.link.nvlink = 1e11;
    const auto planned = answer(question);
    for (const auto chunks : {Chunks::each, Chunks::three}) {
      CAPTURE(round);
      const auto source = held(r.source, r.shape), wanted = held(r.destination, r.shape);
      std::vector<std::set<std::int64_t>> got(wanted.size());
      const auto all = carries(planned, chunks);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto& carry = all[i];
        REQUIRE(carry.count > 0);
        const auto box = numbers(carry.box, r.shape);
        REQUIRE(carry.first + carry.count <= std::int64_t(box.size()));
        CHECK(carry.relayed == carry.after.has_value());
        if (carry.after) {
          REQUIRE(*carry.after < i);
          CHECK(all[*carry.after].to == carry.from);
          ++relayed, flowing += carry.cut_through;
        }
        for (auto n = carry.first; n < carry.first + carry.count; ++n) {
          const auto element = box[std::size_t(n)];
          CHECK((carry.relayed ? got[carry.from] : source[carry.from]).count(element) == 1);
          CHECK(got[carry.to].insert(element).second);  // never twice
        }
      }
      CHECK(got == wanted);
    }
  }
  CHECK(relayed > 500);
  CHECK(flowing > 20);
}

TEST_CASE("a chain of three in ten chunks, by hand") {
  Question question;
  question.resharding = Resharding{{{1, 1}, parse_spec("R")}, {{1, 3}, parse_spec("R")}, {100}};
  question.method.chunks = 10;
  const auto planned = answer(question);
  CHECK(carries(planned, Chunks::each).size() == 30);
  const auto three = carries(planned, Chunks::three);
  REQUIRE(three.size() == 9);
  // The first chunk along the chain, then what is between, then the last one.
  CHECK(three[1].from == 0);
  CHECK(three[1].to == 1);
  CHECK(three[1].after == 0u);
  CHECK(three[4].count == 80);
  CHECK(three[4].chunks == 8);
  CHECK(three[4].cut_through);
  CHECK(three[4].after == 0u);  // as soon as the first chunk is there
  CHECK(three[8].after == 7u);
}
