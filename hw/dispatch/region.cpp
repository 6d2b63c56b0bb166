#include "dispatch/region.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::dispatch {
namespace {

// Consecutive stretches of the region within the message: copy(offset in buffer, offset in message, bytes).
template <class Copy>
void for_each_stretch(const graph::Region& region, std::size_t buffer, std::size_t message, const Copy& copy) {
  INVARIANT(static_cast<std::int64_t>(message) == region.size, "a message is as long as its region");
  INVARIANT(region.first + region.size <= region.run * region.count[0] * region.count[1], "a part of what there is");
  for (std::int64_t done = 0; done < region.size;) {
    const std::int64_t at = region.first + done, row = at / region.run, within = at % region.run;
    const std::int64_t bytes = std::min(region.run - within, region.size - done);
    const std::int64_t from =
        region.offset + row / region.count[1] * region.stride[0] + row % region.count[1] * region.stride[1] + within;
    INVARIANT(from >= 0 && from + bytes <= static_cast<std::int64_t>(buffer), "a region lies within its buffer");
    copy(static_cast<std::size_t>(from), static_cast<std::size_t>(done), static_cast<std::size_t>(bytes));
    done += bytes;
  }
}

}  // namespace

void gather(const graph::Region& region, std::span<const std::byte> buffer, std::span<std::byte> message) {
  for_each_stretch(region, buffer.size(), message.size(), [&](std::size_t from, std::size_t to, std::size_t bytes) {
    std::copy_n(buffer.begin() + std::ptrdiff_t(from), bytes, message.begin() + std::ptrdiff_t(to));
  });
}

void scatter(const graph::Region& region, std::span<const std::byte> message, std::span<std::byte> buffer) {
  for_each_stretch(region, buffer.size(), message.size(), [&](std::size_t to, std::size_t from, std::size_t bytes) {
    std::copy_n(message.begin() + std::ptrdiff_t(from), bytes, buffer.begin() + std::ptrdiff_t(to));
  });
}

}  // namespace rehearsal::dispatch
