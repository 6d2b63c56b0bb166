#include "scenario/document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "scenario/renamed.hpp"

namespace rehearsal::scenario {
namespace {

struct Stop {};  // thrown through the parser when the rest of a document cannot be interpreted

// libyaml looks for the ':' of a key in so many characters, and then finds one where it expects none.
bool has_long_key(const yaml_parser_t& parser, std::string_view text) {
  constexpr std::size_t kLongest = 1024;
  std::size_t colon = 0;
  for (std::size_t characters = 0; colon < text.size(); ++colon)
    if ((text[colon] & 0xC0) != 0x80 && characters++ == parser.problem_mark.index) break;
  if (colon <= kLongest || colon >= text.size() || text[colon] != ':') return false;
  return text.substr(colon - kLongest, kLongest).find_first_of("{,\n") == text.npos;
}

// Rewords what libyaml has against a text, for readers who do not know its parser.
std::string in_words(const yaml_parser_t& parser, std::string_view text) {
  if (has_long_key(parser, text)) return "not valid YAML: a key of more than 1024 characters";
  struct Word {
    std::string_view theirs, ours;
  };
  constexpr std::array kWords{
      Word{"mapping values are not allowed",
           "a ':' is not allowed here; quote text that contains ': ', and indent with spaces"},
      Word{"did not find expected key", "this line fits neither the indentation above it nor 'key: value'"},
      Word{"did not find expected '-' indicator", "this line fits neither the indentation above it nor '- item'"},
      Word{"did not find expected ',' or '}'", "a '{' that is not closed, or a ',' missing after an entry"},
      Word{"did not find expected ',' or ']'", "a '[' that is not closed, or a ',' missing after an entry"},
      Word{"did not find expected <document start>", "text after the end of the value"},
      Word{"did not find expected node content", "a value is missing here, or a bracket closes nothing"},
      Word{"block sequence entries are not allowed", "a '- item' is not allowed here"},
      Word{"could not find expected ':'", "a line without 'key: value', or a bracket that is not closed"},
      Word{"found character that cannot start any token",
           "a character that no value may begin with (such as @, % or `); quote the text"},
      Word{"found unexpected ':'", "a ':' without a value after it"},
      Word{"found unexpected end of stream", "a quote that is not closed"},
      Word{"found unexpected document indicator", "a quote that is not closed"},
      Word{"found unknown directive name",
           "a line that begins with % is a directive, and this one is unknown; quote the text"},
      Word{"could not find expected directive", "a line that begins with % is a directive, and this one has no name"},
      Word{"found incompatible YAML document", "'%YAML' asks for another version than 1.1 or 1.2; leave the line out"},
      Word{"found undefined tag handle", "a tag '!name!' that no '%TAG' line defines; leave it out"},
      Word{"found unknown escape character", "an escape that YAML does not have; a backslash is \\\\, or quote with '"},
      Word{"did not find expected hexdecimal number", "an escape without its hexadecimal digits"},
      Word{"did not find expected alphabetic or numeric",
           "a '*' or '&' without the name of an anchor; quote texts that begin with one"},
      Word{"did not find expected comment or line break", "text after a '|' or '>'; begin it on the next line"},
      Word{"invalid", "bytes that are not UTF-8"},
      Word{"incomplete UTF", "bytes that are not UTF-8"},
      Word{"control characters are not allowed", "a control character; is this a text file?"},
  };
  const std::string message = parser.problem ? parser.problem : "out of memory";
  for (const auto& w : kWords)
    if (message.starts_with(w.theirs)) return "not valid YAML: " + std::string(w.ours);
  return "not valid YAML: " + message;
}

// In the line where libyaml stopped.
std::optional<Location> tab_in_indentation(std::string_view text, const std::string& origin, int at) {
  int line = 1;
  for (std::size_t i = 0; i < text.size() && line <= at; line++) {
    const auto end = std::min(text.find('\n', i), text.size());
    const auto first = std::min(text.find_first_not_of(" \t", i), end);
    const auto tab = text.find('\t', i);
    if (line == at && tab < first && first < end) return Location{origin, line, static_cast<int>(tab - i) + 1};
    i = end + 1;
  }
  return std::nullopt;
}

// JSON writes what is above U+FFFF as two escapes of four digits, which YAML has as one of eight.
std::string joined_surrogates(std::string_view text) {
  std::string joined(text);
  const auto half = [&joined](std::size_t at) -> unsigned {
    if (at + 6 > joined.size() || joined.compare(at, 2, "\\u") != 0) return 0;
    unsigned value = 0;
    const auto [end, error] = std::from_chars(joined.data() + at + 2, joined.data() + at + 6, value, 16);
    return error == std::errc() && end == joined.data() + at + 6 ? value : 0;
  };
  for (std::size_t at = 0; (at = joined.find("\\u", at)) != joined.npos; at += 2) {
    const unsigned high = half(at), low = half(at + 6);
    if (high < 0xD800 || high > 0xDBFF || low < 0xDC00 || low > 0xDFFF) continue;
    joined.replace(at, 12, fmt::format("\\U{:08X}", 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)));
  }
  return joined;
}

// YAML 1.1, and so libyaml, ends lines at U+0085, U+2028 and U+2029; JSON, YAML 1.2 and editors do not. It is given
// characters in their place of a plane that nobody uses.
struct NoBreak {
  std::string_view true_one, given;
};
constexpr std::array kNoBreaks{NoBreak{"\xC2\x85", "\xF3\xB0\x82\x85"}, NoBreak{"\xE2\x80\xA8", "\xF3\xB2\x80\xA8"},
                               NoBreak{"\xE2\x80\xA9", "\xF3\xB2\x80\xA9"}};
void replace_all(std::string& text, std::string_view old, std::string_view now) {
  for (std::size_t at = 0; (at = text.find(old, at)) != text.npos; at += now.size()) text.replace(at, old.size(), now);
}

// As libyaml reads it.
std::string prepared(std::string_view text) {
  auto all = joined_surrogates(text);
  for (const auto& one : kNoBreaks) replace_all(all, one.true_one, one.given);
  return all;
}
bool must_be_prepared(std::string_view text) {
  if (text.find("\\ud") != text.npos || text.find("\\uD") != text.npos) return true;
  return std::any_of(kNoBreaks.begin(), kNoBreaks.end(),
                     [text](const NoBreak& one) { return text.find(one.true_one) != text.npos; });
}
std::string as_written(std::string text) {
  if (text.find(kNoBreaks[0].given[0]) != text.npos)
    for (const auto& one : kNoBreaks) replace_all(text, one.given, one.true_one);
  return text;
}

// Of an open quote or bracket where it begins, rather than the end of the file; of a line without a key that line,
// rather than the next one. The reader knows bytes only.
yaml_mark_t place_of_problem(const yaml_parser_t& parser, std::string_view text) {
  if (parser.error == YAML_READER_ERROR) {
    const auto before = text.substr(0, parser.problem_offset);
    const auto line = std::size_t(std::count(before.begin(), before.end(), '\n'));
    return {before.size(), line, before.size() - (line == 0 ? 0 : before.rfind('\n') + 1)};
  }
  const std::string_view problem = parser.problem ? parser.problem : "";
  const bool ends = parser.problem_mark.index >= text.size() && problem.starts_with("did not find expected ',' or");
  const bool before = problem == "found unexpected end of stream" || problem == "could not find expected ':'" || ends;
  return before && parser.context ? parser.context_mark : parser.problem_mark;
}

}  // namespace

