#include "tiers/unnamed_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "tiers/extents.hpp"

namespace rehearsal::tiers {
namespace {

constexpr std::int64_t kGuard = kBlock;  // after the file's length
constexpr const char* kElsewhere = "name another directory with --tier-directory";

std::string in_bytes(std::int64_t n) { return fmt::format("{} ({} bytes)", show(Bytes(n)), n); }

// Space that a user of this file system may still write. Nothing if it does not tell.
std::int64_t room(int file) {
  struct statvfs there {};
  if (::fstatvfs(file, &there) != 0) return 0;
  const auto blocks = ::geteuid() == 0 ? there.f_bfree : there.f_bavail;
  return static_cast<std::int64_t>(blocks * there.f_frsize);
}

struct Aligned {
  static constexpr std::align_val_t kAlignment{kBlock};
  struct Freed {
    void operator()(std::byte* block) const { ::operator delete[](block, kAlignment); }
  };
  std::unique_ptr<std::byte[], Freed> block{static_cast<std::byte*>(::operator new[](std::size_t(kBlock), kAlignment))};
};

}  // namespace

std::string usual_directory() {
  const char* given = std::getenv("TMPDIR");
  return given && *given ? given : "/tmp";
}

UnnamedFile::UnnamedFile(const std::string& directory, const std::string& whose, bool direct)
    : directory_(directory), whose_(whose) {
  folder_ = ::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0)
    throw MachineError(fmt::format("tier nvme: cannot open the directory {}: {}; make it, or {}", directory_,
                                   std::strerror(errno), kElsewhere));
  try {
    open(direct);
  } catch (...) {
    if (file_ >= 0) ::close(file_);
    ::close(folder_);
    throw;
  }
}

UnnamedFile::~UnnamedFile() {
  ::close(file_);
  ::close(folder_);
}

void UnnamedFile::open(bool direct) {
  const auto attempt = [&](int flags) {
    const int access = O_RDWR | O_CLOEXEC | flags;
    file_ = ::openat(folder_, ".", O_TMPFILE | O_EXCL | access, 0600);
    if (file_ >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return file_ >= 0;
    // Unnamed files are not supported here (NFS, 9p): the name is removed at once. The file is still empty.
    const auto brief = fmt::format(".rehearse-tier-{}-{}", ::getpid(), std::random_device{}());
    file_ = ::openat(folder_, brief.c_str(), O_CREAT | O_EXCL | access, 0600);
    if (file_ >= 0) ::unlinkat(folder_, brief.c_str(), 0);
    return file_ >= 0;
  };
  if (direct) {
    direct_ = attempt(O_DIRECT);
    if (!direct_ && errno != EINVAL) fail("create", errno);
    if (direct_ && !tried()) direct_ = false, ::close(file_), file_ = -1;
    if (!direct_) refused_ = fmt::format("O_DIRECT is refused in {}", directory_);
  }
  if (file_ < 0 && !attempt(0)) fail("create", errno);
}

bool UnnamedFile::tried() const {
  const Aligned memory;
  std::memset(memory.block.get(), 0, std::size_t(kBlock));
  const auto refusal = [this](ssize_t n, const char* doing) {
    if (n == kBlock) return false;
    if (n < 0 && errno != EINVAL) fail(doing, errno);
    return true;
  };
  if (refusal(::pwrite(file_, memory.block.get(), std::size_t(kBlock), 0), "write")) return false;
  if (refusal(::pread(file_, memory.block.get(), std::size_t(kBlock), 0), "read")) return false;
  return ::ftruncate(file_, 0) == 0;
}

void UnnamedFile::grow(std::int64_t length) {
  const std::int64_t old = length_;
  if (length <= old) return;
  const std::int64_t has = old == 0 ? 0 : old + kGuard, wanted = length + kGuard;
  rlimit most{};
  // Checked rather than tried: a process that writes beyond the limit is killed by SIGXFSZ.
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
      static_cast<std::uint64_t>(wanted) > most.rlim_cur)
    throw MachineError(fmt::format("tier nvme: {} would need {}, and files may have {} (ulimit -f); raise that limit",
                                   name(), in_bytes(wanted), in_bytes(static_cast<std::int64_t>(most.rlim_cur))));
  const std::int64_t before = room(file_);
  int failed = ::fallocate(file_, 0, has, wanted - has) == 0 ? 0 : errno;
  // A file system that cannot reserve space: only the length is set, and a full disk shows when it is written.
  if (failed == EOPNOTSUPP || failed == ENOSYS) failed = ::ftruncate(file_, wanted) == 0 ? 0 : errno;
  if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG) {
    const bool whole = ::ftruncate(file_, has) == 0;  // gives back the part that was reserved
    const std::int64_t missing = wanted - has - before;
    throw MachineError(
        fmt::format("tier nvme: no room for {} in {}: {}{}; free as much there, or {}", in_bytes(wanted), name(),
                    failed == ENOSPC && missing > 0 ? in_bytes(missing) + " are missing" : std::strerror(failed),
                    whole ? "" : " (and it cannot be cut back)", kElsewhere));
  }
  if (failed != 0) fail("grow", failed);
  length_ = length;
}

void UnnamedFile::check() const {
  struct stat now {};
  if (::fstat(folder_, &now) != 0) fail("find", errno);
  if (now.st_nlink == 0)
    throw MachineError(
        fmt::format("tier nvme: the directory {} vanished, and with it {}; run again with one that "
                    "stays (--tier-directory)",
                    directory_, name()));
  // The length first: another thread may grow the file between the two.
  const std::int64_t length = length_;
  if (::fstat(file_, &now) != 0) fail("find", errno);
  if (length > 0 && now.st_size < length + kGuard) fail_cut(now.st_size);
}

Bytes UnnamedFile::cached() const {
  const std::int64_t length = length_;
  if (length == 0) return Bytes();
  const auto size = static_cast<std::size_t>(length);
  void* const at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file_, 0);
  if (at == MAP_FAILED) return Bytes();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> there((size + page - 1) / page);
  const bool told = ::mincore(at, size, there.data()) == 0;
  ::munmap(at, size);
  const auto pages = told ? std::ranges::count_if(there, [](unsigned char p) { return (p & 1) != 0; }) : 0;
  return Bytes(std::min(std::int64_t(pages) * std::int64_t(page), length));
}

void UnnamedFile::fail(const std::string& doing, int error) const {
  std::string mend = kElsewhere;
  if (error == ENOSPC || error == EDQUOT) mend = "free some space there, or " + mend;
  if (error == EIO) mend = "the disk failed (the kernel's log says how); " + mend;
  if (error == ESTALE || error == ENODEV || error == ENXIO) mend = "its file system went away; " + mend;
  if (error == EACCES || error == EPERM || error == EROFS) mend = "make it writable, or " + mend;
  throw MachineError(fmt::format("tier nvme: cannot {} {}: {}; {}", doing, name(), std::strerror(error), mend));
}

void UnnamedFile::fail_cut(std::int64_t ends) const {
  throw MachineError(
      fmt::format("tier nvme: {} ends after {} bytes, of which it had {}: another process cut it; run again, or {}",
                  name(), ends, length_ + kGuard, kElsewhere));
}

std::string UnnamedFile::name() const {
  if (file_ < 0) return fmt::format("the file of {} in {}", whose_, directory_);
  return fmt::format("the file of {} in {} (without a name; /proc/{}/fd/{})", whose_, directory_, ::getpid(), file_);
}

}  // namespace rehearsal::tiers
