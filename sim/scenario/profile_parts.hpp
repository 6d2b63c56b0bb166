// What the readers and writers of a profile's sections share: lists of times, quantities that come back to the last
// digit. The section of a GPU is read and written in files of its own (load_gpu_times.cpp, gpu_times_text.cpp).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/profile.hpp"
#include "scenario/reader.hpp"

namespace rehearsal::scenario {

// A section that says {source: assumed}, or is missing, was not measured: nullptr.
const Node* measured_section(MapReader& map, std::string_view key);
// A list of times, above zero.
std::vector<Time> read_times(Diagnostics& problems, const Node& node, std::size_t from, std::size_t count,
                             const std::string& what);
// Whether it is a list of so many (0: any number); else that is reported.
bool is_list(Diagnostics& problems, const Node& node, std::size_t count, const std::string& what,
             std::string_view example);
std::optional<cost::Quantiles> read_quantiles(Diagnostics& problems, const Node& node, const std::string& what);
// Whole numbers, each at least `low`; nothing when there are not `count` of them.
std::optional<std::vector<std::int64_t>> read_dims(Diagnostics& problems, const Node& node, std::size_t count,
                                                   std::int64_t low, const std::string& what);
// Kernels once had so many dims. Profiles write as many, and more where the rest is not all zeros: files of that time
// are read, and keep their digests.
inline constexpr std::size_t kLeastDims = 5;

// The sections of a GPU, at the top of a profile: gpu, gemm, attention, memory_bound, host_link, device_copy, launch,
// partitions. Without `gpu` none of the others may be there.
std::optional<cost::GpuTimes> read_gpu_times(MapReader& map);
std::string gpu_times_text(const cost::GpuTimes& times);

// What lies beside the memory of ranks, at the top of a profile: `tiers`.
std::optional<cost::TierTimes> read_tier_times(MapReader& map);
std::string tier_times_text(const cost::TierTimes& times);

std::string text_of(Time time);
std::string text_of(Bytes size);
std::string text_of(const cost::Quantiles& q);
// A text of the machine's own: double quotes, so that a colon or a hash means nothing.
std::string quoted(const std::string& words);

}  // namespace rehearsal::scenario
