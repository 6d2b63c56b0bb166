// --html of every command that has it: one self-contained document, whose numbers equal those of the JSON.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "../rehearse.hpp"

using nlohmann::json;

namespace {

struct Written {
  std::string html, json;
};
Written written(const std::string& arguments) {
  const Scratch scratch;
  const auto file = (scratch.folder / "page.html").string();
  const auto run = rehearse(arguments + " --quiet --format json --html " + file);
  REQUIRE_MESSAGE(run.status == 0, run.err);
  return {read(file), run.out};
}

// A self-contained document: nothing is fetched, and every tag is closed.
void stands_alone(const std::string& html) {
  CHECK(html.starts_with("<!doctype html>"));
  CHECK(html.ends_with("</html>\n"));
  const std::regex elsewhere("(src=\"|href=\"[^#]|url\\(|@import)");
  CHECK_FALSE(std::regex_search(html, elsewhere));
  for (const std::string tag : {"section", "table", "figure", "svg", "details", "ul", "dl", "g", "text", "pre"}) {
    CAPTURE(tag);
    const std::regex open("<" + tag + "[ >]"), close("</" + tag + ">");
    CHECK(std::distance(std::sregex_iterator(html.begin(), html.end(), open), {}) ==
          std::distance(std::sregex_iterator(html.begin(), html.end(), close), {}));
  }
}

// Compares every number of the page that names its place in the JSON. Returns how many.
std::size_t equal_numbers(const Written& w, std::size_t at_least) {
  const auto answer = json::parse(w.json);
  const std::regex number("<data value=\"([^\"]*)\" data-json=\"([^\"]*)\">");
  std::size_t n = 0;
  for (std::sregex_iterator it(w.html.begin(), w.html.end(), number), end; it != end; ++it, ++n) {
    const std::string where = (*it)[2], value = (*it)[1];
    CAPTURE(where);
    REQUIRE(answer.contains(json::json_pointer(where)));
    CHECK(answer[json::json_pointer(where)].get<double>() == json::parse(value).get<double>());
  }
  CHECK(n >= at_least);
  return n;
}

const std::string kScenarios = PROJECT_ROOT "/scenarios/";

}  // namespace

TEST_CASE("the pages of run") {
  for (const auto& [line, numbers] :
       {std::pair("gpt3-175b-1024xa100.yaml", 150), std::pair("teaching-zb-h1-8-stages.yaml", 60),
        std::pair("gpt-10b-offload-1xv100.yaml", 40), std::pair("parameter-servers-64xa100.yaml", 40),
        std::pair("gpt-resharding-p3-8xlarge.yaml", 40)}) {
    CAPTURE(line);
    const auto w = written("run " + kScenarios + line);
    stands_alone(w.html);
    equal_numbers(w, std::size_t(numbers));
    CHECK(w.html.size() < 2'000'000);
    CHECK(w.html.find("<figure class=\"timeline\">") != std::string::npos);
    CHECK(w.html.find("as a table") != std::string::npos);
    CHECK(w.html.find("version: 1") != std::string::npos);  // the scenario itself
  }
}

TEST_CASE("what is too large to draw is folded, and the page says so") {
  const auto w = written(
      "run " + kScenarios +
      "gpt3-175b-1024xa100.yaml --set simulate.symmetry=off --set simulate.detail=operator --set batch.global=128");
  stands_alone(w.html);
  CHECK(w.html.size() < 2'000'000);
  CHECK(w.html.find("ranks in the middle are left out") != std::string::npos);
  CHECK(w.html.find("Tasks of one pass and micro-batch that follow each other are drawn as one") != std::string::npos);
}

