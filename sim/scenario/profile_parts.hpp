// Shared by readers and writers of a profile's sections: lists of times, and quantities that round-trip to the last
// digit. The GPU section is read and written in files of its own (load_gpu_times.cpp, gpu_times_text.cpp).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/profile.hpp"
#include "scenario/reader.hpp"

namespace rehearsal::scenario {

// nullptr if the section is missing or says {source: assumed}: not measured.
const Node* measured_section(MapReader& map, std::string_view key);
// A list of times above zero.
std::vector<Time> read_times(Diagnostics& problems, const Node& node, std::size_t from, std::size_t count,
                             const std::string& what);
// Whether it is a list of `count` items (0: any number); reports an error if not.
bool is_list(Diagnostics& problems, const Node& node, std::size_t count, const std::string& what,
             std::string_view example);
std::optional<cost::Quantiles> read_quantiles(Diagnostics& problems, const Node& node, const std::string& what);
// Whole numbers, each at least `low`; nothing unless there are `count` of them.
std::optional<std::vector<std::int64_t>> read_dims(Diagnostics& problems, const Node& node, std::size_t count,
                                                   std::int64_t low, const std::string& what);
// Early profiles have this many dims per kernel. Profiles write this many, and more only if the rest is not all zeros,
// so that early files stay readable and keep their digests.
inline constexpr std::size_t kLeastDims = 5;

// The GPU sections at the top of a profile: gpu, gemm, attention, memory_bound, host_link, device_copy, launch,
// partitions. The others require `gpu`.
std::optional<cost::GpuTimes> read_gpu_times(MapReader& map);
std::string gpu_times_text(const cost::GpuTimes& times);

// Memory tiers beyond the GPU, at the top of a profile: `tiers`.
std::optional<cost::TierTimes> read_tier_times(MapReader& map);
std::string tier_times_text(const cost::TierTimes& times);

std::string text_of(Time time);
std::string text_of(Bytes size);
std::string text_of(const cost::Quantiles& q);
// A text from the machine, in double quotes so that a colon or a hash has no meaning.
std::string quoted(const std::string& words);

}  // namespace rehearsal::scenario
