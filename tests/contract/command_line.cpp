// The program as users see it: exit status, standard error, JSON, files. Runs the built binary in a shell.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../rehearse.hpp"

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const std::string kSmall = "--pipeline 4 --microbatches 8 --forward 5ms --backward 5ms --weight 5ms ";

}  // namespace

TEST_CASE("help and version go to standard output and succeed") {
  for (const char* line : {"--help", "--version", "schedule --help", "list --help", "schedule 1f1b --bogus --help"}) {
    CAPTURE(line);
    const auto run = rehearse(line);
    CHECK(run.status == 0);
    CHECK(run.err.empty());
    CHECK_FALSE(run.out.empty());
  }
  CHECK(rehearse("--version").out.starts_with("rehearse "));
  const auto help = rehearse("--help").out;
  for (const char* command : {"schedule", "list"}) {
    CAPTURE(command);
    CHECK(contains(help, std::string("\n  ") + command + " "));
    CHECK(contains(rehearse(std::string(command) + " --help").out, "Example:\n  rehearse " + std::string(command)));
  }
  CHECK(contains(rehearse("schedule --help").out, "1f1b"));
}

TEST_CASE("every example of the help texts runs") {
  for (const char* command : {"--help", "schedule --help", "list --help"}) {
    const auto help = rehearse(command).out;
    auto example = help.substr(help.find("Example:\n") + 9);
    for (std::size_t at; (at = example.find("\\\n")) != std::string::npos;) example.erase(at, 2);
    CAPTURE(example);
    const std::string prefix = "  rehearse ";
    REQUIRE(example.starts_with(prefix));
    const auto run = rehearse(example.substr(prefix.size(), example.find('\n') - prefix.size()));
    CHECK(run.status == 0);
    CHECK(run.err.empty());
  }
}

TEST_CASE("a misspelled name is answered with the nearest one") {
  const auto check = [](const std::string& line, const std::string& hint) {
    CAPTURE(line);
    const auto run = rehearse(line);
    CHECK(run.status == 2);
    CHECK(run.out.empty());
    CHECK(run.err.starts_with("rehearse: error: "));
    CHECK_MESSAGE(contains(run.err, hint), run.err);
  };
  check("", "--help");
  check("shedule", "did you mean 'schedule'?");
  check("--versoin", "did you mean '--version'?");
  check("schedule", "name of a schedule");
  check("schedule 1f2b " + kSmall, "did you mean '1f1b'?");
  check("schedule 1f1b --micro 3", "unknown option '--micro' for 'rehearse schedule'; did you mean '--microbatches'?");
  check("schedule 1f1b --bogus=3", "unknown option '--bogus'");
  check("schedule 1f1b -z", "unknown option '-z'");
  check("schedule 1f1b gpipe --format csv " + kSmall, "writes the order of one schedule");
  check("schedule 1f1b " + kSmall + "--format xml", "text, json, csv");
  check("schedule 1f1b " + kSmall + "--set a=b", "--set");
  check("schedule 1f1b " + kSmall + "--chunks", "--chunks needs a value");
  check("schedule 1f1b " + kSmall + "--pipeline 3", "--pipeline is given more than once");
  check("list", "schedules");
  check("list gpuz", "schedules");
}

TEST_CASE("bad numbers of a schedule are refused by name") {
  const auto check = [](const std::string& options, const std::string& hint) {
    CAPTURE(options);
    const auto run = rehearse("schedule 1f1b " + options);
    CHECK(run.status == 2);
    CHECK(run.out.empty());
    CHECK_MESSAGE(contains(run.err, hint), run.err);
  };
  const std::string size = "--pipeline 4 --microbatches 8 ", times = "--forward 5ms --backward 5ms ";
  check(size + "--forward 5ms", "missing --backward");
  check(times, "missing --pipeline, --microbatches");
  for (const char* number : {"0", "-1", "1.5", "four", "99999999999999999999999", "0x4", "nan", "1e3", "''"}) {
    check("--microbatches 8 --pipeline " + std::string(number) + " " + times, "--pipeline");
    check("--pipeline 4 --microbatches " + std::string(number) + " " + times, "--microbatches");
  }
  for (const char* time : {"5", "-5ms", "nan", "inf", "1e400ms", "1e30s", "5mz", "ms", "0", "''", "5ms,", "5ms,5ms",
                           "5ms,5ms,5ms,5ms,5ms", "1e-20ps"})
    check(size + "--backward 5ms --forward " + time, "--forward");
  check(size + times + "--transfer -1us", "--transfer");
  check(size + times + "--activation nan", "--activation");
  check(size + times + "--activation -1", "--activation");
  check(size + times + "--activation 1,2", "one per rank");
  check(size + times + "--memory-limit 0", "--memory-limit");
  check(size + times + "--memory-limit 1,2,3,4", "--memory-limit");
  check(size + times + "--chunks 0", "--chunks");
  check("--pipeline 65535 --microbatches 4000000000 " + times, "more than the 1073741824 that can be held");
  check("--pipeline 60000 --chunks 60000 --microbatches 1 " + times, "stages");
  check(size + "--forward 1000h --backward 1000h", "100 days");
}

