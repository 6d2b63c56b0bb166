// rehearse completion: a script for a shell.
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/spelling.hpp"
#include "cli/vocabulary.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kCompletionText{
    .name = "completion",
    .operands = "bash|zsh|fish",
    .summary =
        "Prints a script with which a shell completes commands, options, files, names after 'list', and keys of a\n"
        "scenario with their values after --set and --vary.",
    .more =
        "For every new shell: a line in ~/.bashrc or ~/.zshrc,\n"
        "  source <(rehearse completion bash)\n"
        "or in ~/.config/fish/config.fish,\n"
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
  if (shell == "bash")
    emit_report(common, bash_completion(vocabulary(session)));
  else if (shell == "zsh")
    emit_report(common, zsh_completion(vocabulary(session)));
  else if (shell == "fish")
    emit_report(common, fish_completion(vocabulary(session)));
  else
    throw UserError(fmt::format("there is no completion for '{}'{}", shell.substr(0, 40),
                                suggestion(shell, kCompletionText.choices)));
  return 0;
}

}  // namespace rehearsal::cli
