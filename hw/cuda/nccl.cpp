#include "cuda/nccl.hpp"

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cuda/environment.hpp"

namespace rehearsal::cuda {
namespace {

void check(ncclResult_t status, const char* call) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  throw MachineError(fmt::format("{}: {}: {}", call, ncclGetErrorString(status), ncclGetLastError(nullptr)));
}

// Polls `done` until it is true, at first without a pause: most calls finish within microseconds. False: patience is
// over.
template <class Done>
bool wait_until(Done&& done, Time patience) {
  using Clock = std::chrono::steady_clock;
  constexpr int kWithoutPause = 1000;
  const auto give_up = Clock::now() + std::chrono::nanoseconds(patience.count() / 1000);
  for (int asked = 0; !done(); ++asked) {
    if (Clock::now() > give_up) return false;
    if (asked > kWithoutPause)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    else
      std::this_thread::yield();
  }
  return true;
}

ncclDataType_t type_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
    case Precision::tf32:
      return ncclFloat32;
    case Precision::bf16:
      return ncclBfloat16;
    case Precision::fp16:
    case Precision::fp8:
    case Precision::fp4:
      break;
  }
  throw MachineError(fmt::format("there are no collectives in {} here", name(precision)));
}

}  // namespace

// SMs that communication may occupy, which kernels need too. A message needs few; the minimum that costs it nothing was
// never measured.
constexpr int kMostBlocksOfMessages = 4;