TEST_CASE("JSON of 1F1B: hand-solved") {
  // p = 4, m = 8, F = I = W = 5 ms: cost = (m + p - 1)(F + I + W) = 11 * 15 = 165 ms; busy 8 * 15 = 120; bubble 3/11.
  // Rank r holds p - r micro-batches. 2 actions for each of 4 * 8 pairs. The bound is the work of a rank.
  const auto run = rehearse("schedule 1f1b " + kSmall + "--format json");
  REQUIRE(run.status == 0);
  CHECK(run.err.empty());
  const auto j = json::parse(run.out);
  CHECK(j["schedule"] == "1f1b");
  CHECK(j["pipeline"] == 4);
  CHECK(j["microbatches"] == 8);
  CHECK(j["chunks"] == 1);
  CHECK(j["cost_s"] == 0.165);
  CHECK(j["makespan_s"] == 0.165);
  CHECK(j["bubble_rate"].get<double>() == doctest::Approx(3.0 / 11));
  CHECK(j["busy_s"] == json{0.12, 0.12, 0.12, 0.12});
  CHECK(j["in_flight_FW"] == json{4, 3, 2, 1});
  CHECK(j["in_flight_FB"] == json{4, 3, 2, 1});
  CHECK(j["peak_memory"].dump() == "[4,3,2,1]");
  CHECK(j["actions"] == 64);
  CHECK(j["optimal"].is_null());
  CHECK(j["lower_bound_s"] == 0.12);
  CHECK(j["order"][3] == "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3F4,3B4,3F5,3B5,3F6,3B6,3F7,3B7");

  // The same order as CSV, and the digest over it.
  const auto csv = rehearse("schedule 1f1b " + kSmall + "--format csv");
  std::string joined;
  for (const auto& rank : j["order"]) joined += rank.get<std::string>() + "\n";
  CHECK(csv.out == joined);
  const auto digest = rehearse("schedule 1f1b " + kSmall + "--format csv | head -c -1 | sha256sum; true");
  CHECK(digest.out.starts_with(j["sha256"].get<std::string>()));
}

TEST_CASE("lists give one time per stage and one amount per rank") {
  // Rank 1 is twice as slow and holds 3 units of memory per forward: busy 8 * 30, peak 1 * 3 (the last of two ranks).
  const auto run = rehearse(
      "schedule 1f1b --pipeline 2 --microbatches 8 --forward 5ms,10ms --backward 5ms,10ms --weight 5ms,10ms "
      "--activation 2,3 --format json");
  REQUIRE(run.status == 0);
  const auto j = json::parse(run.out);
  CHECK(j["busy_s"] == json{0.12, 0.24});
  CHECK(j["peak_memory"] == json{4, 3});
}

TEST_CASE("two directions: one chunk and two mean the same, and one copy's times are both copies'") {
  const std::string sizes = "--pipeline 4 --microbatches 8 --backward 10ms --weight 10ms --format json ";
  const auto one = rehearse("schedule chimera --chunks 1 --forward 10ms,20ms,30ms,40ms " + sizes);
  CHECK(one.status == 0);
  CHECK(json::parse(one.out)["chunks"] == 2);
  const auto both = rehearse("schedule chimera --forward 10ms,20ms,30ms,40ms,10ms,20ms,30ms,40ms " + sizes);
  CHECK(one.out == both.out);
  CHECK(rehearse("schedule chimera --chunks 3 --forward 10ms " + sizes).status == 2);
  CHECK(rehearse("schedule chimera --forward 10ms,20ms,30ms " + sizes).status == 2);
}

