// A YAML file (JSON is YAML) as a tree in which every node knows where it stands. The only user of libyaml, through
// its events: duplicate keys, a second document, cycles and alias bombs are seen here, which its own tree lets pass.
//
// Nodes are immutable once built and live as long as the Documents that made or read them; aliases share nodes. Depth
// is at most kDeepest, so walking a tree may recurse. Keys have their current names (renamed.hpp). A file without
// errors is parsed once per process while its text stays the same: thousands of scenarios share the files of configs/.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/diagnostics.hpp"
#include "scenario/files.hpp"

namespace rehearsal::scenario {

struct Node;
struct Entry {
  const Node* key;  // always a scalar
  const Node* value;
};

struct Node {
  enum class Kind : std::uint8_t { null, scalar, sequence, map };
  Kind kind = Kind::null;
  bool quoted = false;                  // "8" is a text, 8 a number
  const char* tag = nullptr;            // what makes a scalar without quotes a text: !!str 8
  int line = 0, column = 0;             // from 1; a block map, a block sequence and a null take the place of their key
  const std::string* origin = nullptr;  // the file, or "--set KEY=VALUE" (line 0)
  std::string text;                     // scalar
  std::vector<const Node*> items;       // sequence
  std::vector<Entry> entries;           // map, in file order
  std::size_t size = 1;                 // this node and all below; shared nodes count once per path to them

  const Node* find(std::string_view key) const;  // value of a map's key, or nullptr
  Location where() const { return {*origin, line, column}; }
};

// A node as one line of YAML that reads back as the same node.
std::string flow_text(const Node& node);

// A file after parsing.
struct DocumentTree;

class Documents {
 public:
  static constexpr int kDeepest = 64;
  static constexpr std::size_t kMostNodes = 100'000;
  static constexpr std::size_t kLargestFile = 4 << 20;

  // Whose words a file has: those of this program, whose old names are read for good, or those of another tool.
  enum class Words : std::uint8_t { ours, foreign };

  explicit Documents(Diagnostics& problems, const Files& files = disk(), Words words = Words::ours)
      : problems_(problems), files_(files), words_(words) {}
  Documents(const Documents&) = delete;
  Documents& operator=(const Documents&) = delete;

  // Reads one document. Returns nullptr, after reporting at least one error, when there is no usable one (unreadable,
  // empty, not YAML). Errors that still leave a tree (duplicate keys, a second document) are reported beside it.
  const Node* read_file(const std::string& path);
  // `above`: the key whose value the text is, if it is not a whole file.
  const Node* read_text(std::string_view text, const std::string& origin, std::string_view above = "");

  // `assignment` = "batch.micro=2": a copy of `root` with that value. Missing maps are created, list entries are
  // addressed by index, and a name short for a mapping is expanded (`schedule: 1f1b` -> `schedule: {name: 1f1b}`).
  const Node* set(const Node* root, const std::string& assignment);
  // Applies them in order. `root` may be null (the file could not be read); then the result is null too.
  const Node* set(const Node* root, const std::vector<std::string>& assignments);

  // `over` laid on `base`: maps are merged key by key, everything else is replaced.
  const Node* overlay(const Node* base, const Node* over);

  Node* make(Node::Kind kind, const Node& place);  // an empty node with the location of another

 private:
  struct Parsed {
    const Node* root = nullptr;
    std::vector<Diagnostic> renamed = {};  // at most one: keys and values with old names (renamed.hpp)
  };
  Parsed parse(std::string_view text, const std::string& origin, std::deque<Node>& nodes, std::string_view above);
  const Node* cited_one_by_one(const Node& all);
  const Node* assign(const Node* node, std::string_view key, std::string_view rest, const Node& value, int depth);

  Diagnostics& problems_;
  const Files& files_;
  const Words words_;
  std::deque<Node> nodes_;
  std::deque<std::string> origins_;
  std::vector<std::shared_ptr<const DocumentTree>> trees_;
};

// What messages give as the location of a value from --set.
std::string set_origin(const std::string& assignment);

// A file that is checked to be UTF-8 text of at most `limit` bytes. Throws UserError.
std::string read_text_file(const std::string& path, std::size_t limit, const Files& files = disk());

}  // namespace rehearsal::scenario
