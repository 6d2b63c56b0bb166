// A draft as a YAML file for people.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

#include "interchange/import.hpp"
#include "interchange/keys.hpp"
#include "scenario/diagnostics.hpp"
#include "scenario/document.hpp"

namespace rehearsal::interchange {
namespace {

// Sections in the order in which people read them; others follow.
constexpr std::array<std::string_view, 17> kOrder{
    "version",  "name",     "model",   "cluster",   "parallelism", "stages", "partition", "placement", "batch",
    "schedule", "training", "experts", "framework", "costs",       "memory", "faults",    "simulate"};
constexpr std::size_t kComment = 44;  // column of short lines' comments

bool is_plain(std::string_view text) {
  if (text.empty() || std::isspace(static_cast<unsigned char>(text.front())) ||
      std::isspace(static_cast<unsigned char>(text.back())))
    return false;
  const auto safe = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_-./ +()").find(c) != std::string_view::npos;
  };
  static constexpr std::array<std::string_view, 8> kWords{"true", "false", "null", "yes", "no", "on", "off", "~"};
  const auto small = small_letters(text);
  return std::isalpha(static_cast<unsigned char>(text.front())) && std::all_of(text.begin(), text.end(), safe) &&
         std::find(kWords.begin(), kWords.end(), small) == kWords.end();
}

// One line. A size such as 25MB or 400Gb/s begins with a digit and is plain, too.
std::string flow(const Json& value) {
  if (value.is_string()) {
    const auto& text = value.text();
    const bool amount = !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) &&
                        std::isalpha(static_cast<unsigned char>(text.back())) &&
                        text.find_first_of(" :#,[]{}") == text.npos;
    return is_plain(text) || amount ? text : value.dump();
  }
  if (value.is_array()) {
    std::string all;
    for (const auto& item : value.items()) all += (all.empty() ? "" : ", ") + flow(item);
    return "[" + all + "]";
  }
  if (value.is_object()) {
    std::string all;
    for (const auto& [key, item] : value.members())
      all += (all.empty() ? "" : ", ") + (is_plain(key) ? key : Json(key).dump()) + ": " + flow(item);
    return "{" + all + "}";
  }
  return value.dump();
}

using Entry = std::pair<std::string, const Given<Json>*>;

// Origins without the folders of files, where names alone tell these apart: the heading has them.
class Origins {
 public:
  explicit Origins(const ScenarioDraft& draft) {
    std::map<std::string, std::set<std::string>> by_name;
    for (const auto& [key, given] : draft.keys())
      if (const auto& file = given.origin.where.file; given.origin.where.line > 0)
        by_name[file.substr(file.rfind('/') + 1)].insert(file);
    for (const auto& [name, files] : by_name)
      if (files.size() == 1 && *files.begin() != name) short_[*files.begin()] = name;
  }
  std::string text(const Origin& origin) const {
    auto text = to_text(origin);
    for (const auto& [file, name] : short_)
      for (auto at = text.find(file); at != text.npos; at = text.find(file, at + name.size()))
        text.replace(at, file.size(), name);
    return printable(text);
  }

 private:
  std::map<std::string, std::string> short_;
};

void write(std::string& out, const Origins& origins, const std::vector<Entry>& entries, std::size_t depth) {
  std::vector<std::string> heads;  // in order of first appearance
  for (const auto& [key, given] : entries)
    if (const auto head = key.substr(0, key.find('.')); std::find(heads.begin(), heads.end(), head) == heads.end())
      heads.push_back(head);
  // The name of a file that others replace keys of comes first.
  if (depth > 0)
    std::stable_partition(heads.begin(), heads.end(),
                          [](const std::string& head) { return head == "use" || head == "name"; });
  for (const auto& head : heads) {
    std::vector<Entry> below;
    const Given<Json>* own = nullptr;
    for (const auto& [key, given] : entries) {
      if (key == head) own = given;
      if (key.starts_with(head + ".")) below.emplace_back(key.substr(head.size() + 1), given);
    }
    auto line = std::string(2 * depth, ' ') + head + ":";
    if (!own || !below.empty()) {
      out += line + "\n";
      write(out, origins, below, depth + 1);
      continue;
    }
    line += " " + flow(own->value);
    line.resize(std::max(line.size() + 1, kComment), ' ');
    out += line + "# " + origins.text(own->origin) + "\n";
  }
}

}  // namespace

std::string to_yaml(const ScenarioDraft& draft, const std::string& heading) {
  std::vector<Entry> entries;
  for (const auto& [key, given] : draft.keys()) entries.emplace_back(key, &given);
  const auto place = [](const std::string& key) {
    return std::find(kOrder.begin(), kOrder.end(), std::string_view(key).substr(0, key.find('.'))) - kOrder.begin();
  };
  std::stable_sort(entries.begin(), entries.end(),
                   [&place](const Entry& a, const Entry& b) { return place(a.first) < place(b.first); });
  std::string out = heading;
  write(out, Origins(draft), entries, 0);
  return out;
}

}  // namespace rehearsal::interchange
