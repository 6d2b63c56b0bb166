// Every command shown in a page or a help text is run once, and must print what is shown beside it. Commands that take
// long or need what a machine may lack are listed with the reason: their options and files are still checked.
//   REHEARSAL_BLESS=1 tools/test -R contract_document_commands
// writes the current answers into the pages.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "../document_pages.hpp"

namespace fs = std::filesystem;
using namespace rehearsal::documents;

namespace {

std::vector<std::string> pages() {
  std::vector<std::string> all{"README.md", "CONTRIBUTING.md", "scenarios/README.md", "scenarios/gallery/README.md",
                               "web/README.md"};
  for (const auto& file : fs::directory_iterator(kTop / "docs"))
    if (file.path().extension() == ".md") all.push_back("docs/" + file.path().filename().string());
  std::sort(all.begin(), all.end());
  return all;
}

// Commands that are not run, by their beginning; and the answers to some of them on a machine without a GPU.
struct Listed {
  const char *begins, *why;
};
const Listed kNotRun[] = {
    {"tools/", "a script: it builds, tests or serves; that it is there is checked"},
    {"cmake ", "builds; that its preset is there is checked"},
    {"build/", "a program of the build with a switch of its own; the test beside it runs it"},
    {"REHEARSAL_", "likewise, or it blesses"},
    {"mpirun ", "wants MPI; contract_sweep runs it where there is one"},
    {"rehearse validate --against", "2,000 predictions; fidelity_published_runs makes them"},
    {"rehearse plan scenarios/plan/gpt3-175b-1024xa100.yaml", "searches until its limit; contract_plan_interrupted"},
    {"rehearse plan scenarios/llama3-70b-64xh100.yaml", "a minute; contract_plan_finds_the_best"},
    {"rehearse measure scenarios/measure/", "takes all cores for real; contract_performed_* measure"},
    {"rehearse validate scenarios/measure/", "likewise"},
    {"rehearse hosts ", "wants root and namespaces; hosts_shaped makes them"},
    {"rehearse calibrate", "times this machine; contract_calibrated"},
    {"rehearse schedule gpipe-rounds",
     "the page adds this schedule; contract_contributing_example compiles and runs it"},
    {"rehearse completion bash >", "writes to the reader's home"},
    {"rehearse compare scenarios/runs/llama3-405b", "simulates 16,384 GPUs with failures; golden_gallery runs it"},
};
const char* why_not_run(const std::string& command) {
  for (const auto& l : kNotRun)
    if (command.starts_with(l.begins)) return l.why;
  return nullptr;
}

// All commands of a page, and of the help texts.
std::vector<Command> shown() {
  std::vector<Command> all;
  for (const auto& page : pages())
    for (auto& command : commands_of(page, read(kTop / page))) all.push_back(std::move(command));
  std::vector<std::string> helps{"--help"};
  static const std::regex name("\n  ([a-z]+) +[A-Z]");
  const auto help = rehearse("--help").out;
  for (std::sregex_iterator it(help.begin(), help.end(), name), end; it != end; ++it)
    helps.push_back((*it)[1].str() + " --help");
  CHECK(helps.size() >= 16);
  for (const auto& asked : helps) {
    const auto text = rehearse(asked).out;
    const auto from = text.find("Example:\n");
    CAPTURE(asked);
    REQUIRE(from != std::string::npos);
    std::string block;
    for (const auto& line : lines_of(text.substr(from + 9))) {
      if (line.empty()) break;
      block += line.substr(std::min<std::size_t>(2, line.size())) + "\n";
    }
    for (auto& command : commands_of("rehearse " + asked, "```\n" + block + "```\n")) all.push_back(std::move(command));
  }
  return all;
}

// Where commands run: the tree as a reader has it, but writable.
const fs::path& workplace() {
  static Scratch scratch;
  static const fs::path folder = [] {
    for (const char* each : {"configs", "docs", "models", "scenarios", "tests", "tools", "sim", "web"})
      fs::create_directory_symlink(kTop / each, scratch.folder / each);
    // Files that examples start from are made by earlier examples, or here.
    shell("cd '" + scratch.folder.string() +
          "' && '" REHEARSE_BINARY
          "' schedule 1f1b --pipeline 2 --microbatches 4 "
          "--forward 5ms --backward 5ms --weight 5ms --format csv >my.csv && '" REHEARSE_BINARY
          "' sweep "
          "scenarios/megatron21-t1/*.yaml --store sweep.sqlite >/dev/null");
    return scratch.folder;
  }();
  return folder;
}

// Standard output and errors, as a terminal shows them. Each command runs once.
const Output& answer_to(const std::string& command) {
  static std::map<std::string, Output> known;
  const auto at = known.find(command);
  if (at != known.end()) return at->second;
  return known[command] =
             shell("unset COLUMNS NO_COLOR; cd '" + workplace().string() + "' && REHEARSAL_PROFILES='" +
                   workplace().string() + "' timeout 120 '" REHEARSE_BINARY "'" + command.substr(8) + " 2>&1");
}

const std::string& help_of(const std::string& name) {
  static std::map<std::string, std::string> known;
  auto [at, fresh] = known.try_emplace(name);
  if (fresh) at->second = rehearse(name + " --help").out;
  return at->second;
}

// Its name is a command, every option is in that command's help, every named scenario exists.
void parse(const Command& command) {
  CAPTURE(command.where());
  const auto words = words_of(command.text);
  const auto program = std::find(words.begin(), words.end(), "rehearse");
  if (program == words.end()) {
    static const std::regex preset("--(?:preset|build build/?) ?([a-z]+)"), script("^(tools/[a-z-]+)");
    for (std::sregex_iterator it(command.text.begin(), command.text.end(), preset), end; it != end; ++it)
      CHECK(contains(read(kTop / "CMakePresets.json"), "\"name\": \"" + (*it)[1].str() + "\""));
    if (std::smatch match; std::regex_search(command.text, match, script)) CHECK(fs::exists(kTop / match[1].str()));
    return;
  }
  if (program + 1 == words.end()) return;
  const auto& name = *(program + 1);
  if (name.starts_with('-')) {
    CHECK(contains(help_of(""), name));
    return;
  }
  if (!std::all_of(name.begin(), name.end(), [](char c) { return std::islower(c); })) return;
  const auto& help = help_of(name);
  CHECK(contains(help, "rehearse " + name));
  for (auto word = program + 2; word < words.end(); ++word) {
    if (word->starts_with("--")) CHECK(contains(help, word->substr(0, word->find('='))));
    if (word->starts_with("scenarios/") && !contains(*word, "*") && !has_placeholder(*word))
      CHECK(fs::exists(kTop / *word));
  }
}

}  // namespace

