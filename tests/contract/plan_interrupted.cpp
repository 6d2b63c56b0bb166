// Ctrl-C on `rehearse plan`, with a real signal: the search ends with the best result so far and its distance from the
// optimum.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "../rehearse.hpp"

namespace {

constexpr const char* kLarge = PROJECT_ROOT "/scenarios/plan/gpt-1t-3072xa100.yaml";  // takes a minute

// Starts a search and interrupts it after a while; `twice`: interrupts it again.
Run interrupted(std::chrono::milliseconds after, bool twice = false) {
  static Scratch scratch;
  const auto out = (scratch.folder / "out").string(), err = (scratch.folder / "err").string();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGINT, SIG_DFL);  // the parent may ignore it
    for (const auto& [path, descriptor] : {std::pair{out, STDOUT_FILENO}, {err, STDERR_FILENO}})
      dup2(open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), descriptor);
    execl(REHEARSE_BINARY, "rehearse", "plan", kLarge, "--format", "json", "--jobs", "2", nullptr);
    _exit(127);
  }
  std::this_thread::sleep_for(after);
  kill(child, SIGINT);
  int status = 0;
  // Two pending signals of a kind merge into one, so repeat until the process ends.
  while (twice && waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    kill(child, SIGINT);
  }
  if (!twice) REQUIRE(waitpid(child, &status, 0) == child);
  return {{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(out)}, read(err)};
}

}  // namespace

TEST_CASE("an interrupted search says what it knows") {
  for (const int after : {200, 2000}) {
    CAPTURE(after);
    const auto run = interrupted(std::chrono::milliseconds(after));
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    const auto plan = nlohmann::json::parse(run.out);
    CHECK_FALSE(plan["proven"].get<bool>());
    CHECK(plan["gap"].get<double>() > 0);
    CHECK(plan["gap"].get<double>() <= 1);
    CHECK(plan["best"]["iteration_s"].get<double>() > 0);
    CHECK(plan["best"]["fits"].get<bool>());
  }
}

TEST_CASE("interrupted while the best are compared, the search is proven all the same") {
  static Scratch scratch;
  const auto out = (scratch.folder / "out").string(), err = (scratch.folder / "err").string();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGINT, SIG_DFL);
    for (const auto& [path, descriptor] : {std::pair{out, STDOUT_FILENO}, {err, STDERR_FILENO}})
      dup2(open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), descriptor);
    execl(REHEARSE_BINARY, "rehearse", "plan", PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml", "--set",
          "plan={tensor: [1, 2, 4, 8], context: 1, micro: [1, 2], schedules: [1f1b, zb-h1]}", "--format", "json",
          "--progress", "json", nullptr);
    _exit(127);
  }
  // Progress is said once a second, and comparing takes a few.
  int status = 0;
  bool ended = false;
  while (read(err).find("comparing the best") == std::string::npos && !ended) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ended = waitpid(child, &status, WNOHANG) == child;
  }
  if (ended) return;  // too quick to be interrupted
  kill(child, SIGINT);
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  const auto plan = nlohmann::json::parse(read(out));
  CHECK(plan["proven"].get<bool>());
  CHECK(plan["best"]["iteration_s"].get<double>() > 0);
  CHECK((plan.contains("ties_stopped") || !plan["ties"].empty()));
}

TEST_CASE("a second Ctrl-C ends the program") {
  CHECK(interrupted(std::chrono::milliseconds(500), true).status == 128 + SIGINT);
}
