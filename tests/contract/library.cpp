// include/rehearsal.h: what its comments promise. That it says the same bytes as the command line: tests/python.
#include <doctest/doctest.h>
#include <malloc.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "rehearsal.h"

namespace {

using nlohmann::json;

const std::string kTeaching = PROJECT_ROOT "/scenarios/teaching-1f1b-8-stages.yaml";
const std::string kGpt3 = PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml";

struct Answer {
  rehearsal_answer* it;
  explicit Answer(json words, json files = nullptr)
      : it(rehearsal_ask(words.dump().c_str(), files.is_null() ? nullptr : files.dump().c_str())) {}
  ~Answer() { rehearsal_free(it); }
  int status() const { return rehearsal_status(it); }
  std::string out() const { return rehearsal_out(it, nullptr); }
  std::string err() const { return rehearsal_err(it, nullptr); }
};

// What a thread has computed so far.
double seconds_of(pthread_t thread) {
  clockid_t clock{};
  timespec now{};
  if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &now) != 0) return 0;
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

std::size_t in_use() { return mallinfo2().uordblks; }

}  // namespace

TEST_CASE("columns hold what the JSON of the same answer says") {
  const Answer answer({"run", kGpt3, kTeaching, "--format", "json"});
  REQUIRE(answer.status() == 0);
  const auto said = json::parse(answer.out());
  for (int which : {0, 1}) {
    const std::string suffix = which ? ":1" : "";
    std::size_t rows = 0, n = 0;
    char type = 0;
    const auto* end =
        static_cast<const double*>(rehearsal_column(answer.it, ("timeline" + suffix).c_str(), "end_s", &rows, &type));
    REQUIRE(end != nullptr);
    CHECK(type == 'd');
    CHECK(*std::max_element(end, end + rows) ==
          doctest::Approx(said[which]["iteration_s"].get<double>()).epsilon(1e-9));
    const auto* rank =
        static_cast<const std::int32_t*>(rehearsal_column(answer.it, ("ranks" + suffix).c_str(), "rank", &n, &type));
    CHECK(type == 'i');
    REQUIRE(n == said[which]["ranks"].size());
    const auto* busy =
        static_cast<const double*>(rehearsal_column(answer.it, ("ranks" + suffix).c_str(), "busy_s", &n, nullptr));
    for (std::size_t i = 0; i < n; i++) {
      CHECK(rank[i] == said[which]["ranks"][i]["rank"]);
      CHECK(busy[i] == said[which]["ranks"][i]["busy_s"]);
    }
  }
  // The highest sum over categories of a rank's device is its peak.
  std::size_t rows = 0, words = 0;
  const auto* rank = static_cast<const std::int32_t*>(rehearsal_column(answer.it, "memory", "rank", &rows, nullptr));
  const auto* tier = static_cast<const std::uint8_t*>(rehearsal_column(answer.it, "memory", "tier", &rows, nullptr));
  const auto* kind =
      static_cast<const std::uint8_t*>(rehearsal_column(answer.it, "memory", "category", &rows, nullptr));
  const auto* time = static_cast<const double*>(rehearsal_column(answer.it, "memory", "time_s", &rows, nullptr));
  const auto* bytes = static_cast<const double*>(rehearsal_column(answer.it, "memory", "bytes", &rows, nullptr));
  const char* const* tiers = rehearsal_words(answer.it, "memory", "tier", &words);
  REQUIRE(words >= 1);
  double live[256] = {}, peak = 0, sum = 0;
  for (std::size_t i = 0; i < rows && rank[i] == 0; i++) {
    if (std::strcmp(tiers[tier[i]], "device") != 0) continue;
    sum += bytes[i] - live[kind[i]], live[kind[i]] = bytes[i];
    if (i + 1 == rows || time[i + 1] != time[i] || rank[i + 1] != 0) peak = std::max(peak, sum);
  }
  CHECK(peak <= said[0]["ranks"][0]["peak_memory_bytes"]["allocated"].get<double>());
  CHECK(peak >= .9 * said[0]["ranks"][0]["peak_memory_bytes"]["allocated"].get<double>());

  const auto listed = json::parse(rehearsal_tables(answer.it));
  CHECK(listed.size() == 6);
  for (const auto& [table, columns] : listed.items())
    for (const auto& column : columns) {
      std::size_t count = 0;
      char type = 0;
      CHECK(rehearsal_column(answer.it, table.c_str(), column["name"].get<std::string>().c_str(), &count, &type));
      CHECK(std::string(1, type) == column["type"]);
      CHECK((rehearsal_words(answer.it, table.c_str(), column["name"].get<std::string>().c_str(), &count) != nullptr) ==
            column["words"].get<bool>());
    }
  for (const char* wrong : {"", "timeline:2", "timeline:x", "timeline:", "nothing"})
    CHECK(rehearsal_column(answer.it, wrong, "end_s", &rows, nullptr) == nullptr);
  CHECK(rehearsal_column(answer.it, "timeline", "nothing", &rows, nullptr) == nullptr);
}

