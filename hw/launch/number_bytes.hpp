// Whole numbers as bytes, most significant first: the same on every machine.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace rehearsal::launch {

inline void append_number(std::string& to, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) to.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

// The caller must have checked that the bytes are there.
inline std::uint64_t read_number(std::string_view from, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(from[at + i]);
  return value;
}

}  // namespace rehearsal::launch
