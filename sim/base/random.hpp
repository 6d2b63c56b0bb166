// Random numbers that are the same on every machine: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#pragma once
#include <cstdint>

namespace rehearsal {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Below n > 0. The excess of small remainders is n / 2^64.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  // The same from the upper 32 bits, without a division.
  std::uint32_t below32(std::uint32_t n) { return static_cast<std::uint32_t>((next() >> 32) * n >> 32); }
  double fraction() { return double(next() >> 11) * 0x1p-53; }  // [0, 1)

 private:
  std::uint64_t state_;
};

}  // namespace rehearsal
