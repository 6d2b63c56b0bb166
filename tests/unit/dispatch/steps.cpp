// Every registered algorithm by its own steps, over wires that deliver in whatever order they like.
#include "dispatch/steps.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <random>

#include "../../collective_cases.hpp"
#include "base/error.hpp"

namespace rehearsal::dispatch {
namespace {

using cases::Case;

// All members in one thread. A message is delivered, and so sent, when both ends have posted it: one at a time, drawn
// at random. The transport may use a sender's bytes until then.
class RandomWires {
 public:
  explicit RandomWires(std::uint32_t members, unsigned seed) : random_(seed) {
    for (std::uint32_t m = 0; m < members; ++m) ends_.push_back(std::make_unique<End>(*this, m));
    for (auto& end : ends_) steps_.push_back(std::make_unique<Steps>(*end, pool_));
  }
  Steps& of(std::uint32_t member) { return *steps_[member]; }

  // False: nobody can go on, though not all are done.
  bool run() {
    for (;;) {
      bool done = true;
      for (auto& steps : steps_) {
        while (random_() % 4 != 0 && steps->advance()) continue;
        done = done && steps->done();
      }
      if (done) return matched().empty() && posted_.empty();
      const auto ready = matched();
      if (ready.empty()) {
        bool moved = false;
        for (auto& steps : steps_) moved |= steps->advance();
        if (!moved && matched().empty()) {
          for (auto& steps : steps_)
            if (!steps->done()) return false;
        }
        continue;
      }
      deliver(ready[random_() % ready.size()]);
    }
  }

 private:
  struct Post {
    std::uint32_t from, to, number, id;
    std::span<const std::byte> bytes;
    std::span<std::byte> into;
    bool sends;
  };
  struct End : MemberMessages {
    End(RandomWires& wires, std::uint32_t me) : wires(wires), me(me) {}
    void send(std::uint32_t to, std::uint32_t number, std::span<const std::byte> bytes, std::uint32_t id) override {
      wires.posted_.push_back({me, to, number, id, bytes, {}, true});
    }
    void receive(std::uint32_t from, std::uint32_t number, std::span<std::byte> into, std::uint32_t id) override {
      wires.posted_.push_back({from, me, number, id, {}, into, false});
    }
    RandomWires& wires;
    std::uint32_t me;
  };
  std::vector<std::pair<std::size_t, std::size_t>> matched() const {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (std::size_t s = 0; s < posted_.size(); ++s)
      for (std::size_t r = 0; posted_[s].sends && r < posted_.size(); ++r)
        if (!posted_[r].sends && posted_[r].from == posted_[s].from && posted_[r].to == posted_[s].to &&
            posted_[r].number == posted_[s].number)
          pairs.emplace_back(s, r);
    return pairs;
  }
  void deliver(std::pair<std::size_t, std::size_t> pair) {
    const Post send = posted_[pair.first], receive = posted_[pair.second];
    INVARIANT(send.bytes.size() == receive.into.size(), "both ends agree on the size");
    std::copy(send.bytes.begin(), send.bytes.end(), receive.into.begin());
    posted_.erase(posted_.begin() + std::ptrdiff_t(std::max(pair.first, pair.second)));
    posted_.erase(posted_.begin() + std::ptrdiff_t(std::min(pair.first, pair.second)));
    steps_[send.from]->completed(send.id);
    steps_[send.to]->completed(receive.id);
  }