TEST_CASE("the order is left out when it is long, unless asked for; the digest never") {
  const std::string large = "schedule 1f1b --pipeline 8 --microbatches 7000 --forward 5ms --backward 5ms --format json";
  const auto without = json::parse(rehearse(large).out), with = json::parse(rehearse(large + " --order").out);
  CHECK(without["actions"] == 112000);
  CHECK_FALSE(without.contains("order"));
  CHECK(with["order"].size() == 8);
  CHECK(with["sha256"] == without["sha256"]);  // computed in two ways: from the stored order and from a stream
  CHECK(without["sha256"].get<std::string>().size() == 64);
}

TEST_CASE("text: the picture fits the line, colour only when asked") {
  const std::string wide = "schedule 1f1b --pipeline 40 --microbatches 400 --forward 5ms --backward 7ms ";
  for (const std::size_t columns : {80, 160}) {
    const auto run = rehearse(wide, columns == 80 ? "" : "COLUMNS=160");
    CHECK(contains(run.out, "... 9 more ranks ..."));
    std::istringstream in(run.out);
    std::size_t widest = 0;
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("rank ") && contains(line, "~")) widest = std::max(widest, line.size());
    CHECK(widest == columns);
    CHECK_FALSE(contains(run.out, "\x1b["));
  }
  CHECK(contains(rehearse("schedule 1f1b " + kSmall + "--color always").out, "\x1b["));
  CHECK(contains(rehearse("schedule 1f1b " + kSmall).out, "rank 3  ......F0B0--F1B1--"));
  const auto large = rehearse("schedule gpipe --pipeline 64 --microbatches 2000 --forward 5ms --backward 5ms");
  CHECK(contains(large.out, "no picture: 256,000 actions"));
}

TEST_CASE("an order goes out as CSV, comes back in, and is drawn") {
  Scratch scratch;
  const std::string file = (scratch.folder / "mine.csv").string(), svg = (scratch.folder / "mine.svg").string();
  const std::string times = "--forward 5ms --backward 5ms --weight 5ms --format json";
  CHECK(rehearse("schedule zb-h1 " + kSmall + "--format csv --output '" + file + "'").status == 0);
  auto back = json::parse(rehearse("schedule --import '" + file + "' --svg '" + svg + "' " + times).out);
  auto before = json::parse(rehearse("schedule zb-h1 " + kSmall + "--format json").out);
  CHECK(back["schedule"] == "mine");
  back.erase("schedule"), before.erase("schedule");
  CHECK(back == before);
  CHECK(read(svg).starts_with("<svg "));
  CHECK(json::parse(rehearse("schedule label --import '" + file + "' " + times).out)["schedule"] == "label");
  CHECK(contains(rehearse("schedule zb-h1 " + kSmall + "--format csv --comms").out, "0F0,0SEND_F0,"));

  std::ofstream(file) << "0F0,0B0\n1B0,1F0\n";
  const auto bad = rehearse("schedule --import '" + file + "' --svg '" + svg + ".2' " + times);
  CHECK(bad.status == 2);
  CHECK(contains(bad.err, "mine.csv:2:1: error: rank 1, cell 0 (1B0): comes before 1F0"));
  CHECK_FALSE(fs::exists(svg + ".2"));
  CHECK(rehearse("schedule 1f1b " + kSmall + "--comms").status == 2);
  CHECK(rehearse("schedule 1f1b " + kSmall + "--pieces 2").status == 2);
}

TEST_CASE("a report goes to a file whole or not at all") {
  Scratch scratch;
  const fs::path folder = scratch.folder / "out";
  fs::create_directories(folder);
  const std::string file = (folder / "r.json").string();
  const auto run = rehearse("schedule 1f1b " + kSmall + "--format json --output '" + file + "'");
  CHECK(run.status == 0);
  CHECK(run.out.empty());
  CHECK(json::parse(read(file))["actions"] == 64);

  // A failing command leaves the old file unchanged, and no other file beside it.
  CHECK(rehearse("schedule 1f1b --pipeline 0 --output '" + file + "'").status == 2);
  CHECK(json::parse(read(file))["actions"] == 64);
  // Writing through a symbolic link changes its target.
  fs::create_symlink(file, folder / "link");
  CHECK(rehearse("schedule gpipe " + kSmall + "--format json --output '" + (folder / "link").string() + "'").status ==
        0);
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(json::parse(read(file))["schedule"] == "gpipe");
  // .gz compresses.
  CHECK(rehearse("list schedules --output '" + (folder / "l.gz").string() + "'").status == 0);
  CHECK(read(folder / "l.gz").starts_with("\x1f\x8b"));
  CHECK(std::distance(fs::directory_iterator(folder), {}) == 3);

  for (const auto& bad : {(folder / "missing" / "x").string(), folder.string()}) {
    const auto refused = rehearse("schedule 1f1b " + kSmall + "--output '" + bad + "'");
    CHECK(refused.status == 2);
    CHECK_MESSAGE(contains(refused.err, "cannot write"), refused.err);
  }
  // A device is written, not replaced; a full one is an error of the machine.
  CHECK(rehearse("list schedules --output /dev/null").status == 0);
  CHECK(fs::is_character_file("/dev/null"));
  CHECK(rehearse("list schedules --output /dev/full").status == 3);
  CHECK(rehearse("list schedules >/dev/full").status == 3);
}

