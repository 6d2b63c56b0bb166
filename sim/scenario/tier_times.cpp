// Reads and writes the section `tiers` of a profile.
#include <fmt/format.h>

#include "scenario/profile_parts.hpp"
#include "scenario/reader.hpp"

namespace rehearsal::scenario {
namespace {

constexpr const char* kCopies = "a list of [size, [p10, p50, p90]]";
constexpr const char* kDisk = "a list of [size, [write p10, p50, p90], [read p10, p50, p90]]";

// Rows of a size and a fixed number of spreads; sizes ascend from above 0.
template <class Add>
void read_tier_rows(Diagnostics& problems, const Node& node, const std::string& what, std::size_t spreads,
                    const char* example, Add&& add) {
  if (!is_list(problems, node, 0, what, example)) return;
  if (node.items.empty()) problems.error(node.where(), what + " is empty; leave it out if nothing was measured");
  Bytes last;
  for (const Node* item : node.items) {
    if (!is_list(problems, *item, spreads + 1, what, example)) continue;
    const auto size = read_bytes(problems, *item->items[0], what);
    if (size && *size <= last) problems.error(item->where(), what + ": sizes must be above 0 and in ascending order");
    std::vector<cost::Quantiles> times;
    for (std::size_t i = 1; i <= spreads; i++)
      if (const auto q = read_quantiles(problems, *item->items[i], what)) times.push_back(*q);
    if (size && times.size() == spreads) last = *size, add(*size, times);
  }
}

std::optional<cost::DiskTimes> read_disk(MapReader& tiers, const char* key) {
  const Node* node = tiers.find(key);
  if (!node) return std::nullopt;
  cost::DiskTimes disk;
  MapReader map(tiers.problems(), *node, key);
  disk.means = map.text("means");
  disk.page_cache = map.boolean("page_cache");
  const Node* times = map.require("times", kDisk);
  map.finish();
  if (times)
    read_tier_rows(tiers.problems(), *times, "'times'", 2, kDisk, [&](Bytes size, const auto& t) {
      disk.samples.push_back({size, t[0], t[1]});
    });
  return disk;
}

std::string disk_text(const char* key, const cost::DiskTimes& disk) {
  std::string out = fmt::format("  {}:\n    means: {}\n    page_cache: {}\n    times:  # size, write, read\n", key,
                                quoted(disk.means), disk.page_cache);
  for (const auto& s : disk.samples)
    out += fmt::format("      - [{}, {}, {}]\n", text_of(s.size), text_of(s.write), text_of(s.read));
  return out;
}

}  // namespace

std::optional<cost::TierTimes> read_tier_times(MapReader& map) {
  const Node* node = measured_section(map, "tiers");
  if (!node) return std::nullopt;
  auto& problems = map.problems();
  cost::TierTimes tiers;
  MapReader section(problems, *node, "tiers");
  tiers.threads = section.integer("threads", kDegree);
  if (const Node* copies = section.find("copies"))
    read_tier_rows(problems, *copies, "'copies'", 1, kCopies, [&](Bytes size, const auto& t) {
      tiers.copies.push_back({size, t[0]});
    });
  if (const Node* all = section.find("adam")) {
    MapReader adam(problems, *all, "adam");
    for (const auto precision : {Precision::fp32, Precision::bf16}) {
      const Node* one = adam.find(name(precision));
      if (!one) continue;
      MapReader m(problems, *one, name(precision));
      cost::HostAdam times;
      times.parameters = m.integer("parameters", {1, INT64_MAX});
      times.each = Bytes(m.integer("bytes_each", {1, 1 << 20}));
      const Node* time = m.require("time", "[p10, p50, p90]");
      m.finish();
      const auto q = time ? read_quantiles(problems, *time, "'time'") : std::nullopt;
      if (q) times.time = *q, tiers.adam[precision] = times;
    }
    adam.finish();
  }
  tiers.direct_disk = read_disk(section, "direct_disk"), tiers.cached_disk = read_disk(section, "cached_disk");
  section.finish();
  return tiers;
}

std::string tier_times_text(const cost::TierTimes& t) {
  std::string out = fmt::format("tiers:\n  threads: {}\n", t.threads);
  if (!t.copies.empty()) out += "  copies:  # from heap to heap, by all threads at once: size, [p10, p50, p90]\n";
  for (const auto& s : t.copies) out += fmt::format("    - [{}, {}]\n", text_of(s.size), text_of(s.time));
  if (!t.adam.empty()) out += "  adam:  # an update by all threads together, by what parameters are stored as\n";
  for (const auto& [precision, a] : t.adam)
    out += fmt::format("    {}: {{parameters: {}, bytes_each: {}, time: {}}}\n", name(precision), a.parameters,
                       a.each.count(), text_of(a.time));
  if (t.direct_disk) out += disk_text("direct_disk", *t.direct_disk);
  if (t.cached_disk) out += disk_text("cached_disk", *t.cached_disk);
  return out;
}

}  // namespace rehearsal::scenario
