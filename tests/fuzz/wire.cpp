// Any input to a connection of the store gives messages and then a reason for its end: no crash, no message above the
// limit, and no client counts as a rank without knowing the secret.
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "launch/wire.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rehearsal::launch;
  constexpr std::size_t kLimit = 4 << 10;
  if (size > 64 << 10) return 0;  // more than a socket takes at once
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
  boost::asio::io_context io{1};
  {
    const auto wire = std::make_shared<Wire>(tcp::socket(io, tcp::v4(), ends[0]));
    int ended = 0;
    wire->start(
        [](const Message& m) {
          if (m.kind > kLastKind || m.key.size() + m.value.size() > kLimit) std::abort();
          if (greeting_of(m.value, "a secret", {"nonce", m.key, m.request})) std::abort();
        },
        [&ended](const std::string& why) {
          if (why.empty()) std::abort();
          ++ended;
        });
    if (size > 0 && ::write(ends[1], data, size) != static_cast<ssize_t>(size)) std::abort();
    ::close(ends[1]);
    io.run();
    if (ended != 1) std::abort();
  }
  return 0;
}