TEST_CASE("a reader that goes away is no error") {
  // The order is much larger than a pipe's buffer, so the writer meets the closed pipe.
  const auto run = shell("{ '" REHEARSE_BINARY
                         "' schedule gpipe --pipeline 8 --microbatches 20000 --forward 5ms "
                         "--backward 5ms --format csv 2>&3; echo status $? >&3; } 3>&1 >/dev/null | cat");
  CHECK(run.out == "status 0\n");  // the control: the pipe is not closed
  const auto closed = shell("{ { '" REHEARSE_BINARY
                            "' schedule gpipe --pipeline 8 --microbatches 20000 --forward 5ms "
                            "--backward 5ms --format csv 2>&3; echo status $? >&3; } | head -c 5 >/dev/null; } 3>&1");
  CHECK(closed.out == "status 0\n");
}

TEST_CASE("list schedules") {
  const auto all = json::parse(rehearse("list schedules --format json").out);
  REQUIRE(all.size() >= 2);
  for (const auto& s : all) {
    CHECK_FALSE(s["name"].get<std::string>().empty());
    CHECK(s["summary"].get<std::string>().ends_with("."));
  }
  CHECK(rehearse("list schedules --format csv").out.starts_with("name,summary,source\n1f1b,"));
  CHECK(contains(rehearse("list schedules").out, "1f1b "));
  CHECK(contains(rehearse("list models").out, "mixtral-8x7b     46.7 B, 12.9 B active; 32 x 4096  "));
  CHECK(contains(rehearse("list models --format csv").out, ",46702792704,12879925248\n"));
  for (const auto& model : json::parse(rehearse("list models --format json").out))
    CHECK(model["active_parameters"] <= model["parameters"]);
}

TEST_CASE("the numbers of a GPU and of a cluster, each with its source") {
  const auto gpu = json::parse(rehearse("list gpus a100-80g-sxm --format json").out);
  std::map<std::string, json> by_key;
  for (const auto& c : gpu) by_key[c["key"]] = c;
  CHECK(by_key.at("peak.bf16")["value"] == 312);
  CHECK(by_key.at("peak.bf16")["unit"] == "TFLOP/s");
  CHECK(by_key.at("sms")["value"] == 108);
  CHECK(by_key.at("sms")["unit"] == "");
  CHECK(by_key.at("sustained_clock")["assumed"] == false);
  for (const auto& c : json::parse(rehearse("list gpus assumed-cpu --format json").out))
    if (c["key"] == "framework") CHECK(c["value"] == "native");  // a choice, not a number
  CHECK(by_key.count("summary") == 0);
  for (const auto& c : gpu)
    if (c["value"].is_number()) CHECK_MESSAGE(c["source"].get<std::string>().size() > 3, c["key"]);
  const auto cluster = rehearse("list clusters dgx-h100").out;
  CHECK(contains(cluster, "links.scale_up.bandwidth"));
  CHECK(contains(cluster, "450GB/s"));
  CHECK(contains(cluster, "assumed: measured on A100 only"));
  std::istringstream lines(cluster);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 80, line);
  CHECK(rehearse("list clusters dgx-h100 --format csv")
            .out.starts_with("key,value,source,assumed\ngpu,h100-80g-sxm,,no\n"));
  const auto wrong = rehearse("list gpus a100-80g");
  CHECK(wrong.status == 2);
  CHECK(contains(wrong.err, "a100-80g-sxm"));
}

