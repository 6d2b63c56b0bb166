// Ranks as threads, around a star and in a folder: the same tests for both.
#include "launch/bootstrap.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <thread>

#include "dispatch/clock.hpp"
#include "launch/shared_folder.hpp"
#include "launch/star.hpp"
#include "variables.hpp"

namespace rehearsal {
namespace {

namespace fs = std::filesystem;
using launch::Bootstrap;

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

launch::RankEnvironment member(std::size_t rank, std::size_t size) {
  return {rank, size, rank, size, "by hand", "test"};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
void pause_for(double s) { dispatch::sleep_until(dispatch::now() + seconds(s)); }

// Runs in every thread; throws when something is wrong.
void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

// The error of each rank, or "".
using Open = std::function<std::unique_ptr<Bootstrap>(std::size_t rank)>;
using Work = std::function<void(Bootstrap& all)>;
std::vector<std::string> as_threads(std::size_t ranks, const Open& open, const Work& work) {
  std::vector<std::string> said(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        work(*open(rank));
      } catch (const std::exception& error) {
        said[rank] = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  return said;
}

std::vector<std::string> in_folder(const fs::path& folder, std::size_t ranks, const Work& work,
                                   const std::function<Time(std::size_t rank)>& patience = {}) {
  const auto open = [&](std::size_t rank) {
    return open_shared_folder(folder, member(rank, 4), patience ? patience(rank) : kPatience);
  };
  return as_threads(ranks, open, work);
}

// The test is the parent, which relays until all ranks have ended or `until` becomes true.
std::vector<std::string> around_star(std::size_t ranks, const Work& work, const std::atomic<bool>& until = false) {
  auto star = std::make_unique<launch::Star>(ranks);
  std::atomic<bool> done = false;
  std::thread parent([&] {
    while (!done && !until) {
      auto events = star->events();
      poll(events.data(), events.size(), 5);
      star->relay();
    }
    if (until) star.reset();
  });
  const auto open = [&](std::size_t rank) {
    return launch::join_star(fcntl(star->end_of(rank), F_DUPFD_CLOEXEC, 0), member(rank, ranks));
  };
  const auto said = as_threads(ranks, open, work);
  done = true;
  parent.join();
  return said;
}

void exchange(Bootstrap& all) {
  const std::size_t size = all.size();
  for (int round = 0; round < 2; ++round) {
    const auto texts = all.gather_everywhere("name", fmt::format("rank {} round {}", all.rank(), round));
    require(texts.size() == size, "of all");
    for (std::size_t r = 0; r < size; ++r) require(texts[r] == fmt::format("rank {} round {}", r, round), "in order");
    const std::string id("\0id", 3);
    require(all.broadcast("id", all.rank() == 0 ? id : "ignored") == id, "id");
    all.barrier("start");
    const auto at_zero = all.gather("result", std::string(all.rank(), 'x'));
    require(at_zero.size() == (all.rank() == 0 ? size : 0), "at rank 0 alone");
    for (std::size_t r = 0; r < at_zero.size(); ++r) require(at_zero[r].size() == r, "in order");
  }
}

}  // namespace

TEST_CASE("ranks gather, broadcast and wait for each other, in any order of arrival") {
  const TemporaryFolder folder;
  const std::vector<std::string> none(4);
  const auto rank_0_last = [](Bootstrap& all) {
    pause_for(0.05 * static_cast<double>(3 - all.rank()));
    exchange(all);
  };
  CHECK(around_star(4, rank_0_last) == none);
  CHECK(in_folder(folder.path, 4, rank_0_last) == none);
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("texts have any length") {
  const TemporaryFolder folder;
  std::string large(1'000'017, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2654435761u >> 24);
  const auto work = [&](Bootstrap& all) {
    const auto texts = all.gather_everywhere("large", all.rank() == 0 ? large : large.substr(all.rank()));
    for (std::size_t r = 0; r < 4; ++r) require(texts[r] == large.substr(r), "whole");
  };
  CHECK(around_star(4, work) == std::vector<std::string>(4));
  CHECK(in_folder(folder.path, 4, work) == std::vector<std::string>(4));
}

TEST_CASE("a rank that never comes to the folder is named, with what was waited for") {
  const TemporaryFolder folder;
  const auto zero_is_short = [](std::size_t rank) { return rank == 0 ? kShort : kPatience; };
  const auto work = [](Bootstrap& all) {
    try {
      all.gather_everywhere("digest", "x");
    } catch (const std::exception& error) {
      all.fail(error.what());
      throw;
    }
  };
  const auto said = in_folder(folder.path / "a", 2, work, zero_is_short);  // two of four
  CHECK(contains(said[0], "waited 300.000 ms for 'digest' of other ranks; ranks 2, 3 have never come"));
  CHECK(contains(said[1], "rank 0 failed: waited 300.000 ms for 'digest'"));
  const auto late = in_folder(
      folder.path / "b", 4,
      [](Bootstrap& all) {
        if (all.rank() == 1) return pause_for(0.6);
        all.gather("digest", "x");
      },
      zero_is_short);
  CHECK(contains(late[0], "rank 1 has not written it"));
}

TEST_CASE("a rank that fails is known to all others of the folder, in whatever they wait for") {
  for (std::size_t culprit : {0u, 2u}) {
    CAPTURE(culprit);
    const TemporaryFolder folder;
    std::atomic<bool> polls = false;  // rank 1 is past the barrier, where it would learn of the failure too
    const auto said = in_folder(folder.path, 4, [&](Bootstrap& all) {
      all.barrier("start");
      if (all.rank() == culprit) {
        while (!polls) pause_for(0.001);
        all.fail("out of patience");
        pause_for(0.1);
        return all.throw_if_failed();  // one's own failure is no news
      }
      if (all.rank() == 1) polls = true;
      while (all.rank() == 1) all.throw_if_failed(), pause_for(0.01);
      all.gather_everywhere("never", "");
    });
    for (std::size_t rank = 0; rank < 4; ++rank)
      CHECK(said[rank] == (rank == culprit ? "" : fmt::format("rank {} failed: out of patience", culprit)));
  }
}

TEST_CASE("a folder that an earlier job has left is refused") {
  const TemporaryFolder folder;
  in_folder(folder.path, 4, [](Bootstrap& all) {
    all.barrier("start");
    if (all.rank() == 0) all.fail("out of patience");  // so that everything stays
  });
  for (const std::string& why : in_folder(folder.path, 4, exchange))
    CHECK(contains(why, fmt::format("has been in {}", (folder.path / "rehearse-test").string())));
}

TEST_CASE("ranks around a star wait for one that leaves until their parent ends") {
  std::atomic<bool> until = false;
  std::atomic<int> waiting = 0;
  const auto said = around_star(
      3,
      [&](Bootstrap& all) {
        all.barrier("start");
        if (all.rank() != 1) return ++waiting, all.barrier("never");
        while (waiting < 2) pause_for(0.001);
        pause_for(0.05);
        until = true;
      },
      until);
  for (std::size_t rank : {0, 2}) CHECK(said[rank] == "the process that started this rank has ended");
}

TEST_CASE("ranks that no parent started say where they meet, or are told what to set") {
  const TemporaryFolder folder;
  const auto refusal = [](const std::string& launcher, std::map<std::string, std::string> settings) {
    return user_error([&] { launch::open_bootstrap({0, 2, 0, 2, launcher, launcher + "-7"}, variables(settings)); });
  };
  CHECK(
      contains(refusal("torchrun", {}), "ranks started by torchrun meet in a folder: set REHEARSAL_RENDEZVOUS=/path"));
  CHECK(contains(refusal("by hand", {}), "ranks started by hand meet in a folder"));
  CHECK(contains(refusal("by hand", {{"REHEARSAL_RENDEZVOUS", "a/b"}}), "'a/b'; it must be an absolute path"));
  // Here is no MPI module (librehearsal_mpi.so beside the program).
  for (const char* launcher : {"mpirun", "srun"}) {
    const std::string why = refusal(launcher, {});
    CHECK(contains(why, fmt::format("ranks started by {} cannot meet through MPI: librehearsal_mpi.so", launcher)));
    CHECK(contains(why, "or set REHEARSAL_RENDEZVOUS=/path"));
  }
  CHECK_NOTHROW(launch::open_bootstrap({0, 1, 0, 1, "srun", "srun-7"},
                                       variables({{"REHEARSAL_RENDEZVOUS", (folder.path / "new").string()}})));
  CHECK(fs::is_empty(folder.path / "new"));
}

}  // namespace rehearsal
