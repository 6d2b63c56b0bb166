#include "scenario/document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>

#include "scenario/renamed.hpp"

namespace rehearsal::scenario {
namespace {

struct Stop {};  // thrown through the parser when the rest of a document cannot be interpreted

// Rewords a message of yaml-cpp for readers who do not know its parser.
std::string in_words(const std::string& message) {
  struct Word {
    std::string_view theirs, ours;
  };
  constexpr std::array kWords{
      Word{"illegal map value",
           "a ':' where no value may stand; quote texts that contain ': ', and indent with spaces"},
      Word{"end of map not found", "this line fits neither the indentation above it nor 'key: value'"},
      Word{"end of sequence not found", "this line fits neither the indentation above it nor '- item'"},
      Word{"end of map flow not found", "a '{' that is not closed, or a ',' missing after an entry"},
      Word{"end of sequence flow not found", "a '[' that is not closed, or a ',' missing after an entry"},
      Word{"illegal flow end", "a ']' or '}' that closes nothing"},
      Word{"illegal block entry", "a '- item' where no list may begin"},
      Word{"illegal tab when looking for indentation", "a tab in the indentation; YAML takes spaces only"},
      Word{"the referenced anchor is not defined", "an alias '*name' without its anchor '&name' above"},
      Word{"unknown token", "a character that no value may begin with (such as @, % or `); quote the text"},
      Word{"illegal EOF in scalar", "a quote that is not closed"},
  };
  for (const auto& w : kWords)
    if (message.starts_with(w.theirs)) return "not valid YAML: " + std::string(w.ours);
  return "not valid YAML: " + message;
}

std::optional<Location> tab_in_indentation(std::string_view text, const std::string& origin, int last_line) {
  int line = 1;
  for (std::size_t i = 0; i < text.size() && line <= last_line; line++) {
    const auto end = std::min(text.find('\n', i), text.size());
    const auto first = std::min(text.find_first_not_of(" \t", i), end);
    const auto tab = text.find('\t', i);
    if (tab < first && first < end) return Location{origin, line, static_cast<int>(tab - i) + 1};
    i = end + 1;
  }
  return std::nullopt;
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
class TreeBuilder : public YAML::EventHandler {
 public:
  // `origin` must outlive the nodes.
  TreeBuilder(Diagnostics& problems, std::string_view text, const std::string& origin, std::deque<Node>& nodes,
              std::string_view above, Documents::Words words)
      : problems_(problems), text_(text), origin_(origin), nodes_(nodes), above_(above), words_(words) {}

  const Node* root() const { return root_; }
  bool finished() const { return finished_; }
  // One sentence that lists every key and value with an old name.
  std::vector<Diagnostic> renamed() const {
    if (renamed_.empty()) return {};
    return {{first_renamed_, fmt::format("{}; the old name{} read for good", fmt::join(renamed_, ", "),
                                         renamed_.size() > 1 ? "s are" : " is")}};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (!finished_) return;
    fail(place(mark), "a second document begins; a file holds one");
  }
  void OnDocumentEnd() override { finished_ = true; }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node* node = make(Node::Kind::null, mark, anchor, false);
    if (!open_.empty() && open_.back().key)
      node->line = open_.back().key->line, node->column = open_.back().key->column;
    finish(node, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Node* target = anchor < anchors_.size() ? anchors_[anchor] : nullptr;
    if (!target) fail(place(mark), "an alias inside its own anchor: the value would contain itself");
    attach(target, place(mark));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node* node = make(Node::Kind::scalar, mark, anchor, false);
    node->text = name_of_today(value, node->where());
    node->quoted = tag != "?";
    if (node->quoted) check_closing_quote(mark);
    finish(node, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(make(Node::Kind::sequence, mark, anchor, style == YAML::EmitterStyle::Block), anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(make(Node::Kind::map, mark, anchor, style == YAML::EmitterStyle::Block), anchor);
  }
  void OnMapEnd() override {
    if (words_ == Documents::Words::foreign) forget_overwritten_nulls(*open_.back().node);
    report_duplicates(*open_.back().node);
    close();
  }

 private:
  struct Open {
    Node* node;
    YAML::anchor_t anchor;
    const Node* key = nullptr;  // of the entry being read
  };

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

  Location place(const YAML::Mark& mark) const { return {origin_, mark.line + 1, mark.column + 1}; }

  [[noreturn]] void fail(Location where, std::string message) {
    problems_.error(std::move(where), std::move(message));
    throw Stop{};
  }

  Node* make(Node::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor, bool block) {
    if (finished_ || ++made_ > Documents::kMostNodes)
      fail(place(mark), fmt::format("more than {} values in one file", Documents::kMostNodes));
    Node& node = nodes_.emplace_back();
    node.kind = kind, node.origin = &origin_;
    node.line = mark.line + 1, node.column = mark.column + 1;
    // A block below `key:` begins on a line of its own; errors about the whole block are reported at the key.
    if (block && !open_.empty() && open_.back().key)
      node.line = open_.back().key->line, node.column = open_.back().key->column;
    if (anchor >= anchors_.size() && anchor != YAML::NullAnchor) anchors_.resize(anchor + 1, nullptr);
    return &node;
  }

  void open(Node* node, YAML::anchor_t anchor) {
    if (open_.size() >= static_cast<std::size_t>(Documents::kDeepest))
      fail(node->where(), fmt::format("nested more than {} levels deep", Documents::kDeepest));
    open_.push_back({node, anchor});
  }

  void close() {
    const Open done = open_.back();
    open_.pop_back();
    finish(done.node, done.anchor);
  }

  void finish(Node* node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
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
        problems_.error(all[i].key->where(), fmt::format("duplicate key {}; it is already given in line {}",
                                                         in_quotes(all[i].key->text), all[i - 1].key->line));
  }

  // yaml-cpp 0.7 accepts the end of the file as the end of an open quote.
  void check_closing_quote(const YAML::Mark& mark) {
    auto i = static_cast<std::size_t>(std::max(mark.pos, 0));
    if (i >= text_.size() || (text_[i] != '"' && text_[i] != '\'')) return;  // a block scalar, or after a tag
    const char quote = text_[i];
    for (i++; i < text_.size(); i++) {
      if (quote == '"' && text_[i] == '\\')
        i++;
      else if (text_[i] == quote && quote == '\'' && i + 1 < text_.size() && text_[i + 1] == quote)
        i++;  // '' stands for one quote
      else if (text_[i] == quote)
        return;
    }
    fail(place(mark), "not valid YAML: a quote that is not closed");
  }

  Diagnostics& problems_;
  std::string_view text_;
  const std::string& origin_;
  std::deque<Node>& nodes_;
  const std::string_view above_;
  const Documents::Words words_;
  std::set<std::string> renamed_;
  Location first_renamed_;
  const Node* root_ = nullptr;
  std::vector<Open> open_;
  std::vector<const Node*> anchors_;  // by number; nullptr until the node is complete
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
  TreeBuilder builder(problems_, text, name, nodes, above, words_);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(builder) || !builder.root() || builder.root()->kind == Node::Kind::null) {
      problems_.error({name, 1, 1}, "is empty");
      return {};
    }
    parser.HandleNextDocument(builder);
  } catch (const Stop&) {
    return {builder.finished() ? builder.root() : nullptr};
  } catch (const YAML::DeepRecursion& e) {
    problems_.error({name, e.mark.line + 1, e.mark.column + 1},
                    fmt::format("nested more than {} levels deep", kDeepest));
    return {};
  } catch (const YAML::Exception& e) {
    if (const auto tab = tab_in_indentation(text, name, e.mark.line + 1))
      problems_.error(*tab, "not valid YAML: a tab in the indentation; YAML takes spaces only");
    else
      problems_.error({name, e.mark.line + 1, e.mark.column + 1}, in_words(e.msg));
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
