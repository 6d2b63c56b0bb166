#include "loopback/reduce.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace rehearsal::loopback {
namespace {

// Elements that are summed at a time: small enough for the first-level cache, and the sum is complete before anything
// is written, so that operands in place do no harm.
constexpr std::size_t kBlock = 2048;

// Sums the elements [from, from + size) of all members; write(offset within the range, sum).
template <class Write>
void sum(std::span<const std::span<const float>> in, std::size_t from, std::size_t size, Write write) {
  std::vector<float> total(std::min(size, kBlock));
  for (std::size_t done = 0; done < size; done += kBlock) {
    const std::size_t n = std::min(kBlock, size - done);
    std::copy_n(in[0].data() + from + done, n, total.data());
    for (std::size_t m = 1; m < in.size(); ++m) {
      const float* const values = in[m].data() + from + done;
      for (std::size_t i = 0; i < n; ++i) total[i] += values[i];
    }
    write(done, std::span<const float>(total.data(), n));
  }
}

void copy(std::span<const float> from, float* to) {
  if (from.data() != to && !from.empty()) std::memmove(to, from.data(), from.size_bytes());
}

}  // namespace

void combine(CollectiveKind kind, std::span<const std::span<const float>> in, std::span<const std::span<float>> out) {
  const std::size_t members = in.size(), length = in.front().size();
  const std::size_t result = kind == CollectiveKind::all_gather       ? length * members
                             : kind == CollectiveKind::reduce_scatter ? length / members
                                                                      : length;
  for (std::size_t m = 0; m < members; ++m)
    INVARIANT(in[m].size() == length && out[m].size() == result, "the members of a collective agree on its size");
  if (kind == CollectiveKind::reduce_scatter)
    INVARIANT(length % members == 0, "every member gets the same share of a reduction");
  switch (kind) {
    case CollectiveKind::all_reduce:
      return sum(in, 0, length, [&](std::size_t at, std::span<const float> total) {
        for (const std::span<float> to : out) copy(total, to.data() + at);
      });
    case CollectiveKind::reduce_scatter:
      // In place, member m writes over share m of its own input, which only sum m reads, and before.
      for (std::size_t m = 0; m < members; ++m)
        sum(in, m * result, result,
            [&](std::size_t at, std::span<const float> total) { copy(total, out[m].data() + at); });
      return;
    case CollectiveKind::all_gather:
      for (std::size_t to = 0; to < members; ++to)
        for (std::size_t m = 0; m < members; ++m) copy(in[m], out[to].data() + m * length);
      return;
  }
}

}  // namespace rehearsal::loopback
