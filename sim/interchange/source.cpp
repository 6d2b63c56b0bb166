#include "interchange/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <stdexcept>

namespace rehearsal::interchange {
// The library asserts what its parser does not check before: that a key begins with the letter of one, in "[{a]".
constexpr void toml_asserts(bool holds) {
  if (!holds) throw std::logic_error("a key begins with a letter or a quote");
}
}  // namespace rehearsal::interchange
#define TOML_ASSERT(expression) rehearsal::interchange::toml_asserts(bool(expression))
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "base/error.hpp"

namespace rehearsal::interchange {

using scenario::Node;

namespace {

std::string_view below(std::string_view& path) {
  const auto dot = path.find('.');
  const auto key = path.substr(0, dot);
  path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  return key;
}

// Text that no person reads: a NUL within the first part.
bool is_binary(std::string_view text) { return text.substr(0, 4096).find('\0') != std::string_view::npos; }

// "[section]" or "key = value" on the first line that is neither empty nor a comment.
bool looks_like_toml(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto end = std::min(text.find('\n', at), text.size());
    auto line = text.substr(at, end - at);
    at = end + 1;
    line = from_first_word(line);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    if (line.starts_with('[')) {
      const auto name = line.find_first_not_of("[]");
      return line.ends_with(']') && name != std::string_view::npos &&
             (std::isalpha(static_cast<unsigned char>(line[name])) || line[name] == '_');
    }
    const auto equals = line.find('=');
    const auto key = line.substr(0, line.find_first_of(" =:"));
    const auto value = equals == std::string_view::npos ? equals : line.find_first_not_of(" \t", equals + 1);
    // Other files and shells have bare words behind '='.
    const auto is_value = [&] {
      const auto word = line.substr(value);
      return std::isdigit(static_cast<unsigned char>(word[0])) ||
             std::string_view("\"'[{+-").find(word[0]) != word.npos || word.starts_with("true") ||
             word.starts_with("false") || word.starts_with("inf") || word.starts_with("nan");
    };
    return value != std::string_view::npos && !key.empty() && line.find(':') > equals &&
           from_first_word(line.substr(key.size())).starts_with('=') && is_value();
  }
  return false;
}

// A YAML mapping: the first line that says anything is "key:" or "key: value".
bool looks_like_yaml(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto line = text.substr(at, end - at);
    at = end + 1;
    const auto word = from_first_word(line);
    if (word.empty() || word.starts_with('#') || word.starts_with("---") || word.starts_with("%YAML")) continue;
    const auto key = word.substr(0, word.find_first_of(":\r"));
    const auto plain = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) ||
             std::string_view("_-./\"' ").find(c) != std::string_view::npos;
    };
    const auto rest = word.substr(std::min(key.size() + 1, word.size()));
    const auto value = from_first_word(rest);
    // A second "key: " on the line is no YAML, unless inside quotes, braces or a comment.
    const bool one = value.empty() || std::string_view("\"'[{#").find(value[0]) != std::string_view::npos ||
                     value.find(": ") == value.npos;
    return key.size() < word.size() && std::all_of(key.begin(), key.end(), plain) && key.find("  ") == key.npos &&
           (rest.empty() || std::isspace(static_cast<unsigned char>(rest[0]))) && one;
  }
  return false;
}

// An object, or a list of what lists hold.
bool looks_like_json(std::string_view first) {
  const auto next = from_first_word(first.substr(1));
  return first.starts_with('{') || (first.starts_with('[') && !next.empty() &&
                                    std::string_view("[]{\"-0123456789").find(next.front()) != std::string_view::npos);
}

// Nodes or events, more than a tree of values with lines is made for: under such a key, or an object each.
bool lists_what_ran(std::string_view json) {
  constexpr std::size_t kBeginning = std::size_t{64} << 10;
  const auto begin = json.substr(0, kBeginning);
  if (begin.find("\"workload_graph\"") != begin.npos || begin.find("\"traceEvents\"") != begin.npos) return true;
  return from_first_word(json.substr(first_object(json).size())).starts_with('{') && !first_object(json).empty();
}

