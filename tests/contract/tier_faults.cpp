// Disks that fail during a run: it exits with status 3, names the file and the reason, and leaves no file behind.
#include <fmt/format.h>

#include <fstream>
#include <regex>

#include "../program.hpp"

namespace {

// A training that uses its file continuously until something ends it.
std::string measure(const std::string& folder, const std::string& more = "--iterations 100000") {
  return fmt::format(
      "{} measure {}/scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml --backend loopback --quiet "
      "--tier-directory {} --set parallelism={{}} --set training.optimizer=adamw --set training.recompute=full --set "
      "'training.offload={{optimizer: nvme, gradients: nvme, parameters: nvme, activations: nvme}}' {} 2>&1",
      REHEARSE_BINARY, PROJECT_ROOT, folder, more);
}

Output run_script(const std::string& folder, const char* with, const std::string& text) {
  const std::string script = folder + "/../script.sh";
  std::ofstream(script) << text;
  return shell(fmt::format("timeout 60 {} {} 2>&1", with, script));
}

// What a test does to a run that has a file: `fd` is its descriptor, `pid` the process.
Output disturbed(const std::string& folder, const std::string& what) {
  return run_script(folder, "bash",
                    fmt::format("exec {} & pid=$!\n"
                                "for i in $(seq 400); do\n"
                                "  for fd in /proc/$pid/fd/*; do case $(readlink $fd) in {}/*) break 2;; esac; done\n"
                                "  sleep .02\n"
                                "done\n"
                                "sleep .2\n{}\nwait $pid\n",
                                measure(folder), folder, what));
}

struct Folder : Scratch {
  std::string files = (folder / "files").string();
  Folder() { std::filesystem::create_directory(files); }
  bool empty() const { return !std::filesystem::exists(files) || std::filesystem::is_empty(files); }
};

}  // namespace

TEST_CASE("a directory that is not there") {
  const Folder here;
  const auto run = shell(measure(here.files + "/nowhere"));
  CHECK(run.status == 3);
  CHECK_MESSAGE(contains(run.out, here.files + "/nowhere: No such file or directory"), run.out);
}

TEST_CASE("a disk that is full") {
  const Folder here;
  const auto run = run_script(
      here.files, "unshare -rm sh",
      fmt::format("mount -t tmpfs -o size=256k none {} || exit 99\nexec {}\n", here.files, measure(here.files)));
  if (run.status == 99 || contains(run.out, "unshare:")) {
    MESSAGE("no small disk can be mounted here");
    return;
  }
  CHECK(run.status == 3);
  CHECK_MESSAGE(contains(run.out, "are missing"), run.out);
  CHECK_MESSAGE(contains(run.out, here.files), run.out);
  CHECK(here.empty());
}

TEST_CASE("files that may not grow so long") {
  const Folder here;
  const auto run = shell("ulimit -f 64; " + measure(here.files));
  CHECK(run.status == 3);
  CHECK_MESSAGE(contains(run.out, "ulimit -f"), run.out);
  CHECK(here.empty());
}

TEST_CASE("a directory that vanishes under a run") {
  const Folder here;
  const auto run = disturbed(here.files, "rm -r " + here.files);
  CHECK(run.status == 3);
  CHECK_MESSAGE(contains(run.out, "the directory " + here.files + " vanished"), run.out);
}

TEST_CASE("a truncated file, so that reads end early") {
  const Folder here;
  const auto run = disturbed(here.files, ": > $fd");
  CHECK(run.status == 3);
  CHECK_MESSAGE(contains(run.out, "the file of rank 0 in " + here.files), run.out);
  CHECK(here.empty());
}

TEST_CASE("a run that is killed in the middle of a write") {
  const Folder here;
  CHECK(disturbed(here.files, "kill -9 $pid").status == 137);
  CHECK(here.empty());
}

TEST_CASE("a run that ends leaves nothing either, and says what carried the bytes") {
  const Folder here;
  const auto run = shell(measure(here.files, "--warmup 1 --iterations 2"));
  CHECK(run.status == 0);
  CHECK_MESSAGE(contains(run.out, "of every rank as predicted, to the byte"), run.out);
  const std::regex page_cache("in the page cache at\\s+the end");  // lines are as wide as a terminal
  CHECK_MESSAGE(std::regex_search(run.out, page_cache), run.out);
  CHECK(here.empty());
}
