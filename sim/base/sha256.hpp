// SHA-256 (FIPS 180-4) of a stream of text, for digests of orders, graphs and scenarios. No package: the core is built
// where there is none. Processors that have instructions for it (x86) use them: four times as fast.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rehearsal {

class Sha256 {
 public:
  Sha256();
  // Without the processor's own instructions: to test one against the other.
  static Sha256 portable();
  void update(std::string_view text);
  std::string hex();  // ends the stream; 64 lower-case digits

 private:
  // Takes `count` blocks of 64 bytes into the state.
  using Blocks = void (*)(std::uint32_t* state, const unsigned char* bytes, std::size_t count);
  explicit Sha256(Blocks blocks) : blocks_(blocks) {}

  Blocks blocks_;
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> rest_{};  // of the text, not a whole block yet
  std::uint64_t size_ = 0;                // bytes so far
};

std::string sha256(std::string_view text);

}  // namespace rehearsal