const Node* Node::find(std::string_view key) const {
  for (const auto& e : entries)
    if (e.key->text == key) return e.value;
  return nullptr;
}

Node* Documents::make(Node::Kind kind, const Node& place) {
  Node& node = nodes_.emplace_back();
  node.kind = kind, node.origin = place.origin, node.line = place.line, node.column = place.column;
  return &node;
}

// Turns events into nodes. Throws Stop after reporting an error that makes the rest of the document meaningless.
class TreeBuilder {
 public:
  // `origin` must outlive the nodes.
  TreeBuilder(Diagnostics& problems, const std::string& origin, std::deque<Node>& nodes, std::string_view above,
              Documents::Words words)
      : problems_(problems), origin_(origin), nodes_(nodes), above_(above), words_(words) {}

  const Node* root() const { return root_; }
  bool finished() const { return finished_; }
  // One sentence that lists every key and value with an old name.
  std::vector<Diagnostic> renamed() const {
    if (renamed_.empty()) return {};
    return {{first_renamed_, fmt::format("{}; the old name{} read for good", fmt::join(renamed_, ", "),
                                         renamed_.size() > 1 ? "s are" : " is")}};
  }
  Location place(const yaml_mark_t& mark) const { return {origin_, int(mark.line) + 1, int(mark.column) + 1}; }

