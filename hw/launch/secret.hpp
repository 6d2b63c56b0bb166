// How ranks of a job know each other: each proves that it knows the secret of the job, and none says it aloud.
#pragma once
#include <string>
#include <string_view>

namespace rehearsal::launch {

// HMAC-SHA256 (RFC 2104) as 64 hexadecimal digits. With an empty secret it proves nothing.
std::string proof(std::string_view secret, std::string_view text);

// Whether both are equal, in a time that depends on their lengths alone.
bool same(std::string_view a, std::string_view b);

// 32 hexadecimal digits that nobody can guess. Throws MachineError where the kernel has none.
std::string nonce();

}  // namespace rehearsal::launch
