// A plan as messages between devices.
//
// send-recv          one message
// broadcast          a chain over the receiving devices, host by host, in chunks: a device forwards what has arrived
//                    while it is still receiving the rest
// all-gathers        a part to each device, then around a ring of the gathering devices
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "reshard/answer.hpp"

namespace rehearsal::reshard {

// One message. The messages of a plan are ordered so that each device can post its own in sequence without waiting for
// a later one.
struct Carry {
  std::uint32_t from = 0, to = 0;  // `from`: a device of the source or, if relayed, of the destination
  bool relayed = false;
  Box box;                             // elements [first, first + count) of it, row-major
  std::int64_t first = 0, count = 0;   // elements
  std::int64_t chunks = 1;             // equal chunks, sent one after another, that it represents
  std::optional<std::uint32_t> after;  // if relayed: the number of the message that delivered the data...
  bool cut_through = false;            // ... or its first chunk: data is forwarded as it arrives
  std::uint32_t sending = 0;           // the entry of the plan's schedule that it belongs to
};

// Chunks::each: every chunk of a chain is a message, forwarded only after it has arrived. Chunks::three: the first
// chunk, all between, and the last; the middle flows through, which takes the same time: sum of the hops + (K - 1) x
// the slowest (strategy.hpp), whichever hop that is.
enum class Chunks : std::uint8_t { each, three };
std::vector<Carry> carries(const Answer& answer, Chunks chunks);

}  // namespace rehearsal::reshard
