// A plan as what it comes to on the wires: messages from device to device.
//
// send-recv          one message
// broadcast          a chain over the receiving devices, host after host, in chunks: a device hands on what it has
//                    while the rest is on its way to it
// all-gathers        a part to each device, then around a ring of those that gather
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "reshard/answer.hpp"

namespace rehearsal::reshard {

// One message. Those of a plan stand in an order in which each device can post its own one after the other, without
// ever waiting for one that comes later.
struct Carry {
  std::uint32_t from = 0, to = 0;  // `from`: a device of the source, or, relayed, of the destination
  bool relayed = false;
  Box box;                             // elements [first, first + count) of it, row-major
  std::int64_t first = 0, count = 0;   // elements
  std::int64_t chunks = 1;             // of equal size that it stands for, one after the other
  std::optional<std::uint32_t> after;  // of a relayed one: the number of the message that has brought it...
  bool cut_through = false;            // ... or the first chunk of it: what arrives is handed on at once
};

// Chunks::each: every chunk of a chain is a message, and none is sent before it is there. Chunks::three: the first one,
// all between and the last one; what is between flows through, which takes as long: sum of the hops + (K - 1) x the
// slowest (strategy.hpp), whichever hop that is.
enum class Chunks : std::uint8_t { each, three };
std::vector<Carry> carries(const Answer& answer, Chunks chunks);

}  // namespace rehearsal::reshard
