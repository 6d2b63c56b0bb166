// `rehearse completion`: what a shell offers at the end of a line.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "../rehearse.hpp"

namespace {

using nlohmann::json;
using Words = std::set<std::string>;

Words words_of(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.insert(word);
  return words;
}

// What bash offers: `words` as it splits them, the cursor at the end of the last.
Words offered(const std::vector<std::string>& words) {
  static const Scratch scratch;
  const std::string script = (scratch.folder / "rehearse.bash").string();
  if (!std::filesystem::exists(script)) REQUIRE(rehearse("completion bash --output '" + script + "'").status == 0);
  std::string line = "rehearse";
  for (const auto& w : words) line += " '" + w + "'";
  const auto run =
      shell(fmt::format("cd '{}' && bash -u -c 'source \"{}\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); "
                        "_rehearse; printf \"%s\\n\" \"${{COMPREPLY[@]}}\"' bash {} 2>&1",
                        PROJECT_ROOT, script, line));
  CHECK(run.status == 0);
  return words_of(run.out);
}

// Bash takes "--set a=b" for three words.
Words offered_set(const std::string& option, const std::string& key, const std::string& value) {
  return offered({"run", "x.yaml", option, key, "=", value});
}

}  // namespace

TEST_CASE("bash completes commands and the options of each, as --help lists them") {
  const auto help = rehearse("--help").out;
  for (const auto& command : offered({""})) {
    CAPTURE(command);
    if (command.starts_with("--")) continue;
    CHECK(contains(help, "\n  " + command + " "));
    const auto own = rehearse(command + " --help");
    CHECK(own.status == 0);
    std::istringstream lines(own.out);
    Words options;
    for (std::string line; std::getline(lines, line);)
      if (std::smatch row; std::regex_match(line, row, std::regex("  (--[a-z-]+)( [^ ]+)?(  .*)?")))  // no sentence
        options.insert(row[1]);
    CHECK(offered({command, "--"}) == options);
  }
  CHECK(offered({"swe"}) == Words{"sweep"});
  CHECK(offered({"sweep", "--st"}) == Words{"--store"});
  CHECK(offered({"completion", ""}) == Words{"bash", "fish", "zsh"});
}

TEST_CASE("bash completes files, names, keys and their values") {
  CHECK(offered({"run", "scenarios/gpt3-175b-1024xa1"}) == Words{"scenarios/gpt3-175b-1024xa100.yaml"});
  CHECK(offered({"run", "--format", "j"}) == Words{"json"});
  CHECK(offered({"run", "--format", "=", "c"}) == Words{"csv"});
  CHECK(offered({"list", "sch"}) == Words{"schedules"});
  Words models;
  for (const auto& model : json::parse(rehearse("list models --format json").out)) models.insert(model["name"]);
  CHECK(offered({"list", "models", ""}) == models);
  CHECK(offered({"schedule", "zb-h"}) == Words{"zb-h1", "zb-h2"});
  CHECK(offered({"measure", "x.yaml", "--backend", "lo"}) == Words{"loopback"});

  CHECK(offered({"run", "x.yaml", "--set", "batch.mic"}) == Words{"batch.micro=", "batch.microbatches="});
  CHECK(offered_set("--set", "schedule", "zb-h") == Words{"zb-h1", "zb-h2"});
  CHECK(offered_set("--set", "cluster.use", "dgx-h") == Words{"dgx-h100"});
  CHECK(offered_set("--set", "training.recompute", "") ==
        offered({"run", "x.yaml", "--set", "training.recompute", "="}));
  CHECK(offered_set("--set", "training.recompute", "f") == Words{"full"});
  CHECK(offered_set("--vary", "schedule", "gpipe,zb-h").empty());  // `run` has no --vary
  CHECK(offered({"sweep", "x.yaml", "--vary", "schedule", "=", "gpipe,zb-h"}) == Words{"gpipe,zb-h1", "gpipe,zb-h2"});
  // As zsh hands it over.
  CHECK(offered({"compare", "x.yaml", "--vary", "schedule=gpipe,zb-h1,zb-h"}) ==
        Words{"schedule=gpipe,zb-h1,zb-h1", "schedule=gpipe,zb-h1,zb-h2"});
  CHECK(offered({"run", "x.yaml", "--set", "batch.micro", "=", ""}).empty());
}

TEST_CASE("fish and zsh read their scripts, where they are") {
  const Scratch scratch;
  const auto script = [&](const std::string& shell_name) {
    const auto path = (scratch.folder / shell_name).string();
    REQUIRE(rehearse("completion " + shell_name + " --output '" + path + "'").status == 0);
    return path;
  };
  if (shell("command -v zsh >/dev/null").status == 0) {
    CHECK(shell("zsh -n '" + script("zsh") + "' 2>&1").out.empty());
    // As bashcompinit calls it: words are not split at '=', and zsh has meanings of its own for many a name.
    const auto run =
        shell("zsh -fc 'source \"" + script("zsh") +
              "\" 2>/dev/null; ask() { emulate -L sh; setopt kshglob noshglob braceexpand; typeset -a words; "
              "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _rehearse; echo ${COMPREPLY[@]}; }; "
              "ask rehearse swee; ask rehearse run --set schedule=zb-h; ask rehearse run --form' 2>&1");
    // What does not begin as the word does zsh leaves out by itself.
    for (const char* part : {" sweep ", "\nschedule=1f1b ", " schedule=zb-h2 ", " --format "})
      CHECK(contains(run.out, part));
  }
  if (shell("command -v fish >/dev/null").status == 0) {
    const auto ask = [&](const std::string& line) {
      const auto run = shell(
          fmt::format("fish --no-config -c 'source {}; complete -C \"{}\"' 2>&1 | cut -f1", script("fish"), line));
      return words_of(run.out);
    };
    CHECK(ask("rehearse swee") == Words{"sweep"});
    CHECK(ask("rehearse sweep --stor") == Words{"--store"});
    CHECK(ask("rehearse list schedules zb-h") == Words{"zb-h1", "zb-h2"});
    CHECK(ask("rehearse run --set schedule=zb-h") == Words{"schedule=zb-h1", "schedule=zb-h2"});
  }
  CHECK(rehearse("completion").status == 2);
  CHECK(contains(rehearse("completion bahs").err, "did you mean 'bash'?"));
}