TEST_CASE("every command that a page or a help text shows runs, or is listed and parses") {
  std::set<std::string> ran;
  std::set<const char*> listed;
  std::size_t forms = 0;
  for (const auto& command : shown()) {
    parse(command);
    if (const char* why = why_not_run(command.text)) {
      listed.insert(why);
      continue;
    }
    const auto words = words_of(command.text);
    if (has_placeholder(command.text) || words.size() < 2 || (words.size() == 2 && !words[1].starts_with('-')) ||
        (words.size() > 1 && !contains(rehearse("--help").out, "\n  " + words[1] + " ") && words[1][0] != '-')) {
      ++forms;
      continue;
    }
    if (!ran.insert(command.text).second) continue;
    CAPTURE(command.where());
    const auto& run = answer_to(command.text);
    INFO(run.out.substr(0, 2000));
    const bool wrong = !command.answer.empty() && contains(command.answer.front(), "error:");
    CHECK(run.status == (wrong ? 2 : 0));
  }
  MESSAGE(fmt::format("{} commands ran, {} forms were parsed", ran.size(), forms));
  CHECK(ran.size() > 60);
  CHECK(listed.size() >= 8);
}

TEST_CASE("what a page prints beside a command is what it answers") {
  std::size_t compared = 0;
  for (const auto& page : pages()) {
    auto commands = commands_of(page, read(kTop / page));
    std::reverse(commands.begin(), commands.end());  // changing one moves the lines below it
    for (const auto& command : commands) {
      if (command.answer.empty() || why_not_run(command.text)) continue;
      compare_or_bless(command, answer_to(command.text).out, "contract_document_commands");
      ++compared;
    }
  }
  CHECK(compared >= 3);
}

// A report breaks its lines where a terminal of 80 columns ends; a word, such as a command to copy, may be longer.
// What is written for another program is not a report, and a warning is one line, so that grep finds all of it.
TEST_CASE("no line of a report that a page or a help text asks for is wider than 100 columns") {
  const auto of_a_program = [](const std::string& command) {
    for (const char* form : {" --format ", "rehearse import ", "rehearse export ", "rehearse completion ", " --schema"})
      if (contains(command, form)) return true;
    return false;
  };
  std::set<std::string> seen;
  for (const auto& command : shown()) {
    if (why_not_run(command.text) || has_placeholder(command.text) || of_a_program(command.text)) continue;
    const auto words = words_of(command.text);
    if (words.size() < 2 || (words.size() == 2 && !words[1].starts_with('-'))) continue;
    if (!seen.insert(command.text).second) continue;
    CAPTURE(command.where());
    for (const auto& line : lines_of(answer_to(command.text).out))
      if (!contains(line, "warning:")) {
        CAPTURE(line);
        CHECK(line.size() <= 100);
      }
  }
  CHECK(seen.size() > 60);
}
