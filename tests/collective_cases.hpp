// Collectives with operands that can be checked: what every member puts in, and what each of them must get out, summed
// up one after the other in double precision.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/bf16.hpp"
#include "collective/registry.hpp"
#include "collective/routine.hpp"
#include "dispatch/operands.hpp"

namespace rehearsal::cases {

// Where the result goes, and of an all-to-all whether its blocks differ: member m gets m blocks from each, or gives
// them.
enum class Form : std::uint8_t { apart, in_place, uneven, back };
inline std::vector<Form> forms(CollectiveKind kind) {
  if (kind == CollectiveKind::all_to_all) return {Form::apart, Form::uneven, Form::back};
  return {Form::apart, Form::in_place};
}

struct Case {
  CollectiveKind kind;
  Precision precision;
  std::uint32_t members;
  std::size_t length;  // elements: of the array, or of a member's block of it
  Form form = Form::apart;

  bool in_place() const { return form == Form::in_place; }
  bool uneven() const { return form == Form::uneven || form == Form::back; }
  // Elements from one member to another.
  std::size_t block(std::size_t from, std::size_t to) const {
    return form == Form::uneven ? length * to : form == Form::back ? length * from : length;
  }
  // Where, in what `from` sends, the block of `to` begins.
  std::size_t start(std::size_t from, std::size_t to) const {
    std::size_t all = 0;
    for (std::size_t m = 0; m < to; ++m) all += block(from, m);
    return all;
  }
  dispatch::Blocks blocks(std::size_t me) const {
    dispatch::Blocks all;
    for (std::size_t m = 0; uneven() && m < members; ++m)
      all.to.push_back(block(me, m) * width()), all.from.push_back(block(m, me) * width());
    return all;
  }
  bool has_blocks() const {
    using enum CollectiveKind;
    return kind == reduce_scatter || kind == all_gather || kind == all_to_all;
  }
  bool adds() const { return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter; }
  std::size_t width() const { return precision == Precision::fp32 ? 4 : 2; }
  std::size_t whole() const { return has_blocks() ? length * members : length; }
  std::string text() const {
    return fmt::format("{} of {} x {} {}{}", name(kind), members, length,
                       precision == Precision::fp32 ? "fp32" : "bf16",
                       std::array{"", " in place", ", uneven", ", uneven, back"}[std::size_t(form)]);
  }
};

// Between -1 and 1, with all bits of its precision in use: sums of such numbers depend on their order.
inline float value(const Case& c, std::size_t member, std::size_t element) {
  std::uint64_t bits = (member + 1) * 0x9e3779b97f4a7c15 ^ (element + 1) * 0xbf58476d1ce4e5b9;
  bits ^= bits >> 29, bits *= 0x94d049bb133111eb, bits ^= bits >> 32;
  const float x = float(std::int32_t(bits & 0xffffff) - 0x800000) / 0x800000;
  return c.precision == Precision::fp32 ? x : from_bf16(to_bf16(x));
}

// The operands of one member. In place as NCCL allows it: the own block within the whole array, or one array.
class Operands {
 public:
  Operands(const Case& c, std::size_t me)
      : case_(c),
        me_(me),
        blocks_(c.blocks(me)),
        first_((c.uneven() ? c.start(me, c.members) : c.whole()) * c.width()),
        second_(first_.size()) {
    std::fill(first_.begin(), first_.end(), std::byte{0x7b}),
        std::fill(second_.begin(), second_.end(), std::byte{0x7b});
    if (c.uneven()) second_.resize(blocks_.received());
    const std::size_t block = c.length * c.width();
    const bool gathers = c.kind == CollectiveKind::all_gather;
    const std::size_t start = gathers ? me * c.length : 0;
    in_ = gathers ? std::span(first_).subspan(me * block, block) : std::span(first_);
    for (std::size_t e = 0; e < in_.size() / c.width(); ++e) put(in_, e, value(c, me, start + e));
    out_ = c.in_place() ? std::span(first_) : std::span(second_);
    if (c.kind == CollectiveKind::reduce_scatter) out_ = out_.subspan(c.in_place() ? me * block : 0, block);
  }
  std::span<const std::byte> in() const { return in_; }
  std::span<std::byte> out() { return out_; }
  dispatch::Operands all() { return {in_, out_, case_.uneven() ? &blocks_ : nullptr}; }

  // What is wrong with the result; empty if nothing.
  std::string wrong() const {
    const auto& c = case_;
    const std::size_t elements = out_.size() / c.width();
    for (std::size_t e = 0; e < elements; ++e) {
      double expected = 0, size = 0;
      std::size_t from = 0, at = e;
      switch (c.kind) {
        case CollectiveKind::all_reduce:
        case CollectiveKind::reduce_scatter:
          if (c.kind == CollectiveKind::reduce_scatter) at += me_ * c.length;
          for (std::size_t m = 0; m < c.members; ++m) expected += value(c, m, at), size += std::abs(value(c, m, at));
          break;
        case CollectiveKind::all_gather:
          expected = value(c, e / c.length, e);
          break;
        case CollectiveKind::all_to_all:
          for (at = e; at >= c.block(from, me_); ++from) at -= c.block(from, me_);
          expected = value(c, from, c.start(from, me_) + at);
          break;
        case CollectiveKind::shift:
          expected = value(c, (me_ + c.members - 1) % c.members, e);
          break;
        case CollectiveKind::broadcast:
          expected = value(c, 0, e);
          break;
      }
      const double found = get(out_, e),
                   allowed = size * c.members * (c.precision == Precision::fp32 ? 0x1p-24 : 0x1p-8);
      if (!(std::abs(found - expected) <= allowed))
        return fmt::format("{}: element {} of member {} is {} instead of {}", c.text(), e, me_, found, expected);
    }
    return {};
  }
  std::vector<std::byte> bits() const { return {out_.begin(), out_.end()}; }

 private:
  void put(std::span<std::byte> to, std::size_t e, float x) const {
    const std::uint16_t narrow = to_bf16(x);
    std::memcpy(to.data() + e * case_.width(), case_.width() == 4 ? static_cast<const void*>(&x) : &narrow,
                case_.width());
  }
  float get(std::span<const std::byte> from, std::size_t e) const {
    float x = 0;
    std::uint16_t narrow = 0;
    std::memcpy(case_.width() == 4 ? static_cast<void*>(&x) : &narrow, from.data() + e * case_.width(), case_.width());
    return case_.width() == 4 ? x : from_bf16(narrow);
  }

  Case case_;
  std::size_t me_;
  dispatch::Blocks blocks_;
  std::vector<std::byte> first_, second_;
  std::span<std::byte> in_, out_;
};

// Every registered algorithm among `members`, in nodes of every size that it knows of; whole and in pieces.
inline std::vector<collective::Execution> executions(std::uint32_t members,
                                                     const collective::Registry& shelf = collective::registry()) {
  std::vector<collective::Execution> all;
  for (const auto& [name, algorithm] : shelf) {
    if (algorithm.point_to_point) continue;
    for (std::uint32_t per_node = 1; per_node <= members; ++per_node) {
      if (algorithm.across_nodes ? members % per_node != 0 : per_node != members) continue;
      for (const std::uint32_t pieces : {1U, 3U}) all.push_back({&algorithm, {members, per_node}, pieces});
    }
  }
  return all;
}

}  // namespace rehearsal::cases
