#include "gpu/probe.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "gpu/probe_bench.hpp"
#include "gpu/probe_copies.hpp"

namespace rehearsal::gpu {
namespace {

// Matrix products run this long before they are timed: the clock of an H100 at its power limit needs a tenth of a
// second to settle.
const Time kSettle = seconds(150e-3);
// Numbers of partitions to measure products in, as far as the SMs suffice.
constexpr std::size_t kPartitions[] = {2, 4, 8};

std::string shown(const Kernel& kernel) {
  return fmt::format("{} [{}] in {}", name(kernel.kind), fmt::join(kernel.dims, ", "), name(kernel.precision));
}

void heat(ProbeBench& bench, const ProbeOptions& options) {
  const Kernel product{KernelKind::linear, {options.gemm, options.gemm, options.gemm}, {}, Precision::bf16};
  const Time until = dispatch::now() + options.heat;
  if (dispatch::now() >= until || bench.prepare(product, bench.parts())) return;
  while (dispatch::now() < until)
    bench.time(
        bench.parts(),
        [&](std::size_t part, std::int64_t round) {
          bench.device().perform(bench.call(part, round), bench.stream(part));
        },
        kSettle);
}

// Kernels that the machine does not support, or lacks the memory or time for, are listed and skipped.
void probe_kernels(ProbeBench& bench, const ProbeOptions& options, Probe& probe) {
  const Time until = dispatch::now() + options.budget;
  std::size_t done = 0, late = 0;
  for (const auto& [kernel, held_out] : options.kernels) {
    if (dispatch::now() > until) {
      ++late;
      continue;
    }
    options.say("shapes of kernels", done++, options.kernels.size());
    if (const auto why = bench.prepare(kernel, bench.parts())) {
      probe.left_out.push_back(shown(kernel) + ": " + *why);
      continue;
    }
    try {
      const Time settle = is_linear(kernel.kind) && probe.settled ? kSettle : Time{};
      const auto time = bench.time(
          bench.parts(),
          [&](std::size_t part, std::int64_t round) {
            bench.device().perform(bench.call(part, round), bench.stream(part));
          },
          settle);
      probe.kernels.push_back({kernel, time, held_out});
    } catch (const MachineError& why) {
      probe.left_out.push_back(shown(kernel) + ": " + why.what());
    }
  }
  if (late > 0) probe.left_out.push_back(fmt::format("{} more shapes of kernels: the time was over", late));
}

// Each partitioning needs a freshly opened device.
void probe_partitions(const Platform& platform, const ProbeOptions& options, Probe& probe) {
  for (const std::size_t parts : kPartitions) {
    options.say(fmt::format("matrix products in {} partitions", parts));
    try {
      const auto device = platform.open(0);
      ProbeOptions here = options;
      here.parts = parts;
      ProbeBench bench(*device, here);
      const Kernel kernel{KernelKind::linear, {options.gemm, options.gemm, options.gemm}, {}, Precision::bf16};
      if (const auto why = bench.prepare(kernel, parts)) throw MachineError(*why);
      const auto launch = [&](std::size_t part, std::int64_t round) {
        device->perform(bench.call(part, round), bench.stream(part));
      };
      PartTime times{.parts = parts, .multiprocessors = bench.multiprocessors(), .kernel = kernel};
      times.alone = bench.time(1, launch, probe.settled ? kSettle : Time{});
      times.busy = bench.time(parts, launch, probe.settled ? kSettle : Time{});
      probe.partitions.push_back(times);
    } catch (const MachineError& why) {
      probe.left_out.push_back(fmt::format("{} partitions: {}", parts, why.what()));
    }
  }
}

}  // namespace

Probe measure(const Platform& platform, const ProbeOptions& options) {
  platform.devices();  // throws the reason when there is none
  Probe probe;
  probe.parts = std::max<std::size_t>(options.parts, 1);
  probe.settled = !options.quick;
  {
    const auto device = platform.open(0);
    probe.device = device->facts();
    ProbeOptions here = options;
    if (const Bytes free = probe.device.free; free > Bytes())
      here.arena = std::min(here.arena, Bytes(free.count() / 2));
    ProbeBench bench(*device, here);
    probe.multiprocessors = bench.multiprocessors();
    if (probe.parts > 1) {
      probe_virtual_links(bench, here, probe);
    } else {
      options.say("launches of kernels");
      probe_launches(bench, probe);
      probe_copies(bench, here, probe);
      probe_memory_bound(bench, here, probe);
    }
    heat(bench, here);
    probe_kernels(bench, here, probe);
    if (probe.parts == 1) probe_pairs(bench, here, probe);
    if (probe.parts == 1) {
      try {
        const auto communicators = platform.communicators(*device);
        probe_nccl(bench, *communicators, here, probe);
      } catch (const MachineError& why) {
        probe.left_out.push_back(std::string("NCCL with one rank: ") + why.what());
      }
    }
  }
  if (probe.parts == 1) probe_partitions(platform, options, probe);
  return probe;
}

}  // namespace rehearsal::gpu
