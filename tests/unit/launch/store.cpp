// Ranks as threads and as processes, over TCP and in a folder: the same tests for both stores.
#include "launch/store.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <deque>
#include <filesystem>
#include <functional>
#include <thread>

#include "dispatch/clock.hpp"
#include "launch/secret.hpp"
#include "launch/wire.hpp"

namespace rehearsal {
namespace {

namespace fs = std::filesystem;
using launch::Store;
using launch::StoreAddress;

const Time kPatience = seconds(20);  // on a loaded machine; no case waits for it to end
const Time kShort = seconds(0.3);    // for what never happens

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "rehearse-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  fs::path path;
};

// A socket that listens at a port chosen by the kernel, on the loopback network.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET, where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&where), size) == 0);
    REQUIRE(listen(fd_, 8) == 0);
    REQUIRE(getsockname(fd_, reinterpret_cast<sockaddr*>(&where), &size) == 0);
    port = ntohs(where.sin_port);
  }
  ~Listener() { close(fd_); }
  int descriptor() const { return fd_; }
  std::uint16_t port = 0;

 private:
  int fd_;
};

// A connection to a port of this machine, or -1.
int connected(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET, where.sin_port = htons(port), where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0) return fd;
  close(fd);
  return -1;
}

std::uint16_t free_port() { return Listener().port; }

StoreAddress tcp_address(std::string host = "127.0.0.1", std::string job = "test") {
  return {.folder = {}, .host = std::move(host), .port = free_port(), .ports = 1, .job = std::move(job)};
}
StoreAddress in_folder(const fs::path& folder) { return {.folder = folder, .host = {}, .job = "test"}; }

launch::RankEnvironment member(std::size_t rank, std::size_t size) { return {rank, size, rank, size, "by hand"}; }

std::unique_ptr<Store> opened(const StoreAddress& address, std::size_t rank, std::size_t size,
                              Time patience = kPatience) {
  return open_store(address, member(rank, size), patience);
}

// The error of each rank, or "".
using Work = std::function<void(std::size_t rank)>;
std::vector<std::string> as_threads(std::size_t size, const Work& work) {
  std::vector<std::string> said(size);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (const std::exception& error) {
        said[rank] = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  return said;
}

// The exit status of each rank: 0, or 3 when it threw; a signal counts from 128.
std::vector<int> as_processes(std::size_t size, const Work& work) {
  std::vector<pid_t> children;
  for (std::size_t rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      try {
        work(rank);
      } catch (const std::exception&) {
        _exit(3);
      }
      _exit(0);
    }
    children.push_back(pid);
  }
  std::vector<int> ended;
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    ended.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return ended;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
void pause_for(double s) { dispatch::sleep_until(dispatch::now() + seconds(s)); }

// Runs in every process and thread; throws when something is wrong.
void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

void exchange(const StoreAddress& address, std::size_t rank, std::size_t size) {
  const auto store = opened(address, rank, size);
  for (int round = 0; round < 2; ++round) {
    const auto all = gather_everywhere(*store, "name", fmt::format("rank {} round {}", rank, round));
    require(all.size() == size, "everybody's");
    for (std::size_t r = 0; r < size; ++r) require(all[r] == fmt::format("rank {} round {}", r, round), "in order");
    require(broadcast(*store, "id", rank == 0 ? std::string("\0id", 3) : "ignored") == std::string("\0id", 3), "id");
    barrier(*store, "start");
    const auto at_zero = gather(*store, "result", std::string(rank, 'x'));
    require(at_zero.size() == (rank == 0 ? size : 0), "at rank 0 alone");
    for (std::size_t r = 0; r < at_zero.size(); ++r) require(at_zero[r].size() == r, "in order");
  }
}

}  // namespace

TEST_CASE("ranks gather, broadcast and wait for each other, in any order of arrival") {
  const TemporaryFolder folder;
  const auto none = std::vector<std::string>(4);
  int n = 0;
  for (const StoreAddress& address : {tcp_address(), tcp_address("localhost"), in_folder(folder.path / "a")}) {
    CAPTURE(address.host);
    // Rank 0 comes last.
    CHECK(as_threads(4, [&](std::size_t rank) {
            pause_for(0.05 * static_cast<double>(3 - rank));
            exchange(address, rank, 4);
          }) == none);
    ++n;
  }
  CHECK(n == 3);
  for (const StoreAddress& address : {tcp_address(), in_folder(folder.path / "b")}) {
    CAPTURE(address.host);
    CHECK(as_processes(3, [&](std::size_t rank) {
            pause_for(rank == 0 ? 0.2 : 0);
            exchange(address, rank, 3);
          }) == std::vector<int>(3));
  }
  // Nothing is left of the folders.
  CHECK(fs::is_empty(folder.path / "a"));
  CHECK(fs::is_empty(folder.path / "b"));
}

