// Command lines: Boost.Program_options parses them, this file translates its errors.
#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>

#include "base/error.hpp"
#include "base/spelling.hpp"
#include "cli/output_files.hpp"
#include "page/layout.hpp"

namespace rehearsal::cli {
namespace {

namespace po = boost::program_options;

// The place of a word among the choices of an option.
std::size_t place(const Option& option, const std::string& word) {
  const auto found = std::find(option.choices.begin(), option.choices.end(), word);
  if (found != option.choices.end()) return std::size_t(found - option.choices.begin());
  throw UserError(fmt::format("--{} is '{}'{}", option.name, word.substr(0, 40), suggestion(word, option.choices)));
}

std::string ended(const std::string& text) { return text.empty() || text.ends_with('\n') ? text : text + "\n"; }

constexpr int kHelpWidth = 80;

// Reflows sentences; lines that the author has indented or set off by an empty line are kept.
std::string filled(const std::string& text) {
  std::string joined;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool within = text[i] == '\n' && i > 0 && i + 1 < text.size() && text[i - 1] != '\n' && text[i + 1] != '\n';
    const auto begin = joined.rfind('\n') + 1;  // start of the current line; npos + 1 is 0
    joined += within && text[i + 1] != ' ' && (begin == joined.size() || joined[begin] != ' ') ? ' ' : text[i];
  }
  return page::fit(joined, kHelpWidth);
}

// Long command lines are continued as in a shell, with breaks before options.
std::string continued(std::string example) {
  for (std::size_t begin = 0, end; begin < example.size(); begin = end + 1) {
    end = std::min(example.find('\n', begin), example.size());
    if (end - begin <= std::size_t(kHelpWidth)) continue;
    const auto option = example.rfind(" --", begin + kHelpWidth - 2);
    if (option == std::string::npos || option <= begin + 4) continue;
    example.replace(option, 1, " \\\n    ");
    end = option + 2;
  }
  return example;
}

std::string help_text(const CommandText& text, const OptionList& own, const OptionList& shared) {
  const auto lines = [](const OptionList& options) {
    std::string all;
    for (const Option& o : options) {
      std::string left = "  --" + o.name;
      if (!o.value_name.empty()) left += " " + o.value_name;
      constexpr std::size_t kLeft = 27;
      const std::string margin(kLeft, ' ');
      all += left.size() + 1 < kLeft ? fmt::format("{:<{}}", left, kLeft) : left + "\n" + margin;
      std::string help = o.help;
      std::replace(help.begin(), help.end(), '\n', ' ');
      all += page::wrap(help, kHelpWidth, margin, kLeft) + "\n";
    }
    return all;
  };
  std::string all = filled(fmt::format("{}\n\nUsage: rehearse {} {}\n\n", text.summary, text.name, text.operands));
  if (!own.empty()) all += "Options:\n" + lines(own) + "\n";
  all += "Options of every command:\n" + lines(shared);
  if (!text.more.empty()) all += "\n" + filled(ended(text.more));
  return all + "\nExample:\n" + continued(ended(text.example));
}

// --format --output --set --quiet --color --help.
OptionList shared_options(const CommandText& command, CommonOptions& common) {
  Option format{"format", "FORMAT", "text, json or csv (default text)", {}, false, {"text", "json", "csv"}};
  if (command.takes_sarif) {
    format.help = "text, json, csv or sarif (default text)";
    format.choices.emplace_back("sarif");
  }
  return {format,
          {"output", "FILE", "write the report to FILE, complete or not at all", &common.output},
          {"set", "KEY=VALUE", "change a key of the scenario; repeatable", &common.set},
          {"quiet", "", "no progress and no warnings", &common.quiet},
          {"color", "WHEN", "auto, always or never (default auto)", {}, false, {"auto", "always", "never"}},
          {"help", "", "show this text"}};
}

Option progress_option() {
  return {
      "progress",
      "HOW",
      "how far the work is, on standard error: auto (a line on a terminal, nothing elsewhere), never, plain (a line "
      "every 10 s) or json (default auto)",
      {},
      false,
      {"auto", "never", "plain", "json"}};
}

// The Program_options type of an option's value, by its destination.
po::value_semantic* semantic(const Option& option) {
  if (std::holds_alternative<std::monostate>(option.to) && option.value_name.empty())
    return new po::untyped_value(true);
  return std::visit(
      [&]<class To>(To to) -> po::value_semantic* {
        if constexpr (std::is_same_v<To, std::monostate>)
          return po::value<std::string>();
        else if constexpr (std::is_same_v<To, bool*>)
          return po::bool_switch(to);
        else if constexpr (std::is_same_v<To, std::vector<std::string>*>)
          return option.several ? po::value(to)->multitoken() : po::value(to);
        else
          return po::value(to);
      },
      option.to);
}

// "--micro" for the option in an error message of program_options ("micro", "--micro=3").
std::string dashed(const std::string& token) {
  const std::string name = token.substr(0, token.find('='));
  const auto first = name.find_first_not_of('-');
  if (first == std::string::npos) return name;
  return (name.size() - first == 1 && first == 1 ? "-" : "--") + name.substr(first);
}

[[noreturn]] void complain(const CommandText& text, const OptionList& all, const po::error& error) {
  const std::string hint = fmt::format("; 'rehearse {} --help' lists the options", text.name);
  if (const auto* unknown = dynamic_cast<const po::unknown_option*>(&error)) {
    const std::string name = dashed(unknown->get_option_name());
    std::vector<std::string> names;
    for (const Option& o : all) names.push_back(o.name);
    const auto near = nearest(name.substr(name.find_first_not_of('-')), names);
    throw UserError(fmt::format("unknown option '{}' for 'rehearse {}'{}", name, text.name,
                                near ? "; did you mean '--" + *near + "'?" : hint));
  }
  if (const auto* multiple = dynamic_cast<const po::multiple_occurrences*>(&error))
    throw UserError(fmt::format("{} is given more than once", dashed(multiple->get_option_name())));
  if (const auto* syntax = dynamic_cast<const po::invalid_syntax*>(&error)) {
    const bool flag = dynamic_cast<const po::invalid_command_line_syntax*>(&error) &&
                      syntax->kind() == po::invalid_syntax::extra_parameter;
    throw UserError(
        fmt::format("{} {}{}", dashed(syntax->get_option_name()), flag ? "takes no value" : "needs a value", hint));
  }
  throw UserError(error.what() + hint);
}

}  // namespace

