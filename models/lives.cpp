#include "models/lives.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::models {
namespace {

using Set = std::vector<bool>;  // by value

bool is_value(const Operand& operand) { return operand.of == Operand::Of::value; }

void mark(Set& set, const std::vector<Step>& steps, bool written_only, bool repeated_only = false) {
  for (const auto& step : steps)
    for (const Operand& o : step.operands)
      if (is_value(o) && (o.written || !written_only) && (step.repeats || !repeated_only)) set[o.index] = true;
}

// First and last step of a sequence of passes that name a value.
struct Span {
  struct At {
    std::size_t pass = kPassKinds, step = 0;
    bool none() const { return pass == kPassKinds; }
  };
  At first, last;
};

class Analysis {
 public:
  explicit Analysis(const Part& part)
      : part_(part), twice_(part.values.size()), from_outside_(twice_), goes_on_(twice_) {
    for (const auto& v : {part.input, part.output_gradient, part.skip.taken, part.skip.given_gradient})
      if (v) from_outside_[*v] = true;
    for (const auto& v : {part.output, part.input_gradient, part.skip.given, part.skip.taken_gradient})
      if (v) goes_on_[*v] = true;
    for (const auto& shared : part.carried) from_outside_[shared.value] = !shared.begins;
    for (const auto& shared : part.carried) goes_on_[shared.value] = !shared.ends;
    for (std::size_t p = 0; p < kPassKinds; ++p) find_named(p);
    lives_.kept.resize(part.values.size()), lives_.waits.resize(part.values.size());
    for (const auto pass : {PassKind::input_gradient, PassKind::backward}) mark(twice_, steps(part, pass), true, true);
    for (std::size_t v = 0; v < twice_.size(); ++v)
      if (part.values[v].stays || v == part.output) twice_[v] = false;
  }

  Lives run() && {
    using enum PassKind;
    for (std::uint16_t v = 0; v < part_.values.size(); ++v) {
      if (twice_[v]) {
        live(v, {forward});
        const auto again = live(v, {input_gradient, weight_gradient});
        if (!again.first.none() && again.last.pass == index(weight_gradient)) lives_.waits[v] = true;
        live(v, {backward});
        continue;
      }
      const auto split = span(v, {forward, input_gradient, weight_gradient});
      if (split.first.none()) continue;
      place(v, split);
      place_end(v, span(v, {forward, backward}));
      lives_.kept[v] = split.first.pass != split.last.pass;
      lives_.waits[v] = lives_.kept[v] && split.last.pass == index(weight_gradient);
      // A one-pass backward makes what the two passes hand on, and may make more.
      if (const auto whole = span(v, {backward}); split.first.pass != index(forward) && !whole.first.none())
        begin(v, whole.first);
    }
    whole_backward_only();
    only_norms();
    levels();
    return std::move(lives_);
  }

 private:
  static std::size_t index(PassKind pass) { return static_cast<std::size_t>(pass); }

  void find_named(std::size_t pass) {
    const auto& list = steps(part_, static_cast<PassKind>(pass));
    lives_.passes[pass].resize(list.size());
    named_[pass].resize(part_.values.size());
    for (std::size_t i = 0; i < list.size(); ++i)
      for (const Operand& o : list[i].operands) {
        if (!is_value(o)) continue;
        auto& of_value = named_[pass][o.index];
        of_value.last = {pass, i};
        if (of_value.first.none()) of_value.first = of_value.last;
      }
  }
  Span span(std::uint16_t v, std::initializer_list<PassKind> passes) const {
    Span all;
    for (const auto pass : passes) {
      const auto& in_pass = named_[index(pass)][v];
      if (in_pass.first.none()) continue;
      all.last = in_pass.last;
      if (all.first.none()) all.first = in_pass.first;
    }
    return all;
  }
  Span live(std::uint16_t v, std::initializer_list<PassKind> passes) {
    const auto found = span(v, passes);
    if (!found.first.none()) place(v, found);
    return found;
  }
  void place(std::uint16_t v, const Span& span) {
    begin(v, span.first);
    end(v, span.last);
  }
  void begin(std::uint16_t v, const Span::At& at) {
    if (!from_outside_[v]) lives_.passes[at.pass][at.step].born.push_back(v);
  }
  void end(std::uint16_t v, const Span::At& at) {
    if (!goes_on_[v]) lives_.passes[at.pass][at.step].dies.push_back(v);
  }
  // The end of a value in the one-pass backward, if it ends in one of the two passes in sequence.
  void place_end(std::uint16_t v, const Span& whole) {
    if (!whole.first.none() && whole.last.pass == index(PassKind::backward)) end(v, whole.last);
  }
  // Values that only the one-pass backward makes.
  void whole_backward_only() {
    for (std::uint16_t v = 0; v < part_.values.size(); ++v)
      if (!twice_[v] && span(v, {PassKind::forward, PassKind::input_gradient, PassKind::weight_gradient}).first.none())
        live(v, {PassKind::backward});
  }