  void add(const yaml_event_t& event) {
    const auto& mark = event.start_mark;
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        if (finished_) fail(place(mark), "a second document begins here; a file holds only one");
        break;
      case YAML_DOCUMENT_END_EVENT:
        finished_ = true;
        break;
      case YAML_ALIAS_EVENT:
        add_alias(name_of(event.data.alias.anchor), mark);
        break;
      case YAML_SCALAR_EVENT:
        add_scalar(event.data.scalar, mark);
        break;
      case YAML_SEQUENCE_START_EVENT:
        check_tag(event.data.sequence_start.tag, "!!seq", mark);
        open(make(Node::Kind::sequence, mark, event.data.sequence_start.style != YAML_FLOW_SEQUENCE_STYLE),
             name_of(event.data.sequence_start.anchor));
        break;
      case YAML_MAPPING_START_EVENT:
        check_tag(event.data.mapping_start.tag, "!!map", mark);
        open(make(Node::Kind::map, mark, event.data.mapping_start.style != YAML_FLOW_MAPPING_STYLE),
             name_of(event.data.mapping_start.anchor));
        break;
      case YAML_MAPPING_END_EVENT:
        if (words_ == Documents::Words::foreign) forget_overwritten_nulls(*open_.back().node);
        report_duplicates(*open_.back().node);
        close();
        break;
      case YAML_SEQUENCE_END_EVENT:
        close();
        break;
      default:
        break;
    }
  }

 private:
  struct Open {
    Node* node;
    std::string anchor;
    const Node* key = nullptr;  // of the entry being read
  };

  static std::string name_of(const yaml_char_t* anchor) {
    return anchor ? reinterpret_cast<const char*>(anchor) : std::string();
  }

  void add_alias(const std::string& anchor, const yaml_mark_t& mark) {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) fail(place(mark), "not valid YAML: an alias '*name' without its anchor '&name' above");
    if (!found->second) fail(place(mark), "an alias inside its own anchor: the value would contain itself");
    attach(found->second, place(mark));
  }

  using Scalar = decltype(yaml_event_t::data.scalar);

  // Whether a tag is one of those that a value of its kind may have.
  template <std::size_t N>
  bool is_tagged(const yaml_char_t* said, const std::array<std::string_view, N>& known) const {
    std::string tag = name_of(said);
    replace_all(tag, "tag:yaml.org,2002:", "!!");
    return std::find(known.begin(), known.end(), tag) != known.end();
  }
  void no_tag(const yaml_char_t* said, const yaml_mark_t& mark) {
    std::string tag = name_of(said);
    replace_all(tag, "tag:yaml.org,2002:", "!!");
    problems_.error(place(mark), fmt::format("the tag {} has no effect here; leave it out", in_quotes(tag)));
  }
  void check_tag(const yaml_char_t* said, std::string_view known, const yaml_mark_t& mark) {
    if (said && words_ == Documents::Words::ours && !is_tagged(said, std::array{known, std::string_view("!")}))
      no_tag(said, mark);
  }

  // By its tag, or else by its quotes.
  struct Text {
    bool is = false;
    const char* by = nullptr;  // a tag alone
  };
  Text is_text(const Scalar& scalar, const yaml_mark_t& mark) {
    using namespace std::string_view_literals;
    const bool quoted = scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (!scalar.tag) return {quoted};
    if (is_tagged(scalar.tag, std::array{"!!int"sv, "!!float"sv, "!!bool"sv, "!!null"sv})) return {};
    const char* by = is_tagged(scalar.tag, std::array{"!!str"sv}) ? "!!str" : "!";
    if (is_tagged(scalar.tag, std::array{"!"sv, "!!str"sv}) || words_ == Documents::Words::foreign)
      return {true, quoted ? nullptr : by};
    no_tag(scalar.tag, mark);  // and is read as if it were not there: one error is enough
    return {quoted};
  }

  void add_scalar(const Scalar& scalar, const yaml_mark_t& mark) {
    const auto text = as_written({reinterpret_cast<const char*>(scalar.value), scalar.length});
    const auto [quoted, tag] = is_text(scalar, mark);
    static constexpr std::array<std::string_view, 5> kNulls{"", "~", "null", "Null", "NULL"};
    const bool null = !quoted && std::find(kNulls.begin(), kNulls.end(), text) != kNulls.end();
    Node* node = make(null ? Node::Kind::null : Node::Kind::scalar, mark, null);
    if (!null) node->text = name_of_today(text, node->where()), node->quoted = quoted;
    node->tag = tag;
    finish(node, name_of(scalar.anchor));
  }

  // The key of the innermost of `depth` open collections; entries of a list take the list's key.
  std::string_view above(std::size_t depth) const {
    for (; depth > 1; --depth)
      if (const Node* key = open_[depth - 2].key) return key->text;
    return above_;
  }
  std::string name_of_today(const std::string& text, const Location& where) {
    if (words_ == Documents::Words::foreign) return text;
    const std::size_t depth = open_.size();
    const bool is_key = depth > 0 && open_.back().node->kind == Node::Kind::map && !open_.back().key;
    std::string_view today;
    if (is_key) {
      today = key_of_today(above(depth), text);
    } else {
      const std::string_view key =
          depth > 0 && open_.back().key ? std::string_view(open_.back().key->text) : above(depth);
      today = value_of_today(key == "use" ? above(depth) : key, text);
    }
    if (today == text) return text;
    if (renamed_.empty()) first_renamed_ = where;
    renamed_.insert(fmt::format("'{}' is called '{}' now", text, today));
    return std::string(today);
  }

  [[noreturn]] void fail(Location where, std::string message) {
    problems_.error(std::move(where), std::move(message));
    throw Stop{};
  }

  Node* make(Node::Kind kind, const yaml_mark_t& mark, bool block) {
    if (finished_ || ++made_ > Documents::kMostNodes)
      fail(place(mark), fmt::format("the file has more than {} values", Documents::kMostNodes));
    Node& node = nodes_.emplace_back();
    node.kind = kind, node.origin = &origin_;
    node.line = int(mark.line) + 1, node.column = int(mark.column) + 1;
    // A block below `key:` begins on a line of its own; errors about the whole block are reported at the key.
    if (block && !open_.empty() && open_.back().key)
      node.line = open_.back().key->line, node.column = open_.back().key->column;
    return &node;
  }

  void open(Node* node, std::string anchor) {
    if (open_.size() >= static_cast<std::size_t>(Documents::kDeepest))
      fail(node->where(), fmt::format("nested more than {} levels deep", Documents::kDeepest));
    if (!anchor.empty()) anchors_[anchor] = nullptr;
    open_.push_back({node, std::move(anchor)});
  }

  void close() {
    const Open done = std::move(open_.back());
    open_.pop_back();
    finish(done.node, done.anchor);
  }

  void finish(Node* node, const std::string& anchor) {
    if (!anchor.empty()) anchors_[anchor] = node;
    attach(node, node->where());
  }

  void attach(const Node* node, const Location& where) {
    if (open_.empty()) {
      root_ = node;
      return;
    }
    Open& parent = open_.back();
    // The size cannot overflow: each child's is at most kMostNodes when it is added.
    parent.node->size += node->size;
    if (parent.node->size > Documents::kMostNodes)
      fail(where, fmt::format("aliases expand to more than {} values", Documents::kMostNodes));
    if (parent.node->kind == Node::Kind::sequence) {
      parent.node->items.push_back(node);
    } else if (!parent.key) {
      if (node->kind != Node::Kind::scalar) problems_.error(where, "a key must be a plain word");
      if (node->text == "<<" && !node->quoted)
        problems_.error(where,
                        "merge keys ('<<', of YAML 1.1) are not supported; write out the keys that it would merge");
      parent.key = node;
    } else {
      if (parent.key->kind == Node::Kind::scalar) parent.node->entries.push_back({parent.key, node});
      parent.key = nullptr;
    }
  }

  // Writers of other tools append a key that says something to defaults that say null; their readers take the last.
  static void forget_overwritten_nulls(Node& map) {
    for (std::size_t i = map.entries.size(); i-- > 0;) {
      if (map.entries[i].value->kind != Node::Kind::null) continue;
      const auto& name = map.entries[i].key->text;
      const bool again = std::any_of(map.entries.begin() + std::ptrdiff_t(i) + 1, map.entries.end(),
                                     [&name](const Entry& later) { return later.key->text == name; });
      if (again) map.entries.erase(map.entries.begin() + std::ptrdiff_t(i));
    }
  }

  // Other tools take the last of equal keys; where these say the same, nothing is lost.
  void report_duplicates(const Node& map) {
    std::vector<Entry> all = map.entries;
    std::stable_sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.key->text < b.key->text; });
    for (std::size_t i = 1; i < all.size(); i++)
      if (all[i].key->text == all[i - 1].key->text &&
          (words_ == Documents::Words::ours || flow_text(*all[i].value) != flow_text(*all[i - 1].value)))
        problems_.error(all[i].key->where(), fmt::format("duplicate key {}; it is already given on line {}",
                                                         in_quotes(all[i].key->text), all[i - 1].key->line));
  }

  Diagnostics& problems_;
  const std::string& origin_;
  std::deque<Node>& nodes_;
  const std::string_view above_;
  const Documents::Words words_;
  std::set<std::string> renamed_;
  Location first_renamed_;
  const Node* root_ = nullptr;
  std::vector<Open> open_;
  std::map<std::string, const Node*> anchors_;  // by name; nullptr until the node is complete
  std::size_t made_ = 0;
  bool finished_ = false;
};

