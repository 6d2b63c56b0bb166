// Turns unit tasks into transfers for the planner: a strategy makes one or more transfers of every unit task.
//
// broadcast          one transfer per unit task to all of its receivers
// send-recv          one per unit task and receiving device, device by device
// local-allgather    a box in B parts for the B devices of each receiving host, which gather them by NVLink: every
//                    element is sent to every host once (Zhuang et al., section 3, figure 3b)
// alpa-allgather     the original's version: its rewriting of the destination (below), then send-recv
// global-allgather   one per unit task; its NICs are busy for (2A - 1)/A of the box, A = receiving hosts
// striped            with a NIC per GPU: a box in B parts for the B devices of each host, every part in a chain over
//                    the hosts along one rail, then an NVLink all-gather
// auto               for every unit task the strategy that is fastest on its own; with a NIC per GPU including striped
//                    (answer.hpp compares it with using one strategy for all)
//
// The original's rule (alpa, commit b8078a9): the destination is rewritten only if it is already split over
// its hosts, so that the copies of a tile share a host. Then, dimension by dimension, the tile is cut into
// gcd(copies left, local length) parts. Copies left over at the end are sent in full. Two limitations follow, and are
// reproduced: a tile on several hosts gets no all-gather at all, nor do lengths that the number of copies does not
// divide (2^28 elements for 3 GPUs).
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "reshard/problem.hpp"
#include "reshard/strategy.hpp"
#include "reshard/unit_tasks.hpp"

namespace rehearsal::reshard {

enum class NicSharing : std::uint8_t { host, gpu };  // one NIC per host, or one per GPU

// NIC ids are global: with one NIC per host, source hosts from 0 and then destination hosts; with one per GPU, source
// devices from 0 and then destination devices.
struct Transfer {
  std::uint32_t unit = 0;  // the unit task it serves
  Strategy strategy = Strategy::broadcast;
  Box box;                // empty for tasks given without a tensor
  std::int64_t size = 0;  // elements of the box
  std::int64_t work = 0;  // elements for which its NICs are busy; differs from size only for global-allgather
  std::vector<std::uint32_t> sender_devices, receiver_devices;  // ids within their mesh
  std::vector<std::uint32_t> senders, receivers;                // NIC ids
  std::optional<std::uint32_t> same_rail;                       // the sender on the first receiver's rail
  std::uint32_t receiving_hosts = 1;
  std::int64_t gathered =
      0;  // elements to be all-gathered by NVLink after this transfer and its siblings have arrived; 0 = none
  std::uint32_t gatherers = 1;
  std::vector<std::uint32_t> gather_with;  // the gathering devices, `gatherers` for each receiving one
};

struct Method {
  Strategy strategy = Strategy::broadcast;
  NicSharing nic = NicSharing::host;
  Link link;
  std::int64_t element_bytes = 4;
  std::int64_t chunks = 100;  // of a broadcast; 0 = the number that minimises its time
};

// Throws UserError if there are more than kMostTransfers.
inline constexpr std::size_t kMostTransfers = 200'000;
std::vector<Transfer> transfers(const Side& source, const Side& destination, const Method& method);
std::vector<Transfer> transfers(const Resharding& resharding, const Method& method);

// The planner's problem, and the NICs behind its numbers.
struct Numbered {
  Problem problem;
  std::vector<std::uint32_t> sender_nics, receiver_nics;  // ascending
};
Numbered number(const std::vector<Transfer>& transfers);

// Whether the original's rule would rewrite the destination for an all-gather.
bool alpa_allgather_applies(const Side& destination);

}  // namespace rehearsal::reshard