  std::mt19937 random_;
  BufferPool pool_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<std::unique_ptr<Steps>> steps_;
  std::vector<Post> posted_;
};

// The result of every member.
std::vector<std::vector<std::byte>> perform(const collective::Execution& execution, const Case& c, unsigned seed) {
  std::vector<collective::Routine> routines;
  std::vector<std::unique_ptr<cases::Operands>> operands;
  RandomWires wires(c.members, seed);
  for (std::uint32_t m = 0; m < c.members; ++m) {
    routines.push_back(collective::routine(execution, m));
    operands.push_back(std::make_unique<cases::Operands>(c, m));
  }
  for (std::uint32_t m = 0; m < c.members; ++m) wires.of(m).begin(routines[m], c.kind, c.precision, operands[m]->all());
  REQUIRE_MESSAGE(wires.run(), "members wait for each other");
  std::vector<std::vector<std::byte>> results;
  for (const auto& one : operands) {
    REQUIRE(one->wrong() == "");
    results.push_back(one->bits());
  }
  return results;
}

TEST_CASE("every algorithm gives what its collective promises, the same bits in whatever order messages arrive") {
  for (std::uint32_t members = 1; members <= 9; ++members) {
    for (const auto& execution : cases::executions(members)) {
      CAPTURE(execution.algorithm->name);
      CAPTURE(execution.shape.per_node);
      CAPTURE(execution.pieces);
      for (const std::size_t length : {0, 1, 7, 100}) {
        for (const Precision precision : {Precision::fp32, Precision::bf16}) {
          for (const auto form : cases::forms(execution.algorithm->kind)) {
            const Case c{execution.algorithm->kind, precision, members, length, form};
            CAPTURE(c.text());
            const auto first = perform(execution, c, 1), second = perform(execution, c, 2);
            CHECK(first == second);
            if (c.kind != CollectiveKind::all_reduce) continue;
            for (const auto& other : first) CHECK(other == first.front());
          }
        }
      }
    }
  }
}

TEST_CASE("pieces are as many as the closed form assumes, and none takes less than a latency") {
  const auto& ring = collective::registry().at("ring-all-reduce");
  // 21 MB over two channels: 21 / (2 x 3 x 2 MiB) = 1.67 loops of two slices, of each part.
  CHECK(collective::execution(ring, {3, 1}, Bytes(21'000'000), 2).pieces == 3);
  CHECK(collective::execution(ring, {3, 1}, Bytes(1 << 20), 2).pieces == 2);
  CHECK(collective::execution(ring, {3, 1}, Bytes(64 << 10), 2).pieces == 1);
  CHECK(collective::execution(ring, {3, 1}, Bytes(4), 2).pieces == 1);
  CHECK(collective::execution(collective::registry().at("neighbour-shift"), {4, 1}, Bytes(1 << 30), 2).pieces == 64);
}

TEST_CASE("all but the first half megabyte leaves once its receiver has joined") {
  struct Lonely : MemberMessages {
    void send(std::uint32_t, std::uint32_t, std::span<const std::byte> bytes, std::uint32_t) override {
      sent.push_back(bytes.size());
    }
    void receive(std::uint32_t, std::uint32_t, std::span<std::byte> into, std::uint32_t id) override {
      if (into.size() == 1) call = id;
    }
    std::vector<std::size_t> sent;
    std::optional<std::uint32_t> call;
  };
  using Sizes = std::vector<std::size_t>;
  const auto mine = collective::routine({&collective::registry().at("ring-all-reduce"), 2, 3}, 0);
  BufferPool pool;
  // Two steps of a half in three pieces each.
  const auto begin = [&](Steps& steps, cases::Operands& array) {
    steps.begin(mine, CollectiveKind::all_reduce, Precision::fp32, array.all());
    while (steps.advance()) continue;
  };
  {
    Lonely messages;
    Steps steps(messages, pool);
    cases::Operands array({CollectiveKind::all_reduce, Precision::fp32, 2, 60'000}, 0);
    begin(steps, array);
    CHECK(messages.sent == Sizes{40'000, 40'000, 40'000});
    CHECK(!messages.call);
  }
  Lonely messages;
  Steps steps(messages, pool);
  cases::Operands array({CollectiveKind::all_reduce, Precision::fp32, 2, 300'000}, 0);
  begin(steps, array);
  CHECK(messages.sent == Sizes{1, 200'000, 200'000});
  REQUIRE(messages.call);
  steps.completed(*messages.call);
  while (steps.advance()) continue;
  CHECK(messages.sent == Sizes{1, 200'000, 200'000, 200'000});
}

TEST_CASE("members play the switches that are not there") {
  const auto& nvls = collective::registry().at("nvls-all-reduce");
  const auto own = collective::routine({&nvls, 4, 1}, 2);
  CHECK(own.cells == 8);  // four parts, and what the switch holds of them
  // Part 2 of all four is added up here: the first to come is not added to what was there before.
  std::vector<bool> adds;
  for (const auto m : own.of_cell[4 + 2])
    if (!own.moves[m].sends && own.moves[m].step == 0) adds.push_back(own.moves[m].adds);
  CHECK(adds == std::vector<bool>{false, true, true, true});
}

TEST_CASE("a schedule that sends what nobody has is a bug, and is called one") {
  collective::Algorithm wrong = collective::registry().at("ring-all-gather");
  wrong.schedule = [](collective::Shape) {
    return std::vector<std::vector<collective::Transfer>>{{{0, 1, 1, false}, {1, 0, 0, false}}};
  };
  const auto left = collective::routine({&wrong, 2, 1}, 0), right = collective::routine({&wrong, 2, 1}, 1);
  const Case c{CollectiveKind::all_gather, Precision::fp32, 2, 5};
  cases::Operands first(c, 0), second(c, 1);
  RandomWires wires(2, 1);
  wires.of(0).begin(left, c.kind, c.precision, first.all());
  wires.of(1).begin(right, c.kind, c.precision, second.all());
  CHECK_THROWS_AS(wires.run(), InternalError);
}

}  // namespace
}  // namespace rehearsal::dispatch