// `mutex_` guards the handle, which abort() in another thread removes. It is never held while waiting.
class NcclCommunicator : public gpu::Communicator {
 public:
  // Waiting for members uses a nonblocking communicator, so that patience can end the wait. But each of its calls that
  // involves a peer starts a thread inside NCCL (group.cc of 2.28), which takes 0.1 ms; so the communicator for later
  // use is split from it and blocks. The first one lives as long. Alone, where there is nobody to wait for, nothing is
  // split. With peers this never ran.
  NcclCommunicator(NcclCommunicators& all, const ncclUniqueId& id, int members, int index, gpu::Traffic traffic,
                   Time patience)
      : all_(all), patience_(patience), members_(members), index_(index) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = members == 1;
    order_launches(members > 1);
    if (traffic == gpu::Traffic::messages) config.minCTAs = 1, config.maxCTAs = kMostBlocksOfMessages;
    check(ncclCommInitRankConfig(&handle_, members, id, index, &config), "ncclCommInitRankConfig");
    if (members == 1) return;
    ncclComm_t split = nullptr;
    try {
      settle("joining a communicator");
      config.blocking = 1;
      check(ncclCommSplit(handle_, 0, index, &split, &config), "ncclCommSplit");
      settle("splitting a communicator");
    } catch (...) {
      abort();
      throw;
    }
    waited_ = std::exchange(handle_, split);
  }

  ~NcclCommunicator() override {
    std::erase(all_.of_group_, this);
    // NCCL waits in ncclCommFinalize until no recording holds a call of the communicator (init.cc of 2.28,
    // commDestroySync).
    for (const gpu::RecordingId recording : recordings_) all_.device_.forget(recording);
    try {
      patiently("ncclCommFinalize", [](ncclComm_t comm) { return ncclCommFinalize(comm); });
      const std::lock_guard lock(mutex_);
      if (handle_) ncclCommDestroy(handle_);
      handle_ = nullptr;
    } catch (const std::exception&) {  // a peer is gone: there is no one to finalise it with
      abort();
    }
    if (waited_) ncclCommAbort(waited_);
  }

  void send(const std::byte* from, Bytes size, int peer, gpu::StreamId stream) override {
    queue("ncclSend", [&](ncclComm_t comm) {
      return ncclSend(from, static_cast<std::size_t>(size.count()), ncclUint8, peer, comm, all_.device_.handle(stream));
    });
  }

  void receive(gpu::Address into, Bytes size, int peer, gpu::StreamId stream) override {
    queue("ncclRecv", [&](ncclComm_t comm) {
      return ncclRecv(into, static_cast<std::size_t>(size.count()), ncclUint8, peer, comm, all_.device_.handle(stream));
    });
  }

  void collective(CollectiveKind kind, Precision precision, const std::byte* in, gpu::Address out, std::int64_t part,
                  gpu::StreamId stream) override {
    const ncclDataType_t type = type_of(precision);
    const auto count = static_cast<std::size_t>(part);
    const cudaStream_t on = all_.device_.handle(stream);
    switch (kind) {
      case CollectiveKind::all_reduce:
        return queue("ncclAllReduce",
                     [&](ncclComm_t comm) { return ncclAllReduce(in, out, count, type, ncclSum, comm, on); });
      case CollectiveKind::reduce_scatter:
        return queue("ncclReduceScatter",
                     [&](ncclComm_t comm) { return ncclReduceScatter(in, out, count, type, ncclSum, comm, on); });
      case CollectiveKind::all_gather:
        return queue("ncclAllGather", [&](ncclComm_t comm) { return ncclAllGather(in, out, count, type, comm, on); });
      case CollectiveKind::all_to_all:
        return exchange(in, out, Bytes(part * bytes_per_element(precision)), on);
      case CollectiveKind::shift:
        return shift(in, out, Bytes(part * bytes_per_element(precision)), on);
      case CollectiveKind::broadcast:
        return queue("ncclBroadcast",
                     [&](ncclComm_t comm) { return ncclBroadcast(in, out, count, type, 0, comm, on); });
    }
  }

  std::optional<std::string> failure() override {
    const std::lock_guard lock(mutex_);
    if (handle_ == nullptr) return "the communicator was given up";
    const ncclResult_t now = state();
    if (now == ncclSuccess || now == ncclInProgress) return std::nullopt;
    return words(now);
  }

  void abort() noexcept override {
    const std::lock_guard lock(mutex_);
    if (handle_) ncclCommAbort(handle_);
    handle_ = nullptr;
  }

  // Waits until the calls made so far are queued. Throws MachineError.
  void settle(const char* what) {
    const bool settled = wait_until(
        [&] {
          const std::lock_guard lock(mutex_);
          if (handle_ == nullptr) throw MachineError(fmt::format("{}: the communicator was given up", what));
          const ncclResult_t now = state();
          if (now != ncclSuccess && now != ncclInProgress) throw MachineError(fmt::format("{}: {}", what, words(now)));
          return now == ncclSuccess;
        },
        patience_);
    if (!settled) throw MachineError(fmt::format("{}: no answer from the other members for {}", what, show(patience_)));
  }

 private:
  // NCCL implements these two as sends and receives in one group.
  void exchange(const std::byte* in, gpu::Address out, Bytes block, cudaStream_t on) {
    const auto size = static_cast<std::size_t>(block.count());
    queue("an all-to-all", [&](ncclComm_t comm) {
      check(ncclGroupStart(), "ncclGroupStart");
      for (int peer = 0; peer < members_; ++peer) {
        const std::size_t at = static_cast<std::size_t>(peer) * size;
        check(ncclSend(in + at, size, ncclUint8, peer, comm, on), "ncclSend");
        check(ncclRecv(out + at, size, ncclUint8, peer, comm, on), "ncclRecv");
      }
      return ncclGroupEnd();
    });
  }
  void shift(const std::byte* in, gpu::Address out, Bytes whole, cudaStream_t on) {
    INVARIANT(in != out, "what is sent is not what is received into");
    const auto size = static_cast<std::size_t>(whole.count());
    queue("a shift", [&](ncclComm_t comm) {
      check(ncclGroupStart(), "ncclGroupStart");
      check(ncclSend(in, size, ncclUint8, (index_ + 1) % members_, comm, on), "ncclSend");
      check(ncclRecv(out, size, ncclUint8, (index_ + members_ - 1) % members_, comm, on), "ncclRecv");
      return ncclGroupEnd();
    });
  }

  ncclResult_t state() const {
    ncclResult_t now = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(handle_, &now);
    return asked == ncclSuccess ? now : asked;
  }
  std::string words(ncclResult_t result) const {
    return fmt::format("NCCL: {}: {}", ncclGetErrorString(result), ncclGetLastError(handle_));
  }

  ncclComm_t handle(const char* what) {
    const std::lock_guard lock(mutex_);
    if (handle_ == nullptr) throw MachineError(fmt::format("{}: the communicator was given up", what));
    return handle_;
  }

  void judge(const char* what, ncclResult_t status) {
    if (status == ncclInProgress) return settle(what);
    if (status == ncclSuccess) return;
    const std::lock_guard lock(mutex_);
    throw MachineError(fmt::format("{}: {}", what, handle_ ? words(status) : "the communicator was given up"));
  }

  // The first use of a peer connects to it, and the call waits as long as that takes: so it runs in a thread of its
  // own, which abort() ends.
  template <class Call>
  void patiently(const char* what, Call&& make) {
    auto status = std::async(std::launch::async, [this, comm = handle(what), &make] {
      return cudaSetDevice(all_.device_.index()) == cudaSuccess ? make(comm) : ncclUnhandledCudaError;
    });
    if (status.wait_for(std::chrono::nanoseconds(patience_.count() / 1000)) != std::future_status::ready) {
      abort();
      status.wait();
      throw MachineError(fmt::format("{}: no answer from the other members for {}", what, show(patience_)));
    }
    judge(what, status.get());
  }

  // In an open group the end of the group queues the call.
  template <class Call>
  void queue(const char* what, Call&& make) {
    if (const auto recording = all_.device_.recording();
        recording && (recordings_.empty() || recordings_.back() != *recording)) {
      if (members_ > 1 && !order_is_given())
        throw MachineError(
            "calls between GPUs that are recorded crash a driver (580.159.04) where NCCL orders launches: perform "
            "without "
            "--replay, or set NCCL_LAUNCH_ORDER_IMPLICIT to 0 (no order: ranks may wait for ever) or 1");
      recordings_.push_back(*recording);
    }
    if (all_.in_group_) {
      check(make(handle(what)), what);
      if (std::find(all_.of_group_.begin(), all_.of_group_.end(), this) == all_.of_group_.end())
        all_.of_group_.push_back(this);
    } else if (all_.connected_) {
      judge(what, make(handle(what)));
    } else {
      patiently(what, make);
    }
  }

  NcclCommunicators& all_;
  const Time patience_;
  const int members_, index_;
  std::mutex mutex_;
  ncclComm_t handle_ = nullptr;
  ncclComm_t waited_ = nullptr;               // the one that handle_ was split from
  std::vector<gpu::RecordingId> recordings_;  // with calls of it
};

std::string NcclCommunicators::make_id() {
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return std::string(id.internal, sizeof id.internal);
}

std::unique_ptr<gpu::Communicator> NcclCommunicators::join(const std::string& id, int members, int index,
                                                           gpu::Traffic traffic, Time patience) {
  ncclUniqueId made{};
  INVARIANT(id.size() == sizeof made.internal, "not an id of NCCL");
  INVARIANT(!in_group_, "communicators are joined outside of groups");
  std::memcpy(made.internal, id.data(), id.size());
  return std::make_unique<NcclCommunicator>(*this, made, members, index, traffic, patience);
}

void NcclCommunicators::begin_group() {
  INVARIANT(!in_group_, "a group within a group");
  check(ncclGroupStart(), "ncclGroupStart");
  in_group_ = true;
  of_group_.clear();
}

void NcclCommunicators::end_group() {
  INVARIANT(in_group_, "no group");
  in_group_ = false;
  check(ncclGroupEnd(), "ncclGroupEnd");
  for (NcclCommunicator* member : std::exchange(of_group_, {})) member->settle("a group of messages");
}

}  // namespace rehearsal::cuda
