// A name for a sequence of numbers: 128 bits, so that two sequences practically never collide (probability below 1e-27
// for a hundred thousand of them).
#pragma once
#include <cstddef>
#include <cstdint>

namespace rehearsal {

struct Fingerprint {
  std::uint64_t high = 0x9e3779b97f4a7c15, low = 0xd1b54a32d192ed03;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;

  void add(std::uint64_t value) {
    high = mix(high ^ value);
    low = mix(low + value * 0xff51afd7ed558ccd);
  }
  // Of a set: its members come in any order.
  void add_member(const Fingerprint& member) { high += member.high, low += member.low; }
  static std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  struct Hash {
    std::size_t operator()(const Fingerprint& f) const { return f.high ^ f.low; }
  };
};

}  // namespace rehearsal
