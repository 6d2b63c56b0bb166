// The assignment problem: a one-to-one assignment with the largest total gain.
#pragma once
#include <cstdint>
#include <vector>

namespace rehearsal::balance {

// place[i] = the column of row i such that the columns are a permutation and the sum of gain[i * n + place[i]] is
// largest. Kuhn's Hungarian method with potentials, O(n^3). Among equal sums the result is fixed by the input.
std::vector<std::uint32_t> assign(const std::vector<std::int64_t>& gain, std::uint32_t n);

}  // namespace rehearsal::balance