const Node* Documents::read_text(std::string_view text, const std::string& origin, std::string_view above) {
  const Parsed parsed = parse(text, origins_.emplace_back(origin), nodes_, above);
  for (const auto& d : parsed.renamed) problems_.warn(d.where, d.message);
  return parsed.root;
}

Documents::Parsed Documents::parse(std::string_view text, const std::string& name, std::deque<Node>& nodes,
                                   std::string_view above) {
  struct Parser : yaml_parser_t {
    Parser() : yaml_parser_t{} { yaml_parser_initialize(this); }
    ~Parser() { yaml_parser_delete(this); }
    Parser(const Parser&) = delete;
    Parser& operator=(const Parser&) = delete;
  } parser;
  struct Event : yaml_event_t {
    ~Event() { yaml_event_delete(this); }
  };
  std::string other;
  if (must_be_prepared(text)) text = other = prepared(text);
  yaml_parser_set_input_string(&parser, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  TreeBuilder builder(problems_, name, nodes, above, words_);
  try {
    for (bool more = true; more;) {
      Event event{};
      if (!yaml_parser_parse(&parser, &event)) {
        const auto mark = place_of_problem(parser, text);
        const auto tab = tab_in_indentation(text, name, int(mark.line) + 1);
        problems_.error(
            tab ? *tab : builder.place(mark),
            tab ? "not valid YAML: a tab in the indentation; YAML takes spaces only" : in_words(parser, text));
        return {};
      }
      more = event.type != YAML_STREAM_END_EVENT;
      builder.add(event);
    }
  } catch (const Stop&) {
    return {builder.finished() ? builder.root() : nullptr};
  }
  if (!builder.root() || builder.root()->kind == Node::Kind::null) {
    problems_.error({name, 1, 1}, "is empty");
    return {};
  }
  return {builder.root(), builder.renamed()};
}

struct DocumentTree {
  std::string origin, text;
  std::deque<Node> nodes;
  const Node* root = nullptr;
  std::vector<Diagnostic> renamed = {};
};

namespace {

// Cache of files that were read without an error, by name.
class ReadBefore {
 public:
  std::shared_ptr<const DocumentTree> find(const std::string& origin, const std::string& text) {
    const std::scoped_lock lock(mutex_);
    const auto found = trees_.find(origin);
    return found != trees_.end() && found->second->text == text ? found->second : nullptr;
  }
  void keep(const std::shared_ptr<const DocumentTree>& tree) {
    constexpr std::size_t kMostTrees = 512, kLargestKept = 256 << 10;
    if (tree->text.size() > kLargestKept) return;
    const std::scoped_lock lock(mutex_);
    if (trees_.size() >= kMostTrees) trees_.clear();  // a tree in use is kept alive by its user
    trees_[tree->origin] = tree;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const DocumentTree>> trees_;
};

}  // namespace

const Node* Documents::read_file(const std::string& path) {
  static ReadBefore read_before;
  try {
    auto text = read_text_file(path, kLargestFile, files_);
    std::shared_ptr<const DocumentTree> tree = read_before.find(path, text);
    if (!tree) {
      auto made = std::make_shared<DocumentTree>(DocumentTree{path, std::move(text), {}, nullptr});
      const auto problems = problems_.count();
      const Parsed parsed = parse(made->text, made->origin, made->nodes, "");
      made->root = parsed.root, made->renamed = parsed.renamed;
      tree = made;
      if (problems_.count() == problems) read_before.keep(tree);
    }
    for (const auto& d : tree->renamed) problems_.warn(d.where, d.message);
    return trees_.emplace_back(std::move(tree))->root;
  } catch (const UserError& e) {
    for (const auto& d : e.diagnostics()) problems_.error(d.where, d.message);
    return nullptr;
  }
}

}  // namespace rehearsal::scenario
