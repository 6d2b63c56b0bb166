#include "cost/measured_tiers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "graph/lanes.hpp"

namespace rehearsal::cost {
namespace {

struct TimedSize {
  double bytes, seconds;
};
using TimedSizes = std::vector<TimedSize>;

const DiskTimes* disk_of(const TierTimes& times) {
  const auto& disk = times.direct_disk ? times.direct_disk : times.cached_disk;
  return disk && !disk->samples.empty() ? &*disk : nullptr;
}

TimedSizes copies(const TierTimes& times) {
  TimedSizes points;
  for (const auto& s : times.copies) points.push_back({double(s.size.count()), to_seconds(s.time.p50)});
  return points;
}
TimedSizes disk(const TierTimes& times, bool writes) {
  TimedSizes points;
  if (const auto* of = disk_of(times))
    for (const auto& s : of->samples)
      points.push_back({double(s.size.count()), to_seconds(writes ? s.write.p50 : s.read.p50)});
  return points;
}

// Linear between the samples, and beyond them: below the first one, the remainder is the start-up time.
double between(const TimedSizes& points, double bytes) {
  if (points.size() == 1) return points[0].seconds * bytes / points[0].bytes;
  std::size_t i = 1;
  while (i + 1 < points.size() && points[i].bytes < bytes) ++i;
  const auto &a = points[i - 1], &b = points[i];
  const double slope = std::max(0., (b.seconds - a.seconds) / (b.bytes - a.bytes));
  return std::max(a.seconds + slope * (bytes - a.bytes), bytes < points[0].bytes ? 0. : points[0].seconds);
}

struct Line {
  Bandwidth rate;
  Time latency;
};
// Of the largest sample, and what of the smallest that does not explain.
Line line(const TimedSizes& points) {
  const double rate = points.back().bytes / points.back().seconds;
  return {Bandwidth(rate), seconds(std::max(0., points.front().seconds - points.front().bytes / rate))};
}

}  // namespace

cluster::ClusterSpec with_tiers(cluster::ClusterSpec spec, const Profile& profile) {
  const TierTimes& times = *profile.tiers;
  auto& host = spec.host;
  const std::string source = fmt::format("measured: profile {}", profile.name);
  const auto measured = [&](const char* key) {
    std::erase(spec.assumed, key), std::erase(spec.fitted, key);
    spec.sources[key] = source;
  };
  if (profile.cores > 0) host.cores = profile.cores, measured("host.cores");
  double fastest = 0;
  for (const auto& [precision, adam] : times.adam)
    fastest = std::max(fastest, double(adam.each.count()) * double(adam.parameters) / to_seconds(adam.time.p50));
  if (fastest > 0) {
    host.memory_bandwidth = Bandwidth(fastest), measured("host.memory_bandwidth");
    host.core_bandwidth = Bandwidth(fastest / double(std::max<std::int64_t>(1, profile.cores)));
    measured("host.core_bandwidth");
  }
  if (const auto points = copies(times); !points.empty()) {
    host.pcie = line(points).rate, host.pcie_latency = line(points).latency;
    measured("host.pcie.bandwidth"), measured("host.pcie.latency");
  }
  if (!disk_of(times)) return spec;
  const auto reads = line(disk(times, false)), writes = line(disk(times, true));
  host.nvme_read = reads.rate, host.nvme_write = writes.rate,
  host.nvme_latency = std::max(reads.latency, writes.latency);
  measured("host.nvme.read"), measured("host.nvme.write"), measured("host.nvme.latency");
  return spec;
}

std::optional<double> measured_copy(const TierTimes& times, const graph::Copy& copy) {
  const auto lane = graph::lane_between(copy.from, copy.to);
  const bool of_disk = copy.from == Tier::nvme || copy.to == Tier::nvme;
  const auto points = of_disk ? disk(times, lane == graph::Lane::disk_write) : copies(times);
  if (points.empty()) return std::nullopt;
  return between(points, double(copy.size.count()));
}

std::optional<double> measured_step(const TierTimes& times, const graph::HostStep& step) {
  const auto adam = times.adam.find(step.stored == Precision::fp32 ? Precision::fp32 : Precision::bf16);
  if (adam == times.adam.end()) return std::nullopt;
  return to_seconds(adam->second.time.p50) / double(adam->second.parameters) * step.parameters;
}

}  // namespace rehearsal::cost
