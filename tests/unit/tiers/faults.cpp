// Faults of files are injected for real: a full disk is a small file system, another process truncates a file, the
// kernel refuses system calls (seccomp), a run is killed while it writes.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "helpers.hpp"

using namespace tiers_test;

namespace {

constexpr int kCannot = 77;  // this machine does not let the fault be made

// Mounts a file system of `size` at the folder, for this process alone.
bool small_disk(const fs::path& at, const char* size) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", at.c_str(), "tmpfs", 0, (std::string("size=") + size).c_str()) == 0;
}

// From here on the kernel answers `call` with `error`: always, or when its third argument has all bits of `flags`.
bool refuse(long call, int error, unsigned flags = 0) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, unsigned(call), 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, flags),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, flags, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | unsigned(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(filter), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

void check_child(int status) {
  if (status == kCannot)
    MESSAGE("this machine does not let the fault be made");
  else
    CHECK(status == 0);  // else the number of the expectation that does not hold
}

// Truncates the file, as another process could.
void cut(const Folder& folder, off_t length) {
  const int found = descriptor_in(folder.path);
  REQUIRE(found >= 0);
  const std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(found);
  REQUIRE(in_child([&] {
            const int file = ::open(path.c_str(), O_RDWR);
            return file >= 0 && ::ftruncate(file, length) == 0 ? 0 : 1;
          }) == 0);
}

}  // namespace

TEST_CASE("a full disk is found at the beginning, and how much is missing") {
  const Folder folder;
  check_child(in_child([&] {
    if (!small_disk(folder.path, "1m")) return kCannot;
    auto options = folder.options();
    options.whose = "rank 5", options.capacity = Bytes(3 << 20);
    const auto text = fault([&] { FileStore file(options); });
    // 3 MiB and the block behind them, of which 1 MiB is there.
    if (!says(text, "(2101248 bytes) are missing")) return 1;
    if (!says(text, "the file of rank 5 in " + folder.path.string())) return 2;
    if (!says(text, "--tier-directory")) return 3;
    options.capacity = Bytes(1 << 19);
    FileStore file(options);  // what was begun was given back
    const auto small = file.allocate(Bytes(1 << 18));
    put(file, small, pattern(1 << 18, 1));
    if (!says(fault([&] { file.allocate(Bytes(1 << 20)); }), "are missing")) return 4;
    if (file.live() != Bytes(1 << 18)) return 5;
    file.free(file.allocate(Bytes(1 << 18)));  // what there is can be used all the same
    return get(file, small, 1 << 18) == pattern(1 << 18, 1) ? 0 : 6;
  }));
}

TEST_CASE("a disk that fills while it is written to, where no room can be taken beforehand") {
  const Folder folder;
  check_child(in_child([&] {
    if (!small_disk(folder.path, "1m") || !refuse(SYS_fallocate, EOPNOTSUPP)) return kCannot;
    FileStore file(folder.options());
    const auto region = file.allocate(Bytes(3 << 20));
    const auto text = fault([&] { put(file, region, pattern(3 << 20, 1)); });
    return says(text, "cannot write") && says(text, "No space left") && says(text, folder.path.string()) ? 0 : 1;
  }));
}

TEST_CASE("a file size limit is reported, and no process is killed by its signal") {
  const Folder folder;
  check_child(in_child([&] {
    const rlimit most{1 << 16, 1 << 16};
    if (::setrlimit(RLIMIT_FSIZE, &most) != 0) return kCannot;
    auto options = folder.options();
    options.capacity = Bytes(1 << 20);
    if (!says(fault([&] { FileStore file(options); }), "ulimit -f")) return 1;
    options.capacity = Bytes();
    FileStore file(options);
    put(file, file.allocate(Bytes(4096)), pattern(4096, 1));
    return says(fault([&] { file.allocate(Bytes(1 << 16)); }), "ulimit -f") ? 0 : 2;
  }));
}

TEST_CASE("a directory that is not there, or vanishes, is named") {
  const Folder folder;
  auto options = folder.options();
  options.directory = (folder.path / "nowhere").string();
  CHECK(says(fault([&] { FileStore file(options); }), options.directory + ": No such file or directory; make it"));
  fs::create_directory(options.directory);
  FileStore file(options);
  const auto region = file.allocate(Bytes(100));
  put(file, region, pattern(100, 1));
  fs::remove(options.directory);
  for (const bool write : {false, true}) {
    const auto text = fault([&] { write ? put(file, region, pattern(100, 1)) : void(get(file, region, 100)); });
    CHECK_MESSAGE(says(text, "the directory " + options.directory + " vanished"), text);
  }
  options.directory = "/proc";  // no files can be made there
  CHECK(says(fault([&] { FileStore other(options); }), "tier nvme: cannot create the file of rank 0 in /proc: "));
}

