#include "launch/secret.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>

#include "base/error.hpp"
#include "base/sha256.hpp"

namespace rehearsal::launch {
namespace {

constexpr std::size_t kBlock = 64, kNonce = 16;  // bytes; kBlock: the block of SHA-256

unsigned digit(char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); }

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  return bytes;
}

}  // namespace

std::string proof(std::string_view secret, std::string_view text) {
  std::string key = secret.size() > kBlock ? bytes_of(sha256(secret)) : std::string(secret);
  key.resize(kBlock, '\0');
  const auto keyed = [&key](char pad, std::string_view rest) {
    std::string all;
    for (const char c : key) all.push_back(static_cast<char>(c ^ pad));
    return sha256(all.append(rest));
  };
  return keyed(0x5c, bytes_of(keyed(0x36, text)));
}

bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char different = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    different =
        static_cast<unsigned char>(different | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  return different == 0;
}

std::string nonce() {
  std::array<unsigned char, kNonce> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw MachineError("the kernel has no random numbers to tell ranks from strangers");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace rehearsal::launch