TEST_CASE("files in memory are read before those of the disk, and files called memory:NAME stay there") {
  const json scenario{{"version", 1},
                      {"name", "in memory"},
                      {"model", {{"use", "my-model.yaml"}}},
                      {"cluster", "dgx-h100"},
                      {"batch", {{"global", 8}, {"micro", 1}, {"sequence", 1024}}}};
  const Answer answer({"run", "a/b.yaml", "--set", "model=llama3-8b", "--format", "json", "--html", "memory:page"},
                      {{"a/b.yaml", scenario}});
  INFO(answer.err());
  REQUIRE(answer.status() == 0);
  CHECK(json::parse(answer.out())["model"]["parameters"] > 8e9);
  std::size_t size = 0;
  const char* page = rehearsal_file(answer.it, "page", &size);
  REQUIRE(page != nullptr);
  CHECK(std::string(page).starts_with("<!doctype html>"));
  CHECK(std::strlen(page) == size);
  CHECK(rehearsal_file(answer.it, "other", nullptr) == nullptr);

  const Answer shadowed({"check", kTeaching}, {{kTeaching, "version: 1\nmodle: x\n"}});
  CHECK(shadowed.status() == 2);
  CHECK(shadowed.err().find("did you mean 'model'?") != std::string::npos);
  const Answer zipped({"run", kTeaching, "--trace", "memory:t.json.gz"});
  CHECK(zipped.status() == 2);
}

TEST_CASE("wrong input is an answer, whatever it is") {
  for (const char* words : {"", "nonsense", "{}", "[1]", "[\"run\", null]", "[\"run\", \"a\\u0000b\"]", "[", "null"}) {
    auto* answer = rehearsal_ask(words, nullptr);
    CHECK(rehearsal_status(answer) == 2);
    CHECK(std::strlen(rehearsal_err(answer, nullptr)) > 0);
    rehearsal_free(answer);
  }
  auto* answer = rehearsal_ask("[\"run\", \"x.yaml\"]", "[]");
  CHECK(rehearsal_status(answer) == 2);
  CHECK(rehearsal_column(answer, "timeline", "end_s", nullptr, nullptr) == nullptr);
  CHECK(std::string(rehearsal_tables(answer)) == "{}");
  rehearsal_free(answer);
  CHECK(rehearsal_status(nullptr) == 3);
  CHECK(std::string(rehearsal_out(nullptr, nullptr)).empty());
  rehearsal_free(nullptr), rehearsal_cancel(nullptr);
  CHECK(Answer(json::array()).status() == 2);
  CHECK(Answer(json{"run", "no-such-file.yaml"}).err() ==
        "no-such-file.yaml: error: cannot be opened: No such file or directory\n");
}

