// Grid-wide sums in two passes: each block writes its part to Call::scratch, then one block adds the parts. In double
// and in an order that depends only on the number of elements, so replicas agree on any GPU.
#pragma once
#include <bit>
#include <cstdint>

#include "kernels/call.hpp"
#include "kernels/team.hpp"

namespace rehearsal::kernels {

// Body: double of(i), the summand of element i, and its number of elements.
template <class Body>
struct GridSum {
  static constexpr int kThreads = 256;
  using Shared = Nothing;
  Body body;
  double* scratch;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, double> part(team);
    team.own([&](int thread) {
      double sum = 0;
      body.each(team.block() * kThreads + thread, team.blocks() * kThreads, [&](double x) { sum += x; });
      part(thread) = sum;
    });
    const double sum = team.sum(part);
    team.own([&](int thread) {
      if (thread == 0) scratch[team.block()] = sum;
    });
  }
};

// Adds to a double stored in a buffer of floats, whose address may be an odd multiple of 4.
REHEARSAL_DEVICE void add_to(void* number, double more) {
  auto* words = static_cast<std::uint32_t*>(number);
  const double sum = std::bit_cast<double>(std::uint64_t(words[1]) << 32 | words[0]) + more;
  const auto bits = std::bit_cast<std::uint64_t>(sum);
  words[0] = std::uint32_t(bits), words[1] = std::uint32_t(bits >> 32);
}

// *total += sum of the parts / divisor. One block.
struct AddParts {
  static constexpr int kThreads = 256;
  using Shared = Nothing;
  const double* scratch;
  std::int64_t parts;
  double divisor;
  void* total;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, double> part(team);
    team.own([&](int thread) {
      double sum = 0;
      for (std::int64_t i = thread; i < parts; i += kThreads) sum += scratch[i];
      part(thread) = sum;
    });
    const double sum = team.sum(part);
    team.own([&](int thread) {
      if (thread == 0) add_to(total, sum / divisor);
    });
  }
};

}  // namespace rehearsal::kernels
