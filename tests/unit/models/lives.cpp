// Lifetimes of values, on parts small enough to check by hand.
#include "models/lives.hpp"

#include <doctest/doctest.h>

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

using Values = std::vector<std::uint16_t>;

Operand read(std::uint16_t v) { return {Operand::Of::value, v, false}; }
Operand write(std::uint16_t v) { return {Operand::Of::value, v, true}; }
Step step(std::initializer_list<Operand> operands) { return {"", MemoryBound{}, operands}; }

// x -> a -> b -> y; the input gradient reads b and dy and makes dx through d, the weight gradient reads a and d.
enum : std::uint16_t { x, a, b, y, dy, d, dx, count };
Part chain() {
  Part part;
  for (int v = 0; v < count; ++v) part.values.push_back({Bytes(1 << v)});
  part.input = x, part.output = y, part.output_gradient = dy, part.input_gradient = dx;
  part.forward = {step({read(x), write(a)}), step({read(a), write(b)}), step({read(b), write(y)})};
  part.input_gradient_steps = {step({read(dy), read(b), write(d)}), step({read(d), write(dx)})};
  part.weight_gradient_steps = {step({read(a), read(d)})};
  part.backward = {part.input_gradient_steps[0], part.weight_gradient_steps[0], part.input_gradient_steps[1]};
  return part;
}

}  // namespace

TEST_CASE("a value lives from the first step that names it to the last") {
  const auto lives = models::lives(chain());
  const auto& forward = lives.of(PassKind::forward);
  CHECK(forward[0].born == Values{a});
  CHECK(forward[0].dies == Values{x});  // the input is not needed again
  CHECK(forward[1].born == Values{b});
  CHECK(forward[2].born == Values{y});  // which dies elsewhere
  CHECK(forward[2].dies.empty());
  const auto& input = lives.of(PassKind::input_gradient);
  CHECK(input[0].born == Values{d});
  CHECK(input[0].dies == Values{b, dy});
  CHECK(input[1].born == Values{dx});
  CHECK(lives.of(PassKind::weight_gradient)[0].dies == Values{a, d});
  // In one pass the weight gradient comes before the gradient that is handed on.
  const auto& backward = lives.of(PassKind::backward);
  CHECK(backward[1].dies == Values{a});
  CHECK(backward[2].dies == Values{d});
  CHECK(lives.activations == Bytes((1 << a) + (1 << b)));
  CHECK(lives.weight_hold == Bytes((1 << a) + (1 << d)));
  CHECK(lives.recomputed == Bytes());
  CHECK(lives.waits == std::vector<bool>{false, true, false, false, false, true, false});
}

TEST_CASE("recomputed values die and are born again") {
  auto part = chain();
  // The last product is not needed; both others are.
  const auto again = needed_again(part, part.forward);
  REQUIRE(again.size() == 2);
  repeat(part, again);
  REQUIRE(part.input_gradient_steps.size() == 4);
  CHECK(part.input_gradient_steps[0].repeats);
  CHECK(!part.input_gradient_steps[2].repeats);
  const auto lives = models::lives(part);
  CHECK(lives.of(PassKind::forward)[1].dies == Values{a});
  CHECK(lives.of(PassKind::forward)[2].dies == Values{b});
  CHECK(lives.of(PassKind::input_gradient)[0].dies == Values{x});  // the input waits for its second use
  CHECK(lives.of(PassKind::input_gradient)[0].born == Values{a});
  CHECK(lives.activations == Bytes(1 << x));
  CHECK(lives.recomputed == Bytes((1 << a) + (1 << b)));
  CHECK(lives.weight_hold == Bytes((1 << a) + (1 << d)));
  // A forward that is repeated to its end makes another output.
  auto whole = chain();
  repeat(whole, whole.forward);
  CHECK(whole.values.size() == count + 1);
  CHECK(models::lives(whole).of(PassKind::input_gradient)[2].born == Values{count});
}

TEST_CASE("a value that stays is kept though a repeated step makes it") {
  auto part = chain();
  part.values[b].stays = true;
  const auto again = needed_again(part, part.forward);
  CHECK(again.size() == 1);  // a, for the weight gradient
  repeat(part, again);
  CHECK(models::lives(part).activations == Bytes((1 << x) + (1 << b)));
}
