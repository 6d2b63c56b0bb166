#include "cuda/partitions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "cuda/driver.hpp"

namespace rehearsal::cuda {
namespace {

CUdevice handle(int index) {
  CUdevice device = 0;
  check(DRIVER(cuDeviceGet)(&device, index), "cuDeviceGet");
  return device;
}

}  // namespace

Partitions::Partitions(int index, std::size_t parts) {
  const CUdevice device = handle(index);
  CUdevResource whole{};
  check(DRIVER(cuDeviceGetDevResource)(device, &whole, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
  const auto split = DRIVER(cuDevSmResourceSplitByCount);
  const unsigned least = std::max(whole.sm.minSmPartitionSize, 1u);
  const unsigned step = std::max(whole.sm.smCoscheduledAlignment, 1u);
  const auto groups_of = [&](unsigned size) {
    unsigned groups = 0;
    check(split(nullptr, &groups, &whole, nullptr, 0, size), "cuDevSmResourceSplitByCount");
    return groups;
  };

  // The largest equal parts. The driver may give fewer than the division suggests, because SMs come in clusters.
  const auto wanted = static_cast<unsigned>(parts);
  unsigned size = whole.sm.smCount / wanted / step * step;
  while (size >= least && groups_of(size) < wanted) size -= std::min(size, step);
  if (size < least)
    throw MachineError(
        fmt::format("{} partitions of its multiprocessors are more than this GPU gives: it has {}, which "
                    "make at most {} of {}",
                    parts, whole.sm.smCount, groups_of(least), least));

  std::vector<CUdevResource> all(parts);
  unsigned made = wanted;
  check(split(all.data(), &made, &whole, nullptr, 0, size), "cuDevSmResourceSplitByCount");
  INVARIANT(made == wanted, "the driver has split otherwise than it said");
  multiprocessors_ = static_cast<int>(all.front().sm.smCount);
  const auto describe = DRIVER(cuDevResourceGenerateDesc);
  const auto create = DRIVER(cuGreenCtxCreate);
  for (CUdevResource& part : all) {
    CUdevResourceDesc description{};
    check(describe(&description, &part, 1), "cuDevResourceGenerateDesc");
    CUgreenCtx context{};
    check(create(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
    contexts_.push_back(context);
  }
}

Partitions::~Partitions() {
  try {
    const auto destroy = DRIVER(cuGreenCtxDestroy);
    for (CUgreenCtx context : contexts_) destroy(context);
  } catch (const MachineError&) {  // the driver is gone, and the contexts with it
  }
}

cudaStream_t Partitions::make_stream(std::size_t part) const {
  CUstream stream{};
  check(DRIVER(cuGreenCtxStreamCreate)(&stream, contexts_.at(part), CU_STREAM_NON_BLOCKING, 0),
        "cuGreenCtxStreamCreate");
  return stream;
}

}  // namespace rehearsal::cuda
