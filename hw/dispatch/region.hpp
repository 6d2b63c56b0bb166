// Copies a part of a buffer to the bytes of a message, and back (graph::Region).
#pragma once
#include <cstddef>
#include <span>

#include "graph/work.hpp"

namespace rehearsal::dispatch {

void gather(const graph::Region& region, std::span<const std::byte> buffer, std::span<std::byte> message);
void scatter(const graph::Region& region, std::span<const std::byte> message, std::span<std::byte> buffer);

}  // namespace rehearsal::dispatch
