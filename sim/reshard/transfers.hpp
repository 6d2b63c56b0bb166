// From unit tasks to what is planned: a strategy turns every unit task into one or more transfers.
//
// broadcast          one transfer per unit task to all of its receivers
// send-recv          one per unit task and receiving device, device after device
// local-allgather    a box in B parts for the B devices of each receiving host, which gather them by NVLink: every host
// is
//                    sent every element once (Zhuang et al., section 3, figure 3b)
// alpa-allgather     what the original makes of that: its rewriting of the destination (below), then send-recv
// global-allgather   one per unit task; its NICs are held for (2A - 1)/A of the box, A = receiving hosts
// striped            with a NIC for every GPU: a box in B parts for the B devices of each host, every part a chain over
//                    the hosts along one rail, then an all-gather by NVLink
// auto               for every unit task what takes it least time alone; with a NIC for every GPU also striped
// (answer.hpp
//                    weighs it against the same strategy for all)
//
// The original's rule (alpa, commit b8078a9): no rewriting unless the destination is split over
// its hosts already, so that the copies of a tile share a host. Then, dimension by dimension, the tile is cut into
// gcd(copies left, local length) parts. Copies left over at the end are sent in full. Two blind spots follow, and are
// kept: a tile on several hosts gets no all-gather at all, and lengths that the number of copies does not divide (2^28
// elements for 3 GPUs) none either.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "reshard/problem.hpp"
#include "reshard/strategy.hpp"
#include "reshard/unit_tasks.hpp"

namespace rehearsal::reshard {

enum class NicSharing : std::uint8_t { host, gpu };  // one NIC per host, or one per GPU

// NIC ids are global: with one per host, source hosts 0.. and then destination hosts; with one per GPU, source devices
// 0.. and then destination devices.
struct Transfer {
  std::uint32_t unit = 0;  // the unit task it serves
  Strategy strategy = Strategy::broadcast;
  Box box;                // empty where tasks were given without a tensor
  std::int64_t size = 0;  // elements of the box
  std::int64_t work = 0;  // elements for which its NICs are held; differs from size for global-allgather only
  std::vector<std::uint32_t> sender_devices, receiver_devices;  // ids of their own mesh
  std::vector<std::uint32_t> senders, receivers;                // NIC ids
  std::optional<std::uint32_t> same_rail;                       // the sender on the rail of the first receiver
  std::uint32_t receiving_hosts = 1;
  std::int64_t gathered =
      0;  // elements of what is all-gathered by NVLink once this and its like have arrived; 0 = none
  std::uint32_t gatherers = 1;
  std::vector<std::uint32_t> gather_with;  // the devices that do so, `gatherers` for each receiving one
};

struct Method {
  Strategy strategy = Strategy::broadcast;
  NicSharing nic = NicSharing::host;
  Link link;
  std::int64_t element_bytes = 4;
  std::int64_t chunks = 100;  // of a broadcast; 0 = as many as make it shortest
};

// Throws UserError when there are more than kMostTransfers.
inline constexpr std::size_t kMostTransfers = 200'000;
std::vector<Transfer> transfers(const Side& source, const Side& destination, const Method& method);
std::vector<Transfer> transfers(const Resharding& resharding, const Method& method);

// What planners see of them, and which NICs their numbers stand for.
struct Numbered {
  Problem problem;
  std::vector<std::uint32_t> sender_nics, receiver_nics;  // ascending
};
Numbered number(const std::vector<Transfer>& transfers);

// Whether the original would rewrite the destination for an all-gather.
bool alpa_allgather_applies(const Side& destination);

}  // namespace rehearsal::reshard