const std::string kDescribe("\0describe", 9);

std::optional<CommandLine> parse(const CommandText& text, const OptionList& asked, const Arguments& arguments,
                                 CommonOptions& common) {
  const OptionList shared = shared_options(text, common);
  OptionList own = asked;
  if (text.takes_long) own.push_back(progress_option());
  OptionList all = own;
  all.insert(all.end(), shared.begin(), shared.end());
  if (arguments.size() == 1 && arguments.front() == kDescribe) throw Described{text, std::move(all)};
  for (const auto& a : arguments)  // help works even if the rest of the line is wrong
    if (a == "--help" || a == "-h") return write_stdout(common, help_text(text, own, shared)), std::nullopt;
  po::options_description known;
  for (const Option& o : all) known.add_options()(o.name.c_str(), semantic(o));

  CommandLine line;
  try {
    // Abbreviated options are not accepted: a new option could change their meaning in existing scripts.
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const auto parsed = po::command_line_parser(arguments).options(known).style(style).run();
    po::variables_map values;
    po::store(parsed, values);
    po::notify(values);
    for (const auto& o : parsed.options) {
      auto& words = o.string_key.empty() ? line.operands : line.given[o.string_key];
      words.insert(words.end(), o.value.begin(), o.value.end());
    }
  } catch (const po::error& error) {
    complain(text, all, error);
  }
  std::map<std::string_view, std::size_t> chosen;
  for (const Option& o : all) {
    const auto given = line.given.find(o.name);
    if (given == line.given.end() || o.value_name.empty()) continue;
    for (const auto& word : given->second) {
      if (word.empty())
        throw UserError(o.value_name == "FILE" ? fmt::format("--{} needs the name of a file", o.name)
                                               : fmt::format("--{} needs a value: {}", o.name, o.value_name));
      if (!o.choices.empty() && !o.others) chosen[o.name] = place(o, word);
    }
  }
  if (const auto format = chosen.find("format"); format != chosen.end()) {
    common.sarif = format->second == 3;  // which is JSON
    common.format = common.sarif ? Format::json : Format(format->second);
    common.format_given = true;
  }
  if (const auto color = chosen.find("color"); color != chosen.end()) common.color = Color(color->second);
  common.command = text.name;
  if (const auto how = chosen.find("progress"); how != chosen.end()) common.progress = Watching(how->second);
  if (common.quiet && common.progress >= Watching::plain)
    throw UserError("--quiet shows no progress; leave it or --progress out");
  if (common.output == "-") common.output.clear();
  if (!common.set.empty() && !text.takes_set)
    throw UserError(fmt::format("--set changes a scenario, and 'rehearse {}' reads none", text.name));
  for (const auto& s : common.set)
    if (s.find('=') == std::string::npos || s.starts_with('='))
      throw UserError(fmt::format("--set '{}' is not KEY=VALUE, for example --set parallelism.pipeline=8", s));
  check_outputs(common, {}, text.takes_set ? line.operands : std::vector<std::string>{});
  return line;
}

const std::string& one_operand(const CommandText& text, const CommandLine& line, std::string_view what) {
  if (line.operands.empty())
    throw UserError(fmt::format("'rehearse {}' needs {}; see 'rehearse {} --help'", text.name, what, text.name));
  if (line.operands.size() > 1)
    throw UserError(
        fmt::format("'rehearse {}' takes {} and nothing else, found also '{}'", text.name, what, line.operands[1]));
  return line.operands.front();
}

}  // namespace rehearsal::cli