TEST_CASE("a truncated file is noticed, also when later writes lengthen it again") {
  for (const std::int64_t left : {std::int64_t(0), std::int64_t(4096), std::int64_t(3 * 4096)}) {
    CAPTURE(left);
    const Folder folder;
    FileStore file(folder.options());
    const auto first = file.allocate(Bytes(2 * 4096)), last = file.allocate(Bytes(4096));
    put(file, first, pattern(2 * 4096, 1)), put(file, last, pattern(4096, 2));
    cut(folder, left);
    const auto written = fault([&] { put(file, last, pattern(4096, 2)); });
    CHECK_MESSAGE(says(written, "another process cut it"), written);
    const auto text = fault([&] { get(file, first, 100); });
    CHECK_MESSAGE(says(text, "ends after " + std::to_string(left) + " bytes, of which it had 16384"), text);
    CHECK(says(text, folder.path.string()));
  }
}

TEST_CASE("a file that is cut while it is read gives its contents or a fault") {
  constexpr std::size_t kSize = 24 << 20;
  const auto bytes = pattern(kSize, 9);
  for (const bool direct : {true, false}) {
    const Folder folder;
    auto options = folder.options();
    options.direct = direct;
    FileStore file(options);
    const auto region = file.allocate(Bytes(std::int64_t(kSize)));
    put(file, region, bytes);
    const int found = descriptor_in(folder.path);
    std::atomic<int> reads = 0;
    std::thread other([&] {
      while (reads < 2) std::this_thread::yield();
      if (::ftruncate(found, 4096 + 7) != 0) reads = -1;
    });
    std::string text;
    bool same = true;
    for (int i = 0; i < 10'000 && text.empty(); i++) {
      text = fault([&] { same = same && get(file, region, kSize) == bytes; });
      reads++;
    }
    other.join();
    CHECK(same);
    CHECK_MESSAGE(says(text, "another process cut it"), text);
  }
}

TEST_CASE("where the kernel refuses io_uring, pread and pwrite do it, and an error of the disk is told") {
  const Folder folder;
  check_child(in_child([&] {
    if (!refuse(SYS_io_uring_setup, EPERM)) return kCannot;
    FileStore file(folder.options());
    if (!says(file.means(), "pread and pwrite (io_uring: Operation not permitted)")) return 1;
    const auto region = file.allocate(Bytes(10'000));
    put(file, region, pattern(10'000, 1));
    if (get(file, region, 10'000) != pattern(10'000, 1)) return 2;
    if (!refuse(SYS_pread64, EIO)) return kCannot;
    auto text = fault([&] { get(file, region, 10'000); });
    if (!says(text, "cannot read the file of rank 0") || !says(text, "Input/output error; the disk failed")) return 3;
    if (!refuse(SYS_pwrite64, EIO)) return kCannot;
    text = fault([&] { put(file, region, pattern(10'000, 1)); });
    return says(text, "cannot write the file of rank 0") ? 0 : 4;
  }));
}

TEST_CASE("where files need names and nothing passes the page cache, a file loses its name at once") {
  const Folder folder;
  check_child(in_child([&] {
    if (!refuse(SYS_openat, EOPNOTSUPP, O_TMPFILE & ~O_DIRECTORY)) return kCannot;
    FileStore named(folder.options());
    if (!fs::is_empty(folder.path)) return 1;
    const auto region = named.allocate(Bytes(5000));
    put(named, region, pattern(5000, 1));
    if (get(named, region, 5000) != pattern(5000, 1)) return 2;
    if (!refuse(SYS_openat, EINVAL, O_DIRECT)) return kCannot;
    FileStore cached(folder.options());
    return says(cached.means(), "through the page cache (O_DIRECT is refused in " + folder.path.string()) ? 0 : 3;
  }));
}

TEST_CASE("a run that is killed while it writes leaves no file behind") {
  const Folder folder;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    FileStore file(folder.options());
    const auto bytes = pattern(32 << 20, 1);
    const auto region = file.allocate(Bytes(32 << 20));
    std::vector<Ticket> under_way;
    for (int i = 0; i < 1000; i++) under_way.push_back(file.write(region, bytes));
    file.wait(under_way.front());
    if (::write(ends[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();  // the lane goes on writing
  }
  char told = 0;
  ::close(ends[1]);
  REQUIRE(::read(ends[0], &told, 1) == 1);
  ::close(ends[0]);
  REQUIRE(::kill(child, SIGKILL) == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("a copy that is under way when its store goes does not outlive it") {
  const Folder folder;
  const auto bytes = pattern(8 << 20, 1);
  for (int i = 0; i < 5; i++) {
    FileStore file(folder.options());
    const auto region = file.allocate(Bytes(8 << 20));
    for (int j = 0; j < 10; j++) file.write(region, bytes);
  }
  CHECK(fs::is_empty(folder.path));
}
