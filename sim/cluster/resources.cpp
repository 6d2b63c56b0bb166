#include "cluster/resources.hpp"

#include <fmt/format.h>

namespace rehearsal::cluster {

Resources::Resources(const Machine& machine, const Health* health)
    : machine_(machine),
      health_(health),
      ports_(machine.inside().uniform || machine.inside().port),
      of_gpus_(kKindsOfGpus * static_cast<std::size_t>(machine.gpus()), kNone) {}

namespace {

// The rate of a resource of a GPU, or of the GPUs behind it.
Bandwidth rate_of(Resource::Kind kind, const ClusterSpec& spec, std::int64_t gpu, double port) {
  using Kind = Resource::Kind;
  const Host& host = spec.host;
  switch (kind) {
    case Kind::memory:
      return spec.gpu_at(gpu).sustained_memory_bandwidth;
    case Kind::copy_out:
    case Kind::copy_in:
      return host.pcie.value_or(Bandwidth{});
    case Kind::host_memory:
      return host.memory_bandwidth.value_or(Bandwidth{});
    case Kind::disk_read:
      return host.nvme_read.value_or(Bandwidth{});
    case Kind::disk_write:
      return host.nvme_write.value_or(Bandwidth{});
    default:
      return spec.nvlink * port;
  }
}

}  // namespace

Bandwidth rate(const Resource& resource, const Machine& machine) {
  if (resource.counts_processors()) return {};
  if (resource.kind == Resource::Kind::link) return machine.link(resource.from, resource.to).rate;
  return rate_of(resource.kind, machine.spec(), machine.rank(resource.from), 1);
}

std::uint32_t Resources::of_gpu(Resource::Kind kind, std::int64_t gpu) {
  auto& number = of_gpus_[kKindsOfGpus * static_cast<std::size_t>(gpu) + static_cast<std::size_t>(kind)];
  if (number == kNone) {
    number = static_cast<std::uint32_t>(all_.size());
    const Device device = machine_.gpu(gpu);
    all_.push_back({kind, device, device, rate_of(kind, machine_.spec(), gpu, health_ ? health_->port(gpu) : 1)});
  }
  return number;
}

void Resources::add_host(std::int64_t gpu, std::vector<std::pair<Resource::Kind, std::uint32_t>>& list) {
  using Kind = Resource::Kind;
  const auto& spec = machine_.spec();
  const auto first = gpu - machine_.local(gpu);
  const auto on_link = first + machine_.local(gpu) / spec.host.gpus_per_link * spec.host.gpus_per_link;
  const auto add = [&](Kind kind, std::int64_t of) {
    if (rate_of(kind, spec, of, 1).value() > 0) list.emplace_back(kind, of_gpu(kind, of));
  };
  for (const auto kind : {Kind::copy_out, Kind::copy_in}) add(kind, on_link);
  for (const auto kind : {Kind::host_memory, Kind::disk_read, Kind::disk_write}) add(kind, first);
}

std::uint32_t Resources::link(const Device& from, const Device& to) {
  if (ports_ && from.kind == DeviceKind::gpu && to.kind == DeviceKind::nvswitch)
    return of_gpu(Resource::Kind::port_out, machine_.rank(from));
  if (ports_ && from.kind == DeviceKind::nvswitch && to.kind == DeviceKind::gpu)
    return of_gpu(Resource::Kind::port_in, machine_.rank(to));
  const auto packed = [](const Device& d) {
    return std::uint64_t{static_cast<std::uint8_t>(d.kind)} << 56 | std::uint64_t{d.place} << 24 | d.index;
  };
  const auto [at, fresh] = links_.try_emplace({packed(from), packed(to)}, static_cast<std::uint32_t>(all_.size()));
  if (fresh)
    all_.push_back(
        {Resource::Kind::link, from, to, machine_.link(from, to).rate * (health_ ? health_->link(from, to) : 1)});
  return at->second;
}

void Resources::add_route(std::int64_t from, std::int64_t to, std::int64_t stripe, std::vector<std::uint32_t>& list) {
  if (ports_ && from / machine_.domain() == to / machine_.domain()) {
    list.push_back(of_gpu(Resource::Kind::port_out, from));
    list.push_back(of_gpu(Resource::Kind::port_in, to));
    return;
  }
  const auto [at, fresh] = routes_.try_emplace({std::uint64_t(stripe) << 48 | std::uint64_t(from), std::uint64_t(to)});
  auto& route = at->second;
  if (fresh) {
    const Path path = machine_.path(from, to, stripe);
    for (std::size_t i = 1; i < path.size(); ++i) route.push_back(link(path[i - 1], path[i]));
  }
  list.insert(list.end(), route.begin(), route.end());
}

std::string name(const Resource& r) {
  switch (r.kind) {
    case Resource::Kind::processors:
      return name(r.from) + " multiprocessors";
    case Resource::Kind::memory:
      return name(r.from) + " memory";
    case Resource::Kind::port_out:
      return name(r.from) + " port out";
    case Resource::Kind::port_in:
      return name(r.from) + " port in";
    case Resource::Kind::copy_out:
      return name(r.from) + " link to its host";
    case Resource::Kind::copy_in:
      return name(r.from) + " link from its host";
    case Resource::Kind::host_memory:
      return fmt::format("node {} host memory", r.from.place);
    case Resource::Kind::disk_read:
      return fmt::format("node {} disks, reading", r.from.place);
    case Resource::Kind::disk_write:
      return fmt::format("node {} disks, writing", r.from.place);
    case Resource::Kind::rounds:
      return name(r.from) + " multiprocessors, for persistent products";
    case Resource::Kind::link:
      return fmt::format("{} to {}", name(r.from), name(r.to));
  }
  return {};
}

}  // namespace rehearsal::cluster
