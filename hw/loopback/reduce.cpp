#include "loopback/reduce.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/bf16.hpp"
#include "base/error.hpp"

namespace rehearsal::loopback {
namespace {

using In = std::span<const std::byte>;
using Out = std::span<std::byte>;

// Elements summed at a time: few enough for the L1 cache, and each sum is complete before it is written, so that
// in-place operands are safe.
constexpr std::size_t kBlock = 2048;

void copy(In from, std::byte* to) {
  if (from.data() != to && !from.empty()) std::memmove(to, from.data(), from.size());
}

float to_float(float value) { return value; }
float to_float(std::uint16_t bits) { return from_bf16(bits); }
void store(float value, float& to) { to = value; }
void store(float value, std::uint16_t& to) { to = to_bf16(value); }

// Sums bytes [from, from + size) of all members as elements of type T; write(offset within the range, sum).
template <class T, class Write>
void sum(std::span<const In> in, std::size_t from, std::size_t size, Write write) {
  const std::size_t elements = size / sizeof(T);
  std::vector<float> total(std::min(elements, kBlock));
  std::vector<T> result(total.size());
  for (std::size_t done = 0; done < elements; done += kBlock) {
    const std::size_t n = std::min(kBlock, elements - done);
    for (std::size_t m = 0; m < in.size(); ++m) {
      const T* const values = reinterpret_cast<const T*>(in[m].data() + from) + done;
      if (m == 0)
        for (std::size_t i = 0; i < n; ++i) total[i] = to_float(values[i]);
      else
        for (std::size_t i = 0; i < n; ++i) total[i] += to_float(values[i]);
    }
    for (std::size_t i = 0; i < n; ++i) store(total[i], result[i]);
    write(done * sizeof(T), std::as_bytes(std::span(result).first(n)));
  }
}

template <class T>
void reduce(CollectiveKind kind, std::span<const In> in, std::span<const Out> out) {
  if (kind == CollectiveKind::all_reduce)
    return sum<T>(in, 0, in.front().size(), [&](std::size_t at, In total) {
      for (const Out to : out) copy(total, to.data() + at);
    });
  // In place, member m overwrites share m of its own input, which only sum m reads, before that write.
  const std::size_t part = out.front().size();
  for (std::size_t m = 0; m < in.size(); ++m)
    sum<T>(in, m * part, part, [&](std::size_t at, In total) { copy(total, out[m].data() + at); });
}

}  // namespace

void combine(CollectiveKind kind, Precision precision, std::span<const In> in, std::span<const Out> out) {
  const std::size_t members = in.size(), length = in.front().size();
  const auto width = static_cast<std::size_t>(bytes_per_element(precision));
  const std::size_t result = kind == CollectiveKind::all_gather       ? length * members
                             : kind == CollectiveKind::reduce_scatter ? length / members
                                                                      : length;
  for (std::size_t m = 0; m < members; ++m)
    INVARIANT(in[m].size() == length && out[m].size() == result, "the members of a collective agree on its size");
  INVARIANT(length % width == 0, "a collective is of whole elements");
  if (kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all)
    INVARIANT(length % (members * width) == 0, "every member gets the same share");
  if (kind == CollectiveKind::all_gather) {
    for (std::size_t to = 0; to < members; ++to)
      for (std::size_t m = 0; m < members; ++m) copy(in[m], out[to].data() + m * length);
    return;
  }
  if (kind == CollectiveKind::all_to_all) {
    const std::size_t block = length / members;
    for (std::size_t m = 0; m < members; ++m) {
      INVARIANT(length == 0 || in[m].data() != out[m].data(), "blocks go from one buffer into another");
      for (std::size_t to = 0; to < members; ++to) copy(in[m].subspan(to * block, block), out[to].data() + m * block);
    }
    return;
  }
  if (kind == CollectiveKind::shift) {  // from the last member on: in place, only the last input has to be kept
    const std::vector<std::byte> last(in.back().begin(), in.back().end());
    for (std::size_t m = members - 1; m > 0; --m) copy(in[m - 1], out[m].data());
    return copy(last, out.front().data());
  }
  switch (precision) {
    case Precision::fp32:
      return reduce<float>(kind, in, out);
    case Precision::bf16:
      return reduce<std::uint16_t>(kind, in, out);
    default:
      INVARIANT(false, "sums are of fp32 or of bf16");
  }
}

}  // namespace rehearsal::loopback
