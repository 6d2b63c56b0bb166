#include "launch/run_folder.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

namespace rehearsal::launch {
namespace {

namespace fs = std::filesystem;

// The folder for temporary files of one case.
struct Temporary {
  Temporary() {
    std::string name = (fs::temp_directory_path() / "run-folder-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
    setenv("TMPDIR", name.c_str(), 1);
  }
  ~Temporary() {
    unsetenv("TMPDIR");
    fs::remove_all(path);
  }
  std::set<fs::path> entries() const { return {fs::directory_iterator(path), fs::directory_iterator()}; }
  fs::path path;
};

// Another process that dies with a folder of its own.
void die_with_a_folder() {
  const pid_t child = fork();
  if (child == 0) {
    const RunFolder folder = RunFolder::make();
    const Board board(folder.board(), 2, true);
    folder.write(1, Leaf::error, "3 out of luck");
    _exit(0);  // no destructor runs
  }
  REQUIRE(waitpid(child, nullptr, 0) == child);
}

}  // namespace

TEST_CASE("a folder is private and goes with its owner") {
  const Temporary temporary;
  {
    const RunFolder folder = RunFolder::make();
    CHECK(folder.path().parent_path() == temporary.path);
    CHECK((fs::status(folder.path()).permissions() & (fs::perms::group_all | fs::perms::others_all)) ==
          fs::perms::none);
    const RunFolder of_a_rank(folder.path());  // does not own it
  }
  CHECK(temporary.entries().empty());
}

TEST_CASE("the folder of a parent that was killed goes with the next run, that of a living one stays") {
  const Temporary temporary;
  die_with_a_folder();
  CHECK(temporary.entries().size() == 1);
  const RunFolder living = RunFolder::make();
  CHECK(temporary.entries() == std::set<fs::path>{living.path()});
  die_with_a_folder();
  const RunFolder another = RunFolder::make();
  CHECK(temporary.entries() == std::set<fs::path>{living.path(), another.path()});
  living.write(0, Leaf::result, "still there");
  CHECK(living.read(0, Leaf::result) == "still there");
}

TEST_CASE("what only looks like a folder of a run is left alone") {
  const Temporary temporary;
  fs::create_directory(temporary.path / "rehearse-notes1");  // never locked
  std::ofstream(temporary.path / "rehearse-file01") << "no folder";
  fs::create_directory(temporary.path / "elsewhere");
  std::ofstream(temporary.path / "elsewhere/parent") << "";
  fs::create_directory_symlink("elsewhere", temporary.path / "rehearse-link01");
  const auto before = temporary.entries();
  { const RunFolder folder = RunFolder::make(); }
  CHECK(temporary.entries() == before);
  CHECK(fs::exists(temporary.path / "elsewhere/parent"));
}

}  // namespace rehearsal::launch
