// A scenario while it is put together from files of other tools: its keys, each with where its value is from, what
// these files say that is no key by itself, and what they say that a scenario has no word for.
//
// A format (format.hpp) says what its file says. What follows from all files together is concluded afterwards
// (conclude.hpp): data from the number of GPUs, the batch from its accumulation.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "scenario/document.hpp"
#include "scenario/files.hpp"

namespace rehearsal::interchange {

enum class Basis : std::uint8_t { said, derived, assumed };
const char* name(Basis basis);

struct Origin {
  Basis basis = Basis::assumed;
  Location where = {};   // of what was said
  std::string how = {};  // "layers 32 / pipeline 4", "no file says it"; of what was said: the word there, if it differs
};

template <class T>
struct Given {
  T value;
  Origin origin;
};

// Amounts that are no keys of a scenario by themselves.
enum class Fact : std::uint8_t {
  world,            // GPUs of the job
  nodes,            // of the job
  gpus_per_node,    // that the job uses
  replicas,         // groups of replicas that hold copies (HSDP)
  shards,           // replicas that split states; -1: all that are left
  data,             // replicas, where a file says them by themselves
  accumulation,     // micro-batches of a pipeline in a step
  longest,          // the longest sequence that the model takes
  vocabulary,       // unpadded
  vocabulary_unit,  // of which a padded vocabulary is a multiple, before `tensor`
  nvlinks,          // of a GPU, whose rate is that of their generation
  nodes_per_leaf,   // whose NICs meet on the first switches
  switch_levels,    // between nodes
};
inline constexpr std::size_t kFacts = 13;
const char* name(Fact fact);  // "GPUs", for messages

// What is not in the scenario.
struct Left {
  Location where;
  std::string what;  // as the file has it: "--delay-wgrad-compute", "sliding_window 128"
  std::string why;   // "no word for it in a scenario", "taken as swiglu"
};

class ScenarioDraft {
 public:
  // A key of the scenario, dotted: "model.layers". A key that is said twice must be said alike, else the files
  // contradict each other (UserError with both places); what is said goes before what is derived, and that before what
  // is assumed.
  void say(const std::string& key, Json value, const scenario::Node& at, std::string word = "");
  void derive(const std::string& key, Json value, std::string how);
  void assume(const std::string& key, Json value, std::string why);
  // As said by the user, over all files; null leaves out what these say.
  void set(const std::string& key, Json value, std::string option);

  bool has(std::string_view key) const;  // or a key below it
  const Json* find(std::string_view key) const;
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  const Origin* origin(std::string_view key) const;
  void remove(std::string_view key);  // and all below it
  const std::map<std::string, Given<Json>, std::less<>>& keys() const { return keys_; }

  void say(Fact fact, std::int64_t value, const scenario::Node& at, std::string word = "");
  void derive(Fact fact, std::int64_t value, std::string how);
  void assume(Fact fact, std::int64_t value, std::string why);
  const std::optional<Given<std::int64_t>>& operator[](Fact fact) const { return facts_[std::size_t(fact)]; }

  // Known, and a scenario has no word for it, or takes it for something else.
  void no_word(const Location& where, std::string what, std::string why = "");
  // A word that the format does not know.
  void not_understood(const Location& where, std::string what);
  // The value is said elsewhere: `key` must come from another file or from the user, which `from` tells.
  void wanted(const Location& where, const std::string& key, std::string what, std::string from);

  // Of a file that says no key: what it holds instead, for a message where no other file says one.
  void says_no_key(const Location& where, std::string holds, std::string cure);

  // What follows of this file from what others say, too (a bucket from the width of the model): runs when all files are
  // read and the user has had a say.
  using Later = std::function<void(ScenarioDraft&, const scenario::Files&)>;
  void later(Later conclusion) { later_.push_back(std::move(conclusion)); }
  void run_later(const scenario::Files& files);

  struct Wanted {
    Location where;
    std::string key, what, from;
  };
  const std::vector<Left>& unworded() const { return unworded_; }
  const std::vector<Left>& unknown() const { return unknown_; }
  const std::vector<Wanted>& wants() const { return wanted_; }
  struct Keyless {
    Location where;
    std::string holds, cure;
  };
  const std::vector<Keyless>& keyless() const { return keyless_; }

 private:
  void put(const std::string& key, Json value, Origin origin);
  void put(Fact fact, std::int64_t value, Origin origin);

  std::map<std::string, Given<Json>, std::less<>> keys_;
  std::array<std::optional<Given<std::int64_t>>, kFacts> facts_;
  std::vector<Left> unworded_, unknown_;
  std::vector<Wanted> wanted_;
  std::vector<Keyless> keyless_;
  std::vector<Later> later_;
};

// "config.json:12", or what else `where` names.
std::string to_text(const Location& where);
std::string to_text(const Origin& origin);

}  // namespace rehearsal::interchange