TEST_CASE("a cancelled answer ends with status 130, and a plan with the best so far") {
  const auto words =
      json{"compare", kGpt3, "--vary", "batch.micro=1,2,4,8", "--vary", "schedule=1f1b,gpipe,zb-h1"}.dump();
  auto* early = rehearsal_new(words.c_str(), nullptr);
  CHECK(rehearsal_status(early) == -1);
  rehearsal_cancel(early);
  CHECK(rehearsal_perform(early) == 130);
  CHECK(rehearsal_perform(early) == 130);
  rehearsal_free(early);

  auto* plan = rehearsal_new(
      json{"plan", PROJECT_ROOT "/scenarios/plan/gpt3-175b-1024xa100.yaml", "--format", "json"}.dump().c_str(),
      nullptr);
  std::atomic<int> lines{0};
  rehearsal_progress(
      plan, [](void* count, const char*) { ++*static_cast<std::atomic<int>*>(count); }, &lines);
  std::jthread stopper([&] {
    while (lines == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    rehearsal_cancel(plan);
  });
  const int status = rehearsal_perform(plan);
  stopper.join();
  CHECK((status == 0 || status == 1));
  CHECK(json::parse(rehearsal_out(plan, nullptr)).contains("proven"));
  rehearsal_free(plan);
}

// In what the thread computes, which does not depend on what else the machine does.
TEST_CASE("a long run is cancelled within its one prediction") {
  const auto words = json{"run",      kGpt3,
                          "--set",    "simulate.detail=operator",
                          "--set",    "simulate.symmetry=off",
                          "--set",    "batch.global=128",
                          "--format", "json"}
                         .dump();
  struct Computed {
    double when_cancelled = 0, in_all = 0;
  };
  const auto ask = [&](double cancelled_after, int expected) {
    auto* answer = rehearsal_new(words.c_str(), nullptr);
    std::atomic<bool> ended{false};
    Computed computed;
    {
      std::jthread asks([&] {
        CHECK(rehearsal_perform(answer) == expected);
        computed.in_all = seconds_of(pthread_self());
        ended = true;
      });
      const auto thread = asks.native_handle();
      while (!ended && seconds_of(thread) < cancelled_after) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      computed.when_cancelled = seconds_of(thread);
      rehearsal_cancel(answer);
    }
    rehearsal_free(answer);
    return computed;
  };
  const double whole = ask(1e9, 0).in_all;
  for (const double share : {.1, .5}) {
    CAPTURE(share);
    const auto computed = ask(share * whole, 130);
    CHECK(computed.in_all < computed.when_cancelled + .2 * whole);
    CHECK(computed.in_all < .9 * whole);
  }
}

TEST_CASE("eight threads at once get the answers of one") {
  const std::vector<json> asked{
      {"run", kGpt3, "--format", "json"},
      {"run", kTeaching},
      {"schedule", "zb-h1", "--pipeline", "4", "--microbatches", "8", "--forward", "1ms", "--backward", "1ms",
       "--weight", "1ms"},
      {"collective", "all-reduce", "--ranks", "16", "--cluster", "dgx-h100", "--size", "1MiB"},
      {"list", "models"},
      {"check", kGpt3, "--set", "batch.mirco=1"},
      {"groups", kGpt3},
      {"compare", kTeaching, "--vary", "schedule=1f1b,gpipe", "--format", "csv"}};
  std::vector<std::string> alone;
  for (const auto& words : asked) alone.push_back(Answer(words).out());
  std::atomic<int> different{0};
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 8; t++)
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 16; i++) {
          const auto which = (t + i) % asked.size();
          if (Answer(asked[which]).out() != alone[which]) ++different;
        }
      });
  }
  CHECK(different == 0);
}

TEST_CASE("ten thousand answers leave nothing behind") {
  const json words{"schedule",   "1f1b", "--pipeline", "4",   "--microbatches", "8",   "--forward", "1ms",
                   "--backward", "1ms",  "--weight",   "1ms", "--format",       "json"};
  const json run{"run", kTeaching, "--format", "json"};
  const auto ask = [&](int times) {
    for (int i = 0; i < times; i++) {
      const Answer one(i % 10 == 0 ? run : words);
      std::size_t n = 0;
      if (i % 100 == 0) rehearsal_column(one.it, "timeline", "end_s", &n, nullptr);
    }
  };
  ask(50);  // what is made once: registries
  const auto before = in_use();
  ask(10'000);
  CHECK(in_use() < before + 65'536);
}