TEST_CASE("one entry of any kind, by its name alone where one kind has it") {
  for (const char* kind : {"schedules", "collectives", "topologies", "models", "clusters", "gpus", "interconnects",
                           "libraries", "frameworks", "backends"}) {
    const auto all = json::parse(rehearse(std::string("list ") + kind + " --format json").out);
    REQUIRE_FALSE(all.empty());
    const auto name = all[0]["name"].get<std::string>();
    CAPTURE(kind);
    const auto one = rehearse("list " + std::string(kind) + " " + name);
    CHECK(one.status == 0);
    CHECK(one.out.size() > name.size() + 20);
    const auto alone = rehearse("list " + name);
    if (alone.status == 0)
      CHECK(alone.out == one.out);
    else
      CHECK_MESSAGE(contains(alone.err, std::string("rehearse list ")), alone.err);
  }
  CHECK(contains(rehearse("list zb-h1").out, "splits the backward"));
  CHECK(json::parse(rehearse("list dualpipe --format json").out)["facts"]["splits the backward"] == "yes");
  CHECK(contains(rehearse("list schedules 1f2b").err, "did you mean '1f1b'?"));
  CHECK(rehearse("list no-such-thing").status == 2);
  CHECK(rehearse("list schedules 1f1b gpipe").status == 2);
}

TEST_CASE("a batch answers line by line") {
  Scratch scratch;
  const auto cases = scratch.folder / "cases.jsonl";
  std::ofstream(cases)
      << R"({"id":"a","schedule":"1f1b","pipeline":4,"microbatches":8,"forward":5,"backward":5,"weight":5,)"
         R"("transfer":null,"memory_limit":null,"overlapped":null,"pieces":null,"time_limit":1000})"
      << "\n{\"id\":2,\"schedule\":\"1f1b\",\"pipelin\":4}\n"
      << "not json\n\n[1]\n"
      << R"({"id":3,"schedule":"1f1b","pipeline":2,"pipeline":3,"microbatches":8,"forward":5,"backward":5})"
      << "\n"
      << R"({"id":4,"schedule":"1f1b","pipeline":"2","microbatches":8,"forward":5,"backward":5})"
      << "\n"
      << R"({"id":5,"schedule":"1f1b","pipeline":2,"microbatches":8,"forward":true,"backward":5})"
      << "\n"
      << R"({"id":6,"schedule":"1f1b","pipeline":2,"microbatches":8,"forward":-5,"backward":5})"
      << "\n"
      << R"({"id":7,"schedule":"1f1b","pipeline":2,"microbatches":8,"forward":["5ms",10],"backward":0.5,)"
         R"("activation":[2,3],"weight_hold":1})";  // no newline at the end
  const auto run = rehearse("schedule --batch '" + cases.string() + "'");
  CHECK(run.status == 0);
  CHECK(run.err.empty());
  std::vector<json> lines;
  std::istringstream in(run.out);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  REQUIRE(lines.size() == 9);
  CHECK(lines[0]["id"] == "a");
  CHECK(lines[0]["cost_s"] == 0.165);  // bare 5 = 5 ms
  CHECK(lines[1]["id"] == 2);
  CHECK(contains(lines[1]["error"], "unknown key 'pipelin'; did you mean 'pipeline'?"));
  CHECK(lines[2]["id"].is_null());
  CHECK(contains(lines[2]["error"], "line 3: not JSON"));
  CHECK(contains(lines[3]["error"], "object"));
  CHECK(contains(lines[4]["error"], "'pipeline' is given twice"));
  CHECK(lines[4]["id"] == 3);
  CHECK(contains(lines[5]["error"], "'pipeline' must be a whole number"));
  CHECK(contains(lines[6]["error"], "'forward' must be a number of milliseconds"));
  CHECK(contains(lines[7]["error"], "negative"));
  CHECK(lines[8]["busy_s"] == json{0.044, 0.084});  // 8 (5 + 0.5) and 8 (10 + 0.5) ms

  const auto piped =
      rehearse("schedule --batch - <'" + cases.string() + "' --output '" + (scratch.folder / "o").string() + "'");
  CHECK(piped.status == 0);
  CHECK(piped.out.empty());
  CHECK(read(scratch.folder / "o") == run.out);

  CHECK(rehearse("schedule --batch /no/such/file").status == 2);
  CHECK(rehearse("schedule --batch '" + scratch.folder.string() + "'").status == 2);
  CHECK(rehearse("schedule 1f1b --batch '" + cases.string() + "'").status == 2);
  CHECK(rehearse("schedule --pipeline 4 --batch '" + cases.string() + "'").status == 2);
  CHECK(rehearse("schedule --format csv --batch '" + cases.string() + "'").status == 2);
}
