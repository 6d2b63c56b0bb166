#include "report/import_report.hpp"

namespace rehearsal::report {
namespace {

using interchange::ScenarioDraft, interchange::Imported, interchange::Left;

struct KeyOfDraft {
  const std::string& key;
  const interchange::Given<Json>& given;
};
std::vector<KeyOfDraft> keys_of(const Imported& imported) {
  std::vector<KeyOfDraft> all;
  for (const auto& [key, given] : imported.draft.keys()) all.push_back({key, given});
  return all;
}

// The draft as nested JSON, which is a scenario, too.
Json nested(const Imported& imported) {
  Json root = Json::object();
  for (const auto& [key, given] : imported.draft.keys()) {
    Json* at = &root;
    std::string_view rest = key;
    for (auto dot = rest.find('.'); dot != rest.npos; dot = rest.find('.'))
      at = &(*at)[rest.substr(0, dot)], rest.remove_prefix(dot + 1);
    (*at)[rest] = given.value;
  }
  return root;
}

Shown<KeyOfDraft> key_of_draft() {
  return Shown<KeyOfDraft>("A key of the scenario.")
      .figure("key", Unit::none, "key", "dotted", [](auto& k) { return k.key; })
      .figure("value", Unit::none, "value", "", [](auto& k) { return k.given.value; })
      .figure("basis", Unit::none, "basis", "said, derived or assumed",
              [](auto& k) { return interchange::name(k.given.origin.basis); })
      .figure("origin", Unit::none, "from", "file and line, or how and why",
              [](auto& k) { return interchange::to_text(k.given.origin); });
}

Shown<Left> left(std::string what) {
  return Shown<Left>(std::move(what))
      .figure("file", Unit::none, "file", "", [](auto& l) { return l.where.file; })
      .figure("line", Unit::none, "line", "", [](auto& l) { return l.where.line; })
      .figure("what", Unit::none, "what", "as the file has it", &Left::what)
      .figure("why", Unit::none, "why", "what is taken instead, if anything", &Left::why);
}

}  // namespace

const Shown<Imported>& imported_answer() {
  static const Shown<Imported> kAnswer =
      Shown<Imported>("A scenario that was made of files of other tools.")
          .figure("formats", Unit::none, "formats", "of the files, in their order", &Imported::formats)
          .figure("scenario", Unit::none, "scenario", "as `run` reads it", nested)
          .rows("settings", key_of_draft(), keys_of)
          .rows(
              "no_word", left("What a scenario has no word for."), [](auto& i) -> auto& { return i.draft.unworded(); })
          .rows(
              "not_understood", left("Keys that the format does not know."),
              [](auto& i) -> auto& { return i.draft.unknown(); });
  return kAnswer;
}

std::string imported_json(const Imported& imported) { return imported_answer().json(imported).dump(2) + "\n"; }

}  // namespace rehearsal::report
