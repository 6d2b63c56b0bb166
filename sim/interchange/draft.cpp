#include "interchange/draft.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scenario/diagnostics.hpp"

namespace rehearsal::interchange {
namespace {

Origin said(const scenario::Node& at, std::string word) { return {Basis::said, at.where(), std::move(word)}; }

[[noreturn]] void contradict(const std::string& what, const Origin& here, const std::string& value, const Origin& there,
                             const std::string& other) {
  throw UserError({{here.where, printable(fmt::format("{} is {} here, and {} by {}; one of the two is wrong", what,
                                                      value, other, to_text(there)))}});
}

}  // namespace

const char* name(Basis basis) {
  static constexpr const char* kNames[] = {"said", "derived", "assumed"};
  return kNames[std::size_t(basis)];
}

const char* name(Fact fact) {
  static constexpr std::array<const char*, kFacts> kNames{
      "the number of GPUs",          "the number of nodes",  "GPUs of a node",
      "groups of replicas",          "replicas that shard",  "the number of replicas",
      "the number of accumulations", "the longest sequence", "the vocabulary",
      "the unit of the vocabulary",  "NVLinks of a GPU",     "nodes of a leaf switch",
      "levels of switches"};
  return kNames[std::size_t(fact)];
}

std::string to_text(const Location& where) {
  return where.line > 0 ? fmt::format("{}:{}", where.file, where.line) : where.file;
}

std::string to_text(const Origin& origin) {
  switch (origin.basis) {
    case Basis::said:
      return to_text(origin.where) + (origin.how.empty() ? "" : " " + origin.how);
    case Basis::derived:
      return "derived: " + origin.how;
    case Basis::assumed:
      return "assumed: " + origin.how;
  }
  return "";
}

void ScenarioDraft::put(const std::string& key, Json value, Origin origin) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) {
    keys_.emplace(key, Given<Json>{std::move(value), std::move(origin)});
    return;
  }
  auto& [there, from] = found->second;
  if (from.basis < origin.basis) return;
  const bool both_say = from.basis == Basis::said && origin.basis == Basis::said;
  if (both_say && there.dump() != value.dump()) contradict("'" + key + "'", origin, value.dump(), from, there.dump());
  if (!both_say) there = std::move(value), from = std::move(origin);
}

void ScenarioDraft::say(const std::string& key, Json value, const scenario::Node& at, std::string word) {
  put(key, std::move(value), said(at, std::move(word)));
}
void ScenarioDraft::derive(const std::string& key, Json value, std::string how) {
  put(key, std::move(value), {Basis::derived, {}, std::move(how)});
}
void ScenarioDraft::assume(const std::string& key, Json value, std::string why) {
  put(key, std::move(value), {Basis::assumed, {}, std::move(why)});
}

void ScenarioDraft::set(const std::string& key, Json value, std::string option) {
  remove(key);
  if (value.is_null()) return;
  if (value.is_object() && !value.members().empty()) {  // key by key, so that others may stand beside these
    for (const auto& [below, of] : value.members()) set(key + "." + below, of, option);
    return;
  }
  // A name in the place of a mapping, and a mapping in that of a name.
  for (auto dot = key.rfind('.'); dot != std::string::npos && dot > 0; dot = key.rfind('.', dot - 1))
    if (const auto above = keys_.find(key.substr(0, dot)); above != keys_.end()) keys_.erase(above);
  keys_.emplace(key, Given<Json>{std::move(value), {Basis::said, {std::move(option), 0, 0}, ""}});
}

bool ScenarioDraft::has(std::string_view key) const {
  const auto from = keys_.lower_bound(key);
  return from != keys_.end() && (from->first == key || from->first.starts_with(std::string(key) + "."));
}

const Json* ScenarioDraft::find(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &found->second.value;
}

std::int64_t ScenarioDraft::integer(std::string_view key, std::int64_t otherwise) const {
  const Json* value = find(key);
  return value && value->is_number() && !value->is_real() ? std::int64_t(value->real()) : otherwise;
}

const Origin* ScenarioDraft::origin(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &found->second.origin;
}

void ScenarioDraft::remove(std::string_view key) {
  std::erase_if(
      keys_, [&](const auto& entry) { return entry.first == key || entry.first.starts_with(std::string(key) + "."); });
}

void ScenarioDraft::put(Fact fact, std::int64_t value, Origin origin) {
  auto& there = facts_[std::size_t(fact)];
  const bool both_say = there && there->origin.basis == Basis::said && origin.basis == Basis::said;
  if (both_say && there->value != value)
    contradict(name(fact), origin, std::to_string(value), there->origin, std::to_string(there->value));
  if (!there || there->origin.basis > origin.basis) there = Given<std::int64_t>{value, std::move(origin)};
}

void ScenarioDraft::say(Fact fact, std::int64_t value, const scenario::Node& at, std::string word) {
  put(fact, value, said(at, std::move(word)));
}
void ScenarioDraft::derive(Fact fact, std::int64_t value, std::string how) {
  put(fact, value, {Basis::derived, {}, std::move(how)});
}
void ScenarioDraft::assume(Fact fact, std::int64_t value, std::string why) {
  put(fact, value, {Basis::assumed, {}, std::move(why)});
}

void ScenarioDraft::no_word(const Location& where, std::string what, std::string why) {
  unworded_.push_back({where, std::move(what), std::move(why)});
}
void ScenarioDraft::not_understood(const Location& where, std::string what) {
  unknown_.push_back({where, std::move(what), ""});
}
void ScenarioDraft::wanted(const Location& where, const std::string& key, std::string what, std::string from) {
  wanted_.push_back({where, key, std::move(what), std::move(from)});
}

void ScenarioDraft::says_no_key(const Location& where, std::string holds, std::string cure) {
  keyless_.push_back({where, std::move(holds), std::move(cure)});
}

void ScenarioDraft::run_later(const scenario::Files& files) {
  for (const auto& conclusion : later_) conclusion(*this, files);
}

}  // namespace rehearsal::interchange
