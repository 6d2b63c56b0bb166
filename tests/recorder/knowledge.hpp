// Vector clocks: how much of each stream's work is known to have ended, by stream.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rehearsal::test {

using Knowledge = std::vector<std::uint64_t>;
void merge(Knowledge& into, const Knowledge& more);
// All of `of` is part of `known`.
bool covers(const Knowledge& known, const Knowledge& of);

}  // namespace rehearsal::test