bool is_called(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [name](auto ending) { return name.ends_with(ending); });
}

// JSON has no comments; libraries that allow some take what begins with // or /*.
void refuse_comments(const Source& source) {
  int line = 0;
  for (std::size_t at = 0; at < source.text.size(); ++line) {
    const auto end = std::min(source.text.find('\n', at), source.text.size());
    const auto words = from_first_word(std::string_view(source.text).substr(at, end - at));
    at = end + 1;
    if (words.starts_with("//") || words.starts_with("/*"))
      throw UserError({{{source.name, line + 1, 1},
                        "a comment, which JSON has none of: remove such lines, for example with sed '/^ *\\/\\//d'"}});
  }
}

class TomlTree {
 public:
  TomlTree(Sources& sources, const std::string& origin) : sources_(sources), origin_(origin) {}

  const Node* node(const toml::node& value) {
    const int line = int(value.source().begin.line), column = int(value.source().begin.column);
    if (const auto* table = value.as_table()) {
      Node* map = sources_.make(Node::Kind::map, origin_, line, column);
      for (const auto& [key, of] : *table) {
        const Node* child = node(of);
        map->entries.push_back({sources_.scalar(std::string(key.str()), true, origin_, child->line, 1), child});
        map->size += child->size + 1;
      }
      // The library sorts keys; files have an order.
      std::stable_sort(map->entries.begin(), map->entries.end(),
                       [](const auto& a, const auto& b) { return a.value->line < b.value->line; });
      return map;
    }
    if (const auto* array = value.as_array()) {
      Node* list = sources_.make(Node::Kind::sequence, origin_, line, column);
      for (const auto& of : *array) list->items.push_back(node(of)), list->size += list->items.back()->size;
      return list;
    }
    if (const auto* text = value.as_string()) return sources_.scalar(text->get(), true, origin_, line, column);
    if (const auto* yes = value.as_boolean())
      return sources_.scalar(yes->get() ? "true" : "false", false, origin_, line, column);
    if (const auto* whole = value.as_integer())
      return sources_.scalar(std::to_string(whole->get()), false, origin_, line, column);
    if (const auto* real = value.as_floating_point())
      return sources_.scalar(fmt::format("{}", real->get()), false, origin_, line, column);
    std::ostringstream out;  // dates and times
    value.visit([&](const auto& of) {
      if constexpr (!toml::is_table<decltype(of)> && !toml::is_array<decltype(of)>) out << of.get();
    });
    return sources_.scalar(out.str(), true, origin_, line, column);
  }

 private:
  Sources& sources_;
  const std::string& origin_;
};

}  // namespace

std::string as_utf8(std::string text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) return text.substr(kMark.size());
  const bool little = text.starts_with("\xFF\xFE");
  if (!little && !text.starts_with("\xFE\xFF")) return text;
  const auto unit = [&](std::size_t at) -> std::uint32_t {
    if (at + 1 >= text.size()) return 0;
    const auto a = static_cast<unsigned char>(text[at]), b = static_cast<unsigned char>(text[at + 1]);
    return little ? std::uint32_t(b << 8 | a) : std::uint32_t(a << 8 | b);
  };
  std::string utf8;
  utf8.reserve(text.size() / 2);
  for (std::size_t at = 2; at + 1 < text.size(); at += 2) {
    auto code = unit(at);
    if (const auto low = unit(at + 2); code >> 10 == 0xD800 >> 10 && low >> 10 == 0xDC00 >> 10)
      code = 0x10000 + ((code & 0x3FF) << 10 | (low & 0x3FF)), at += 2;
    const auto following = [&](int shift) { utf8 += char(0x80 | (code >> shift & 0x3F)); };
    if (code < 0x80) {
      utf8 += char(code);
    } else if (code < 0x800) {
      utf8 += char(0xC0 | code >> 6), following(0);
    } else if (code < 0x10000) {
      utf8 += char(0xE0 | code >> 12), following(6), following(0);
    } else {
      utf8 += char(0xF0 | code >> 18), following(12), following(6), following(0);
    }
  }
  return utf8;
}