TEST_CASE("the pages of the other commands") {
  const std::string teaching = kScenarios + "teaching-1f1b-8-stages.yaml";
  for (const auto& [line, numbers] : std::vector<std::pair<std::string, std::size_t>>{
           {"compare " + teaching + " --vary schedule=gpipe,1f1b,zb-h1", 9},
           {"compare " + kScenarios + "gpt3-175b-1024xa100.yaml --vary batch.micro=1,2 --sort -mfu", 16},
           {"explain " + kScenarios + "llama3-8b-dgx-h100.yaml --set batch.global=8 --only limits --only critical-path",
            10},
           {"schedule zb-h1 --pipeline 4 --microbatches 8 --forward 5ms --backward 5ms --weight 5ms", 3},
           {"schedule 1f1b zb-v --pipeline 4 --microbatches 8 --forward 5ms --backward 5ms --weight 5ms", 0},
           {"reshard " + kScenarios + "reshard/case4.yaml", 2},
           {"balance " + kScenarios + "balance/eplb-readme.yaml", 0},
           {"collective ring-all-reduce --ranks 4", 1},
           {"groups " + kScenarios + "llama3-70b-64xh100.yaml", 0},
           {"measure " + teaching + " --backend loopback --compute timed --iterations 1 --warmup 0", 30},
           {"validate " + teaching + " --backend loopback --compute timed --iterations 1 --warmup 0", 30}}) {
    CAPTURE(line);
    const auto w = written(line);
    stands_alone(w.html);
    equal_numbers(w, numbers);
  }
}

TEST_CASE("schedules beside each other are on one scale of time") {
  const Scratch scratch;
  const auto file = (scratch.folder / "three.svg").string();
  const auto run = rehearse(
      "schedule 1f1b zb-h1 --pipeline 4 --microbatches 8 --forward 5ms --backward 5ms --weight 5ms "
      "--picture 1f1b --svg " +
      file);
  CHECK(run.status == 2);  // schedules have no --picture
  const auto two =
      rehearse("schedule gpipe 1f1b --pipeline 4 --microbatches 8 --forward 10ms --backward 10ms --svg " + file);
  REQUIRE_MESSAGE(two.status == 0, two.err);
  const auto svg = read(file);
  // A forward of 10 ms is equally wide in both; the same numbers of ranks and micro-batches give equally many boxes.
  const std::regex box("<rect x=\"[0-9.]+\" y=\"[0-9.]+\" width=\"([0-9.]+)\" height=\"[0-9.]+\" fill=\"#427ad6\"");
  std::vector<double> widths;
  for (std::sregex_iterator it(svg.begin(), svg.end(), box), end; it != end; ++it)
    widths.push_back(std::stod((*it)[1]));
  CHECK(widths.size() >= 64);
  std::sort(widths.begin(), widths.end());
  const double typical = widths[widths.size() / 2];
  std::size_t alike = 0;
  for (const double w : widths) alike += std::abs(w - typical) < .02;
  CHECK(alike >= 64);
}

TEST_CASE("a page that cannot be written is refused before the work, and nothing is left") {
  const Scratch scratch;
  const auto folder = scratch.folder.string();
  for (const std::string file : {folder + "/no/such/page.html", folder}) {
    CAPTURE(file);
    const auto run = rehearse("run " + kScenarios + "teaching-1f1b-8-stages.yaml --html " + file);
    CHECK(run.status == 2);
    CHECK(run.out.empty());
  }
  CHECK(std::filesystem::is_empty(scratch.folder));
  const auto same =
      rehearse("run " + kScenarios + "teaching-1f1b-8-stages.yaml --html " + folder + "/a --svg " + folder + "/a");
  CHECK(same.status == 2);
  CHECK(contains(same.err, "name the same file"));
  const auto alone = rehearse("run " + kScenarios + "teaching-1f1b-8-stages.yaml --picture memory");
  CHECK(alone.status == 2);
  CHECK(contains(alone.err, "give it one"));
  const auto full = rehearse("run " + kScenarios + "teaching-1f1b-8-stages.yaml --html /dev/full");
  CHECK(full.status == 3);
}
