#include "store/claims.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "../../program.hpp"
#include "base/error.hpp"

using namespace rehearsal;
using namespace rehearsal::store;
using namespace std::chrono_literals;
namespace fs = std::filesystem;
using State = Claims::State;

namespace {

struct Folder : Scratch {
  std::string store = (folder / "s/").string();
  fs::path claims = folder / "s" / "claims";
};

// A process of another host, of which only its files are seen.
struct Elsewhere {
  fs::path log, claim;
  explicit Elsewhere(const Folder& folder, const std::string& claimed = "")
      : log(folder.claims / "elsewhere-1-1.log"), claim(folder.claims / claimed) {
    say("worker 1 1 elsewhere");
    if (!claimed.empty()) std::ofstream(claim) << "elsewhere-1-1\n";
  }
  void say(const std::string& line) const { std::ofstream(log, std::ios::app) << line << '\n'; }
};

}  // namespace

TEST_CASE("a batch is claimed by one process, and done once finished, for those that had begun") {
  const Folder folder;
  for (const auto& store : {folder.store, (folder.folder / "s.sqlite").string()}) {
    std::optional<Claims> a(std::in_place, store, "x");
    Claims b(store, "x"), other(store, "y");
    CHECK(a->name() != b.name());
    CHECK(a->take(0) == State::ours);
    CHECK(b.take(0) == State::taken);
    CHECK(other.take(0) == State::ours);
    CHECK(b.take(1) == State::ours);
    a->finish(0);
    CHECK(b.take(0) == State::done);
    CHECK(b.news() == std::vector<std::size_t>{0});
    CHECK(b.news().empty());
    Claims late(store, "x");
    CHECK(late.take(0) == State::ours);  // to look whether its rows are right
    CHECK(late.take(1) == State::taken);
    CHECK(a->take(2) == State::ours);
    a.reset();  // gives up what it has not finished
    CHECK(b.take(2) == State::ours);
    CHECK(b.take(0) == State::done);
  }
  CHECK_FALSE(fs::exists(folder.claims));  // the last one has removed it
  CHECK_FALSE(fs::exists(folder.folder / "s.sqlite-claims"));
}

TEST_CASE("claims end with their process: on this host at once, even before its status is collected") {
  const Folder folder;
  Claims a(folder.store, "x");
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    Claims b(folder.store, "x");
    (void)!write(pipe_ends[1], b.take(2) == State::ours && b.take(3) == State::ours ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  char got = 0;
  REQUIRE(read(pipe_ends[0], &got, 1) == 1);
  CHECK(got == 'y');
  CHECK(a.take(2) == State::taken);
  kill(child, SIGKILL);
  siginfo_t info;
  REQUIRE(waitid(P_PID, id_t(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(a.take(2) == State::inherited);
  waitpid(child, nullptr, 0);
  CHECK(a.take(3) == State::inherited);
}

TEST_CASE("a process of another host works as long as its log grows, whatever its clock says") {
  const Folder folder;
  const auto lease = 200ms;
  {
    Claims a(folder.store, "x", lease);
    const Elsewhere other(folder, "x-4");
    fs::last_write_time(other.log, fs::file_time_type::min());
    CHECK(a.take(4) == State::taken);
    std::this_thread::sleep_for(lease + 50ms);
    other.say("beat");
    CHECK(a.take(4) == State::taken);
    std::this_thread::sleep_for(lease + 50ms);
    CHECK(a.take(4) == State::inherited);
    other.say("done x 5");  // it was only asleep
    CHECK(a.take(5) == State::done);
    // A claim that nobody has signed: somebody was about to.
    std::ofstream(folder.claims / "x-6");
    CHECK(a.take(6) == State::taken);
    std::this_thread::sleep_for(lease + 50ms);
    CHECK(a.take(6) == State::inherited);
  }
  CHECK_FALSE(fs::exists(folder.claims));
}

TEST_CASE("what others are about to write is left for later, and what works is left in place") {
  const Folder folder;
  {
    Claims a(folder.store, "x");
    const Elsewhere other(folder, "x-1");
    std::ofstream(other.log, std::ios::app) << "done x 7";  // no end of the line yet
    CHECK(a.take(7) == State::ours);
    a.finish(7);
  }
  CHECK(fs::exists(folder.claims / "x-1"));
  CHECK(fs::exists(folder.claims / "elsewhere-1-1.log"));
}

TEST_CASE("a whole store has one owner, and others are told which") {
  const Folder folder;
  Claims a(folder.store, "x");
  {
    Claims b(folder.store, "y");
    b.take_all("no locks");
    CHECK_THROWS_WITH_AS(a.take_all("no locks"), doctest::Contains(b.name().c_str()), UserError);
  }
  a.take_all("no locks");
  CHECK_THROWS_AS(Claims((folder.folder / "missing" / "s.sqlite").string(), "x"), UserError);
  CHECK_FALSE(fs::exists(folder.folder / "missing"));
}

TEST_CASE("processes are told apart by their start") {
  auto self = this_worker();
  CHECK_FALSE(is_gone(self));
  self.born++;
  CHECK(is_gone(self));
  self.host = "elsewhere";
  CHECK_FALSE(is_gone(self));
}
