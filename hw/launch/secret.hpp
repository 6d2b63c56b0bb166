// How ranks of a job authenticate each other: each proves knowledge of the job's secret without sending it.
#pragma once
#include <string>
#include <string_view>

namespace rehearsal::launch {

// HMAC-SHA256 (RFC 2104) as 64 hexadecimal digits. An empty secret proves nothing.
std::string proof(std::string_view secret, std::string_view text);

// Whether both are equal, in a time that depends only on their lengths.
bool same(std::string_view a, std::string_view b);

// 32 random hexadecimal digits. Throws MachineError when the kernel has no randomness.
std::string nonce();

}  // namespace rehearsal::launch
