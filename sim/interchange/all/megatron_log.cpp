// The log of a run of Megatron-LM: it begins with all arguments, as they were resolved (_print_args of
// megatron/training/arguments.py), and says further down how large the padded vocabulary is (tokenizer.py).
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/megatron/arguments.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;

constexpr std::string_view kBegin = "---- arguments ----", kEnd = "---- end of arguments ----";

bool recognises(const Source& source) {
  return source.kind != Source::Kind::arguments && source.text.find(kBegin) != std::string::npos;
}

class LogTable {
 public:
  LogTable(Sources& sources, const Source& source)
      : sources_(sources), source_(source), arguments_(sources, source.name) {
    arguments_.listed = Keys::Listed::everything;
  }

  const MegatronArguments& read() {
    std::string_view text = source_.text;
    for (int line = 1; !text.empty(); ++line) {
      const auto end = std::min(text.find('\n'), text.size());
      take(text.substr(0, end), line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (entries_ == 0 || !arguments_.find("num_layers"))
      throw UserError(
          {{{source_.name, begin_, 1}, "the table of arguments has no num_layers; give the log from its beginning"}});
    return arguments_;
  }

 private:
  // "[rank0]: " or "0: " before a line, as launchers put them, and colours of terminals are not part of it.
  void take(std::string_view line, int number) {
    if (line.find(kEnd) != line.npos) {
      inside_ = false, done_ = true;
      return;
    }
    if (line.find(kBegin) != line.npos && !done_) {
      inside_ = true, begin_ = number;
      return;
    }
    if (inside_)
      entry(line, number);
    else
      padded(line, number);
  }

  // "  num_layers ...................................... 12"; a name of more than 45 letters has no dots behind it.
  void entry(std::string_view line, int number) {
    const auto dots = line.find(" ..");
    auto name = line.substr(0, dots), value = std::string_view();
    if (dots != line.npos) {
      const auto first = line.find_first_not_of('.', dots + 1);
      value = first == line.npos ? std::string_view() : line.substr(first);
    } else {
      const auto begin = line.find_first_not_of(" \t");
      const auto blank = begin == line.npos ? line.npos : line.find(' ', begin);
      if (blank == line.npos) return;
      name = line.substr(0, blank), value = line.substr(blank);
      if (value.starts_with(" . ")) value.remove_prefix(3);
    }
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    name = name.substr(name.find_last_of(" :\t") + 1);
    while (!value.empty() && std::string_view(" \t\r").find(value.front()) != std::string_view::npos)
      value.remove_prefix(1);
    while (!value.empty() && std::string_view(" \t\r").find(value.back()) != std::string_view::npos)
      value.remove_suffix(1);
    if (name.empty()) return;
    ++entries_;
    arguments_.add(name, node(value, number), std::string(name));
  }

  // Python's None, numbers, texts, and lists of them.
  const Node& node(std::string_view value, int line) {
    const bool list = value.starts_with('[') && value.ends_with(']') && value.find('*') == value.npos;
    if (!list) return arguments_.value(std::string(value), line);
    Node* all = sources_.make(Node::Kind::sequence, source_.name, line);
    std::string item;
    for (const char c : value.substr(1)) {
      if (c == ',' || c == ']') {
        if (!item.empty()) all->items.push_back(&arguments_.value(item, line));
        item.clear();
      } else if (c != ' ' && c != '\'' && c != '"') {
        item += c;
      }
    }
    all->size = all->items.size() + 1;
    return *all;
  }

  // " > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)".
  void padded(std::string_view line, int number) {
    constexpr std::string_view kSays = "(new size: ";
    if (line.find("padded vocab (size:") == line.npos) return;
    const auto at = line.find(kSays);
    if (at == line.npos) return;
    std::int64_t size = 0;
    const auto digits = line.substr(at + kSays.size());
    if (std::from_chars(digits.data(), digits.data() + digits.size(), size).ec == std::errc() && size > 0)
      arguments_.add_default("padded_vocab_size", arguments_.value(std::to_string(size), number), "padded vocab");
  }

  Sources& sources_;
  const Source& source_;
  MegatronArguments arguments_;
  bool inside_ = false, done_ = false;
  int begin_ = 1, entries_ = 0;
};

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  LogTable table(sources, source);
  read_megatron(table.read(), draft);
}

}  // namespace

void register_megatron_log(Registry& registry) {
  registry.add({.name = "megatron-log",
                .title = "a log of Megatron-LM",
                .summary = "a training log of Megatron-LM, which begins with all arguments: all but the machine",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