std::string_view from_first_word(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

std::string_view first_object(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '{') ++depth;
    if (c == '}' && --depth == 0) return text.substr(0, i + 1);
  }
  return {};
}

const Node* Source::find(std::string_view path) const {
  const Node* at = tree;
  while (at && !path.empty()) {
    const auto key = below(path);
    at = at->kind == Node::Kind::map ? at->find(key) : nullptr;
  }
  return at;
}

bool Source::has(std::initializer_list<std::string_view> paths) const {
  return tree && std::all_of(paths.begin(), paths.end(), [this](auto path) { return find(path) != nullptr; });
}

bool Source::begins_with_line(std::string_view containing, int lines) const {
  std::size_t end = 0;
  for (int n = 0; n < lines && end != std::string::npos; ++n) end = text.find('\n', end + 1);
  return std::string_view(text).substr(0, end).find(containing) != std::string_view::npos;
}

Node* Sources::make(Node::Kind kind, const std::string& origin, int line, int column) {
  Node& node = nodes_.emplace_back();
  node.kind = kind, node.origin = &origin, node.line = line, node.column = column;
  return &node;
}

Node* Sources::scalar(std::string text, bool quoted, const std::string& origin, int line, int column) {
  Node* node = make(Node::Kind::scalar, origin, line, column);
  node->text = std::move(text), node->quoted = quoted;
  return node;
}

void Sources::read_toml(Source& source) {
  try {
    const auto table = toml::parse(source.text, source.name);
    source.tree = TomlTree(*this, source.name).node(table);
  } catch (const toml::parse_error& e) {
    throw UserError({{{source.name, int(e.source().begin.line), int(e.source().begin.column)},
                      printable(fmt::format("not valid TOML: {}", e.description()))}});
  } catch (const std::logic_error& e) {
    throw UserError({{{source.name, 0, 0}, fmt::format("not valid TOML: {}", e.what())}});
  }
}

void Sources::read_yaml(Source& source, bool json) {
  auto& [problems, documents] = parsed_.emplace_back(files_);
  const auto* tree = documents.read_text(source.text, source.name);
  if (problems.count() == 0 && tree && tree->kind != Node::Kind::scalar)
    source.tree = tree, source.kind = json ? Source::Kind::json : Source::Kind::yaml;
  else if (is_called(source.name, {".json", ".yaml", ".yml"}) || from_first_word(source.text).starts_with('{'))
    problems.throw_if_any();
}

const Source& Sources::read(const std::string& path) { return text(path, files_.read(path, kLargest)); }

const Source& Sources::text(std::string name, std::string text) {
  Source& source = sources_.emplace_back();
  source.name = std::move(name), source.text = as_utf8(std::move(text));
  if (from_first_word(source.text).empty()) throw UserError({{{source.name, 1, 1}, "is empty"}});
  const auto first = from_first_word(source.text);
  if (is_binary(source.text)) {
    source.kind = Source::Kind::bytes;
  } else if (first.starts_with('{') && lists_what_ran(first)) {
    source.kind = Source::Kind::text;
  } else if (looks_like_toml(source.text)) {
    source.kind = Source::Kind::toml;
    read_toml(source);
  } else if (const bool json = looks_like_json(first); json || looks_like_yaml(source.text)) {
    if (json) refuse_comments(source);
    read_yaml(source, json);
  }
  return source;
}

const Source& Sources::arguments(std::vector<std::string> words) {
  Source& source = sources_.emplace_back();
  source.name = "arguments", source.kind = Source::Kind::arguments, source.words = std::move(words);
  return source;
}

}  // namespace rehearsal::interchange
