#include "tiers/channel.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "base/error.hpp"

#ifdef REHEARSAL_URING
#include <liburing.h>
#endif

namespace rehearsal::tiers {
namespace {

class Plain final : public Channel {
 public:
  void submit(std::size_t slot, const Request& r) override {
    const auto size = static_cast<std::size_t>(r.size);
    const auto n = r.write ? ::pwrite(r.file, r.memory, size, r.offset) : ::pread(r.file, r.memory, size, r.offset);
    done_.push_back({slot, n < 0 ? -errno : n});
  }
  Completion next() override {
    INVARIANT(!done_.empty(), "only what was submitted completes");
    const auto first = done_.front();
    done_.pop_front();
    return first;
  }

 private:
  std::deque<Completion> done_;
};

#ifdef REHEARSAL_URING
class Uring final : public Channel {
 public:
  Uring() : status_(io_uring_queue_init(unsigned(kDepth), &ring_, 0)) {}
  ~Uring() override {
    if (status_ == 0) io_uring_queue_exit(&ring_);
  }
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  int status() const { return status_; }  // 0, or -errno

  void submit(std::size_t slot, const Request& r) override {
    auto* entry = io_uring_get_sqe(&ring_);
    INVARIANT(entry, "a ring has a place for every slot");
    const auto size = static_cast<unsigned>(r.size);
    const auto offset = static_cast<std::uint64_t>(r.offset);
    if (r.write)
      io_uring_prep_write(entry, r.file, r.memory, size, offset);
    else
      io_uring_prep_read(entry, r.file, r.memory, size, offset);
    io_uring_sqe_set_data64(entry, slot);
    int taken = 0;
    do taken = io_uring_submit(&ring_);
    while (taken == -EINTR || taken == -EAGAIN || taken == -EBUSY);
    if (taken < 0) throw MachineError(std::string("io_uring: ") + std::strerror(-taken));
  }

  Completion next() override {
    io_uring_cqe* entry = nullptr;
    int status = 0;
    do status = io_uring_wait_cqe(&ring_, &entry);
    while (status == -EINTR);
    if (status < 0) throw MachineError(std::string("io_uring: ") + std::strerror(-status));
    const Completion done{static_cast<std::size_t>(io_uring_cqe_get_data64(entry)), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return done;
  }

 private:
  io_uring ring_{};
  int status_;
};
#endif

}  // namespace

OpenedChannel open_channel(bool io_uring) {
  std::string refused = "not asked for";
  if (io_uring) {
#ifdef REHEARSAL_URING
    auto ring = std::make_unique<Uring>();
    if (ring->status() == 0) return {std::move(ring), ""};
    refused = std::strerror(-ring->status());
#else
    refused = "built without liburing";
#endif
  }
  return {std::make_unique<Plain>(), refused};
}

}  // namespace rehearsal::tiers
