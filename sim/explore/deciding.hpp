// Which number, if it was measured, would tell which of two predictions is the better one. Errors of numbers that both
// have move both, and their order by the difference alone.
#pragma once
#include <string>
#include <vector>

#include "explore/sensitivity.hpp"

namespace rehearsal::explore {

struct Contender {
  Asked asked;
  std::string machine;  // numbers of `cluster` are one number where both have the same; so are those of one `framework`
  Width width;
};

struct Deciding {
  std::string key, value, help;
  enum class Of : std::uint8_t { both, first, second } of = Of::both;
  double width = 0;
  bool assumed = false;  // else fitted to training runs
  double moves = 0;      // at most, of second / first, towards 1 and beyond: a relative change
  bool decides = false;  // the second may be the better one
};
// Those that bring the second nearer to the first or before it, most first. `behind`: by how much the second is worse,
// relative.
std::vector<Deciding> deciding(const Contender& first, const Contender& second, double behind, unsigned jobs);

}  // namespace rehearsal::explore