TEST_CASE("values are bytes of any length, and may be taken away") {
  const TemporaryFolder folder;
  std::string large(3 * Store::kLargestPiece + 17, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2654435761u >> 24);
  const std::string exact = large.substr(0, 2 * Store::kLargestPiece);
  for (const StoreAddress& address : {tcp_address(), in_folder(folder.path)}) {
    CAPTURE(address.host);
    CHECK(as_threads(2, [&](std::size_t rank) {
            const auto store = opened(address, rank, 2);
            const auto all = gather_everywhere(*store, "large", rank == 0 ? large : exact);
            require(all[0] == large && all[1] == exact, "whole");
            if (rank == 1) store->set("a/b c%", ""), store->set("once", "1");
            require(store->get("a/b c%").empty() && store->get("a/b c%").empty(), "twice");
            if (rank == 0) require(store->take("once") == "1", "once");
          }) == std::vector<std::string>(2));
  }
}

TEST_CASE("a rank that never comes is named, with what was waited for") {
  const TemporaryFolder folder;
  for (const StoreAddress& address : {tcp_address(), in_folder(folder.path)}) {
    CAPTURE(address.host);
    const auto said = as_threads(2, [&](std::size_t rank) {  // of four
      const auto store = opened(address, rank, 4, rank == 0 ? kShort : kPatience);
      try {
        gather_everywhere(*store, "digest", "x");
      } catch (const std::exception& error) {
        store->fail(error.what());
        throw;
      }
    });
    CHECK(contains(said[0], "waited 300.000 ms for 'digest' of all ranks; ranks 2, 3 have never come"));
    CHECK(contains(said[1], "rank 0 failed: waited 300.000 ms for 'digest'"));
  }
  const auto late = as_threads(2, [&, address = tcp_address()](std::size_t rank) {
    const auto store = opened(address, rank, 2, rank == 0 ? kShort : kPatience);
    if (rank == 0) gather(*store, "digest", "x");
    store->failed();
    if (rank == 1) pause_for(0.6);
  });
  CHECK(contains(late[0], "'digest' of all ranks; rank 1 has not set it"));
  // Rank 0 never comes.
  const auto alone = as_threads(2, [&, address = tcp_address()](std::size_t rank) {
    if (rank == 1) opened(address, rank, 2, kShort);
  });
  CHECK(contains(alone[1], "rank 1 tried for 300.000 ms to reach rank 0 at 127.0.0.1; "));
  CHECK(contains(alone[1], "refused"));
}

TEST_CASE("a rank that fails is known to all others, in whatever they wait for") {
  const TemporaryFolder folder;
  for (std::size_t culprit : {0u, 2u})
    for (const StoreAddress& address : {tcp_address(), in_folder(folder.path / std::to_string(culprit))}) {
      CAPTURE(address.host);
      CAPTURE(culprit);
      std::atomic<int> polled = 0;
      std::atomic<bool> polls = false;  // rank 1 is past the barrier, where it would learn of the failure too
      const auto said = as_threads(3, [&](std::size_t rank) {
        const auto store = opened(address, rank, 3);
        barrier(*store, "start");
        if (rank == culprit) {
          while (!polls) pause_for(0.001);
          store->fail("out of patience");
          require(!store->failed(), "one's own failure is no news");
          return;
        }
        if (rank == 1) {  // in a loop of its own
          polls = true;
          while (!store->failed()) pause_for(0.01);
          require(store->failed()->rank == culprit, "who");
          require(store->failed()->message == "out of patience", "why");
          ++polled;
        }
        store->get("never");
      });
      CHECK(polled == 1);
      const std::string expected = fmt::format("rank {} failed: out of patience", culprit);
      for (std::size_t rank = 0; rank < 3; ++rank) CHECK(said[rank] == (rank == culprit ? "" : expected));
    }
}

