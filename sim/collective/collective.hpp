// Collective algorithms: what they move and how long they take alone (alpha-beta), independent of any machine.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/kernels.hpp"
#include "base/units.hpp"

namespace rehearsal::collective {

// One transfer of one step: `from` sends chunk `chunk` (of `chunks` equal parts of the array) to `to`, which adds it to
// its own copy (reduce) or overwrites it.
struct Transfer {
  std::uint32_t from, to, chunk;
  bool reduce;
};

// One algorithm = one plug-in = one file in all/.
struct Algorithm {
  std::string name;     // "ring-all-reduce"
  std::string summary;  // one honest sentence, with the source
  bool point_to_point = false;
  CollectiveKind kind = CollectiveKind::all_reduce;
  // n ranks; size in the sense of nccl-tests (whole array).
  std::function<std::uint32_t(std::uint32_t n)> steps;
  std::function<Bytes(std::uint32_t n, Bytes size)> bytes_sent_per_rank;
  // Closed form in seconds: `fixed` once, `latency` per step, `rate` of one rank's link.
  std::function<double(std::uint32_t n, Bytes size, double fixed, double latency, Bandwidth rate)> time;
  // The transfers of every step, for the symbolic check of ownership and for unrolled runs.
  std::function<std::vector<std::vector<Transfer>>(std::uint32_t n)> schedule;
};

}  // namespace rehearsal::collective