  // It leaves what the forward has kept; it makes and drops everything else.
  void only_norms() {
    for (std::uint16_t v = 0; v < part_.values.size(); ++v)
      if (twice_[v] || span(v, {PassKind::forward}).first.none()) live(v, {PassKind::norm_backward});
  }

  // Values that are born (or came in) and have not died.
  void levels() {
    Set alive(part_.values.size());
    const auto run = [&](PassKind pass) {
      for (const auto& step : lives_.of(pass)) {
        for (const auto v : step.born) alive[v] = true;
        for (const auto v : step.dies) alive[v] = false;
      }
      Bytes level;
      for (std::size_t v = 0; v < alive.size(); ++v)
        if (alive[v] && !goes_on_[v]) level += part_.values[v].size;
      return level;
    };
    const auto enter = [&](std::initializer_list<std::optional<std::uint16_t>> values) {
      for (const auto& v : values)
        if (v) alive[*v] = true;
    };
    enter({part_.input, part_.skip.taken});
    lives_.activations = run(PassKind::forward);
    const auto kept = alive;
    for (std::size_t v = 0; v < alive.size(); ++v)
      if (twice_[v]) {
        const auto again = span(static_cast<std::uint16_t>(v), {PassKind::input_gradient, PassKind::weight_gradient});
        if (!again.first.none()) lives_.recomputed += part_.values[v].size;
      }
    enter({part_.output_gradient, part_.skip.given_gradient});
    lives_.weight_hold = run(PassKind::input_gradient);
    run(PassKind::weight_gradient);
    const auto all_dead = [&] {
      for (std::size_t v = 0; v < alive.size(); ++v)
        if (alive[v] && !goes_on_[v]) return false;
      return true;
    };
    INVARIANT(all_dead(), "a value outlives its backward");
    if (!part_.norm_backward.empty()) {
      alive = kept;
      enter({part_.output_gradient, part_.skip.given_gradient});
      run(PassKind::norm_backward);
      for (const auto& v : {part_.input_gradient, part_.skip.taken_gradient})
        if (v) alive[*v] = false;
      INVARIANT(alive == kept, "what the norms need is dropped with them, and nothing else");
    }
    alive = kept;
    enter({part_.output_gradient, part_.skip.given_gradient});
    run(PassKind::backward);
    INVARIANT(all_dead(), "a value outlives its backward");
  }

  const Part& part_;
  Set twice_;
  Set from_outside_, goes_on_;                       // born outside; dead in other parts or in other passes of this one
  std::array<std::vector<Span>, kPassKinds> named_;  // by value
  Lives lives_;
};

}  // namespace

const std::vector<Step>& steps(const Part& part, PassKind pass) {
  switch (pass) {
    case PassKind::forward:
      return part.forward;
    case PassKind::input_gradient:
      return part.input_gradient_steps;
    case PassKind::weight_gradient:
      return part.weight_gradient_steps;
    case PassKind::backward:
      return part.backward;
    case PassKind::norm_backward:
      return part.norm_backward;
  }
  return part.forward;
}

Lives lives(const Part& part) { return Analysis(part).run(); }

std::vector<Step> needed_again(const Part& part, const std::vector<Step>& candidates) {
  Set needed(part.values.size());
  mark(needed, part.input_gradient_steps, false);
  mark(needed, part.weight_gradient_steps, false);
  mark(needed, part.backward, false);
  std::vector<Step> result;
  for (auto step = candidates.rbegin(); step != candidates.rend(); ++step) {
    const bool wanted = std::any_of(step->operands.begin(), step->operands.end(), [&](const Operand& o) {
      return is_value(o) && o.written && needed[o.index] && !part.values[o.index].stays;
    });
    if (!wanted) continue;
    for (const Operand& o : step->operands)
      if (is_value(o) && !o.written && o.index != part.input) needed[o.index] = true;
    result.push_back(*step);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

// The first output of the part is in use elsewhere; recomputation makes a second one.
void repeat(Part& part, std::vector<Step> again) {
  std::optional<std::uint16_t> second;
  for (auto& step : again) {
    step.repeats = true;
    for (Operand& o : step.operands) {
      if (!is_value(o) || !part.output || o.index != *part.output) continue;
      if (!second) {
        second = static_cast<std::uint16_t>(part.values.size());
        part.values.push_back(part.values[*part.output]);
      }
      o.index = *second;
    }
  }
  std::vector<std::vector<Step>*> lists{&part.input_gradient_steps, &part.backward};
  if (!part.norm_backward.empty()) lists.push_back(&part.norm_backward);
  for (auto* list : lists) list->insert(list->begin(), again.begin(), again.end());
}

}  // namespace rehearsal::models
