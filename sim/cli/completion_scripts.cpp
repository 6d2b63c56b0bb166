// The scripts of `rehearse completion`: they contain all words, so that completion starts no program.
#include <fmt/format.h>

#include "cli/vocabulary.hpp"

namespace rehearsal::cli {
namespace {

using Takes = Vocabulary::Takes;

// Words of this program need no quoting in a list: letters, digits and "-._+:/".
template <class Words>
std::string list(const Words& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::string names_of(const std::vector<Vocabulary::Word>& options) {
  std::string text;
  for (const auto& o : options) text += (text.empty() ? "" : " ") + o.name;
  return text;
}

// In single quotes, for shells that accept \' within them (fish) or that leave and re-enter them (bash).
std::string quoted(const std::string& text, std::string_view quote) {
  std::string out = "'";
  for (const char c : text.substr(0, text.find('\n'))) {
    if (c == '\'')
      out += quote;
    else
      out += c;
  }
  return out + "'";
}

// Completions after an option, by command and option; and the operands of a command.
std::string bash_cases(const Vocabulary& words) {
  std::string text;
  const auto answer = [](Takes takes, const std::vector<std::string>& choices) -> std::string {
    if (takes == Takes::choice) return "offer='" + list(choices) + "'";
    if (takes == Takes::file) return "files=-f";
    if (takes == Takes::folder) return "files=-d";
    if (takes == Takes::setting) return "offer=$keys suffix==";
    return ":";
  };
  for (const auto& command : words.commands) {
    for (const auto& option : command.options)
      if (option.takes != Takes::nothing)
        text += fmt::format("    {}:{}) {};;\n", command.name, option.name, answer(option.takes, option.choices));
    text += fmt::format("    {}:*) switches='{}'; {};;\n", command.name, names_of(command.options),
                        answer(command.operand, command.operands));
  }
  return text;
}

}  // namespace

// `words` and `options` are reserved in zsh. Bash splits words at '=' (COMP_WORDBREAKS), zsh does not: both
// are first joined and then split here.
std::string bash_completion(const Vocabulary& words) {
  std::vector<std::string> commands, keys;
  for (const auto& c : words.commands) commands.push_back(c.name);
  for (const auto& [key, values] : words.keys) keys.push_back(key);
  std::string values, names;
  for (const auto& [key, some] : words.keys)
    if (!some.empty()) values += fmt::format("      {}) offer='{}';;\n", key, list(some));
  for (const auto& [kind, some] : words.kinds) names += fmt::format("      {}) offer='{}';;\n", kind, list(some));

  return fmt::format(R"(# bash completion for rehearse: source <(rehearse completion bash)
_rehearse() {{
  local keys='{keys}'
  local word=${{COMP_WORDS[COMP_CWORD]}} at=$COMP_CWORD command=${{COMP_WORDS[1]}}
  local offer='' files='' switches='' suffix='' before='' key='' joined='' part=''
  COMPREPLY=()
  if ((at == 1)); then
    COMPREPLY=($(compgen -W '{commands} --help --version' -- "$word"))
    return
  fi
  # "--set a=b": one word, or three of which the cursor stands in the second or third.
  if [[ $word == = ]]; then
    key=${{COMP_WORDS[at-1]}} word='' at=$((at - 1))
  elif [[ ${{COMP_WORDS[at-1]}} == = ]]; then
    key=${{COMP_WORDS[at-2]}} at=$((at - 2))
  elif [[ $word == ?*=* ]]; then
    key=${{word%%=*}} joined=$key= word=${{word#*=}}
  fi
  before=${{COMP_WORDS[at-1]}}
  if [[ $key == --* ]]; then before=$key key=''; fi
  case $command:$before in
{cases}  esac
  if [[ -n $key ]]; then
    [[ -n $suffix ]] || return
    # The last of several values.
    if [[ $before == --vary && $word == *,* ]]; then part=${{word%,*}},; fi
    offer='' suffix=''
    case $key in
{values}    esac
  elif [[ $command == list && $at -gt 2 && $word != -* ]]; then
    offer=''
    case ${{COMP_WORDS[2]}} in
{names}    esac
  fi
  if [[ -n $switches && $word == -* ]]; then offer=$switches files='' suffix=''; fi
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen $files -- "$word"))
    return
  fi
  if [[ -n $suffix || -n $key ]]; then compopt -o nospace 2>/dev/null; fi
  COMPREPLY=($(compgen -P "$joined$part" -S "$suffix" -W "$offer" -- "${{word#"$part"}}"))
}}
complete -F _rehearse rehearse
)",
                     fmt::arg("keys", list(keys)), fmt::arg("commands", list(commands)),
                     fmt::arg("cases", bash_cases(words)), fmt::arg("values", values), fmt::arg("names", names));
}

std::string zsh_completion(const Vocabulary& words) {
  return "# zsh completion for rehearse: source <(rehearse completion zsh)\n"
         "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" +
         bash_completion(words);
}

std::string fish_completion(const Vocabulary& words) {
  std::string text =
      "# fish completion for rehearse: rehearse completion fish | source\n"
      "function __rehearse_settings\n  switch (commandline -ct)\n";
  // Completes keys with '=', and then the values of the key.
  for (const auto& [key, values] : words.keys) {
    if (values.empty()) continue;
    text += fmt::format("    case '{}=*'\n      printf '%s\\n' {}={{{}}}\n", key, key, fmt::join(values, ","));
  }
  text += "    case '*'\n      printf '%s=\\n'";
  for (const auto& [key, values] : words.keys) text += " " + key;
  text += "\n  end\nend\ncomplete -c rehearse -e\n";
  for (const auto& command : words.commands) {
    text += fmt::format("complete -c rehearse -f -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        quoted(command.summary, "\\'"));
    const auto when = fmt::format("-n '__fish_seen_subcommand_from {}'", command.name);
    if (command.operand != Takes::file && command.operand != Takes::folder)
      text += fmt::format("complete -c rehearse {} -f -a '{}'\n", when, list(command.operands));
    for (const auto& option : command.options) {
      text += fmt::format("complete -c rehearse {} -l {}", when, option.name.substr(2));
      if (option.takes == Takes::choice) text += fmt::format(" -x -a '{}'", list(option.choices));
      if (option.takes == Takes::setting) text += " -x -a '(__rehearse_settings)'";
      if (option.takes == Takes::file || option.takes == Takes::folder) text += " -r -F";
      if (option.takes == Takes::other) text += " -x";
      text += " -d " + quoted(option.help, "\\'") + "\n";
    }
  }
  for (const auto& [kind, names] : words.kinds)
    text += fmt::format(
        "complete -c rehearse -n '__fish_seen_subcommand_from list; and __fish_seen_subcommand_from {}' -f "
        "-a '{}'\n",
        kind, list(names));
  return text;
}

}  // namespace rehearsal::cli
