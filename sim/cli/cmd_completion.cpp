// rehearse completion: a script for a shell.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/spelling.hpp"
#include "cli/vocabulary.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kCompletionText{
    .name = "completion",
    .operands = "bash|zsh|fish",
    .summary =
        "Prints a script that lets a shell complete commands, options, files, names after 'list', and keys of a\n"
        "scenario with their values after --set and --vary.",
    .more =
        "For every new shell, add a line to ~/.bashrc or ~/.zshrc,\n"
        "  source <(rehearse completion bash)\n"
        "or to ~/.config/fish/config.fish,\n"
        "  rehearse completion fish | source",
    .example = "  rehearse completion bash >~/.local/share/bash-completion/completions/rehearse\n",
    .choices = {"bash", "zsh", "fish"}};

}  // namespace

int run_completion(Session& session, const Arguments& arguments) {
  CommonOptions common(session);
  const auto line = parse(kCompletionText, {}, arguments, common);
  if (!line) return 0;
  const auto& shell = one_operand(kCompletionText, *line, "the name of a shell: bash, zsh or fish");
  if (common.format != Format::text) throw UserError("completion: a script has no other format than text");
  constexpr std::string (*kScripts[])(const Vocabulary&){bash_completion, zsh_completion, fish_completion};
  const auto& shells = kCompletionText.choices;
  const auto found = std::find(shells.begin(), shells.end(), shell);
  if (found == shells.end())
    throw UserError(fmt::format("there is no completion for '{}'{}", shell.substr(0, 40), suggestion(shell, shells)));
  emit_report(common, kScripts[found - shells.begin()](vocabulary(session)));
  return 0;
}

}  // namespace rehearsal::cli
