// Version of a library: major and minor, the part that changes what it does. "2.18"; never a number, 2.2 < 2.18.
#pragma once
#include <compare>
#include <string>
#include <string_view>

namespace rehearsal {

struct Version {
  int major = 0, minor = 0;
  auto operator<=>(const Version&) const = default;
};

// "2.18", or with what follows the minor number ("2.18.5"), which is dropped. Throws UserError.
Version parse_version(std::string_view text);
std::string show(Version version);

// The newest NCCL with which a table of configs/collectives was measured: the version if none is given.
inline constexpr Version kNewestNccl{2, 29};

}  // namespace rehearsal