TEST_CASE("over TCP a process that dies is known to the others, rank 0 too") {
  for (std::size_t victim : {0u, 1u}) {
    CAPTURE(victim);
    const auto address = tcp_address();
    const auto ended = as_processes(3, [&](std::size_t rank) {
      const auto store = opened(address, rank, 3);
      try {
        barrier(*store, "start");
        if (rank == victim) raise(SIGKILL);
        store->get("never");
      } catch (const launch::PeerFailed& error) {
        if (contains(error.what(), fmt::format("rank {} failed: its process has ended", victim))) _exit(17);
      }
    });
    for (std::size_t rank = 0; rank < 3; ++rank) CHECK(ended[rank] == (rank == victim ? 128 + SIGKILL : 17));
  }
}

TEST_CASE("data sent to the port by strangers disturbs no rank") {
  const auto address = tcp_address();
  std::atomic<bool> done = false;
  std::thread stranger([&] {
    const std::string garbage[] = {"",
                                   "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                   std::string(100'000, '\xff'),
                                   std::string("\0\0\0\0", 4),                       // an empty message
                                   std::string("\0\0\0\x07\x63\0\0\0\0\0\0", 11),    // no such kind
                                   std::string("\0\0\0\x07\0\0\0\0\0\xff\xff", 11),  // a key longer than the message
                                   std::string("\0\0\0\x07\x02\0\0\0\1\0\0", 11),    // a get before hello
                                   std::string("\0\0\0\x07\0\0\0\0\1\0\0", 11),      // a hello of another program
                                   std::string("\0\0\x0f\xff\0", 5)};                // the beginning of a message
    std::vector<int> open_ones;
    for (int i = 0; !done; ++i) {
      const int fd = connected(address.port);
      if (fd >= 0) {
        const std::string& text = garbage[static_cast<std::size_t>(i) % std::size(garbage)];
        [[maybe_unused]] const auto sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      }
      if (i % 2 == 0 && open_ones.size() < 100)
        open_ones.push_back(fd);  // says no more and stays
      else
        close(fd);
      pause_for(0.001);
    }
    for (const int fd : open_ones) close(fd);
  });
  const auto said = as_threads(3, [&](std::size_t rank) {
    exchange(address, rank, 3);
    if (rank == 0) done = true;
  });
  done = true;
  stranger.join();
  CHECK(said == std::vector<std::string>(3));
}

TEST_CASE("a crowd that stays keeps no rank out") {
  const auto address = tcp_address();
  std::atomic<bool> done = false;
  std::thread crowd([&] {
    std::deque<int> there;
    while (!done) {
      there.push_back(connected(address.port));
      if (there.size() > 400) close(there.front()), there.pop_front();
    }
    for (const int fd : there) close(fd);
  });
  const auto said = as_threads(2, [&](std::size_t rank) {
    if (rank == 1) pause_for(0.3);  // by now there are many
    exchange(address, rank, 2);
    if (rank == 0) done = true;
  });
  done = true;
  crowd.join();
  CHECK(said == std::vector<std::string>(2));
}

TEST_CASE("who does not know the secret of the job is told nothing, and believed nothing") {
  auto address = tcp_address("127.0.0.1", "hidden job");
  address.secret = "of the job";
  std::atomic<bool> tried = false, ready = false;
  std::thread stranger([&] {
    while (!ready) pause_for(0.01);
    for (const char* guess : {"", "of the jo", "of the job "}) {
      auto other = address;
      other.secret = guess;
      const auto why = as_threads(2, [&](std::size_t rank) {
        if (rank == 1) opened(other, 1, 2, kShort);
      })[1];
      CHECK(contains(why, "REHEARSAL_STORE_SECRET differs"));
      CHECK_FALSE(contains(why.substr(why.find("answered")), "hidden job"));
    }
    tried = true;
  });
  const auto said = as_threads(2, [&](std::size_t rank) {
    if (rank == 1)
      while (!tried) pause_for(0.01);
    else
      ready = true;
    exchange(address, rank, 2);
  });
  stranger.join();
  CHECK(said == std::vector<std::string>(2));

  // Rank 1 does not take a server for that of its job which does not know the secret either.
  const Listener imposter;
  std::thread server([&] {
    const int fd = accept(imposter.descriptor(), nullptr, nullptr);
    // A challenge (kind 8), then a welcome (9) with 64 digits that prove nothing.
    const std::string texts[] = {std::string("\0\0\0\x0b\x08\0\0\0\0\0\0abcd", 15),
                                 std::string("\0\0\0\x47\x09\0\0\0\1\0\0", 11) + std::string(64, '0')};
    for (const std::string& text : texts)
      [[maybe_unused]] const auto sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    pause_for(0.5);
    close(fd);
  });
  address.port = imposter.port;
  const auto why = as_threads(2, [&](std::size_t rank) {
    if (rank == 1) opened(address, 1, 2, kShort);
  })[1];
  CHECK(contains(why, "it does not know the secret"));
  server.join();
}

