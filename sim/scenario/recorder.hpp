// What the strict reader knows of the file format, written down while it reads: which keys a mapping may have, of which
// kind, range, choices and default, and which it must have. The loaders stay the only description of the format; the
// schema (schema.hpp) is what they asked for while they read examples that touch every branch.
//
// Only examples are recorded; for every other file there is no recorder and nothing is done. Nodes are known by their
// address, so they must outlive the recording.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/document.hpp"

namespace rehearsal::scenario {

// One kind of value that the reader takes.
struct Form {
  enum class Kind : std::uint8_t { integer, number, boolean, text, time, bytes, bandwidth, flop_rate, choice, name };
  Kind kind;
  double low = 0, high = 0;  // of an integer or a number, inclusive
  bool above = false;        // `low` itself is not allowed
  // The values of a choice, or what a name may be; `what` it names: "model".
  std::vector<std::string> names{};
  std::string what{};
};

struct Object;

struct Field {
  std::string key;
  std::vector<Form> forms, items;       // of the value, and of the entries where it is a list
  std::unique_ptr<Object> object;       // where it is a mapping
  bool null = false;                    // null means absent
  std::set<std::string> defaults;       // as a user would write them; more than one: it depends
  std::set<std::string> planned;        // choices that are known but not built
  bool built = true;                    // else only `as_if_absent` is allowed
  std::string as_if_absent;             // empty: nothing is
  std::size_t asked = 0, required = 0;  // readings of the mapping that asked for the key, and that insisted
};

// A mapping. Keys in the order in which they were first asked for.
struct Object {
  std::string path;  // "cluster.links"; empty for the whole file
  std::vector<std::unique_ptr<Field>> fields;
  std::size_t readings = 0;
  bool cited = false;  // values may be written {value, source, assumed}

  Field* find(std::string_view key) const;
  Field& field(std::string_view key);
  bool requires_key(const Field& f) const { return f.required == readings; }
};

class Recorder {
 public:
  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  const Object& root() const { return root_; }
  // The next file begins at this node.
  void begin(const Node& root) { top_ = &root; }

  // The mapping that a reader opens at this node; nullptr when no recorded key leads there.
  Object* open(const Node* node);
  void asked(Object& object, std::string_view key, const Node* value);
  void close(Object& object, const std::vector<std::string>& asked, const std::vector<std::string>& required);
  // A value that was read in this way, whichever key led there.
  void read(const Node& value, const Form& form);

  static void add(std::vector<Form>& forms, const Form& form);

 private:
  Object root_;
  const Node* top_ = nullptr;
  std::map<const Node*, Field*> values_, items_;
  std::map<const Field*, std::string> paths_;  // of the mapping that a field stands in
};

}  // namespace rehearsal::scenario
