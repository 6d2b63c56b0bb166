// Where a buffer is kept: in the memory of a GPU, in that of its host, or on the disks of its node.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace rehearsal {

enum class Tier : std::uint8_t { device, host, nvme };
inline constexpr std::array kTierTable{Tier::device, Tier::host, Tier::nvme};
inline constexpr std::size_t kTiers = kTierTable.size();

constexpr std::size_t index(Tier tier) { return static_cast<std::size_t>(tier); }
constexpr const char* name(Tier tier) { return tier == Tier::device ? "device" : tier == Tier::host ? "host" : "nvme"; }

}  // namespace rehearsal