TEST_CASE("an overheard claim of a rank cannot be replayed") {
  // RFC 4231, cases 2 and 6.
  CHECK(launch::proof("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(launch::proof(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  const launch::Introduction met{launch::nonce(), launch::nonce(), 3};
  CHECK(met.of_server != met.of_rank);
  const std::string claim = launch::claim("secret", met, "greeting");
  CHECK(launch::greeting_of(claim, "secret", met) == "greeting");
  CHECK_FALSE(launch::greeting_of(claim, "other", met));
  CHECK_FALSE(launch::greeting_of(claim + " more", "secret", met));
  CHECK_FALSE(launch::greeting_of(claim.substr(0, 63), "secret", met));
  auto again = met;
  again.of_server = launch::nonce();  // another connection
  CHECK_FALSE(launch::greeting_of(claim, "secret", again));
  again = met, again.rank = 2;
  CHECK_FALSE(launch::greeting_of(claim, "secret", again));
}

TEST_CASE("the store listens at the address that it was given, and at no other") {
  const auto address = tcp_address("127.0.0.2");  // Linux has all of 127.0.0.0/8
  std::atomic<bool> tried = false, ready = false;
  std::thread elsewhere([&] {
    while (!ready) pause_for(0.01);
    const int fd = connected(address.port);  // at 127.0.0.1
    CHECK(fd < 0);
    close(fd);
    tried = true;
  });
  const auto said = as_threads(2, [&](std::size_t rank) {
    const auto store = opened(address, rank, 2);
    ready = true;
    while (!tried) pause_for(0.01);
    barrier(*store, "end");
  });
  elsewhere.join();
  CHECK(said == std::vector<std::string>(2));
  // A name of another machine (RFC 5737) is of no use here: rank 0 listens everywhere, and finds itself.
  auto behind = tcp_address("192.0.2.1");
  CHECK_NOTHROW(opened(behind, 0, 1));
}

TEST_CASE("two jobs at one port notice each other") {
  const auto address = tcp_address("127.0.0.1", "first");
  std::atomic<int> ready = 0;
  std::atomic<bool> tried = false;
  std::thread intruders([&] {
    while (ready < 2) pause_for(0.01);
    const auto refusal = [&](const std::string& job, std::size_t size) {
      auto other = address;
      other.job = job;
      return as_threads(2, [&](std::size_t rank) {
        if (rank == 1) opened(other, 1, size, kShort);
      })[1];
    };
    CHECK(contains(refusal("second", 2), "job 'first'; this rank belongs to"));
    CHECK(contains(refusal("first", 3), "another job is here: rehearsal store 2, 2 ranks"));
    CHECK(contains(refusal("first", 2), "rank 1 is here already"));
    tried = true;
  });
  const auto said = as_threads(2, [&](std::size_t rank) {
    const auto store = opened(address, rank, 2);
    ++ready;
    while (!tried) pause_for(0.01);
    barrier(*store, "still alone");
  });
  intruders.join();
  CHECK(said == std::vector<std::string>(2));
}

TEST_CASE("a port that is taken is refused, or the next one serves") {
  const Listener taken;
  auto address = tcp_address();
  address.port = taken.port;
  std::string why;
  try {
    opened(address, 0, 2);
  } catch (const MachineError& error) {
    why = error.what();
  }
  CHECK(contains(why, fmt::format("rank 0 cannot serve at port {}", taken.port)));
  CHECK(contains(why, "another MASTER_PORT"));

  address.ports = 8;  // a stranger that never answers holds the first
  CHECK(as_threads(2, [&](std::size_t rank) { exchange(address, rank, 2); }) == std::vector<std::string>(2));
}

TEST_CASE("a folder that an earlier job has left is refused") {
  const TemporaryFolder folder;
  const auto address = in_folder(folder.path);
  as_threads(2, [&](std::size_t rank) {
    const auto store = opened(address, rank, 2);
    barrier(*store, "start");
    if (rank == 0) store->fail("out of patience");  // so that everything stays
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    std::string why;
    try {
      opened(address, rank, 2);
    } catch (const MachineError& error) {
      why = error.what();
    }
    CHECK(contains(why, fmt::format("rank {} has been in {}", rank, folder.path.string())));
  }
}

}  // namespace rehearsal
