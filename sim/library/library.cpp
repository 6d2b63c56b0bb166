// include/rehearsal.h over the commands of the program.
#include <fmt/format.h>

#include <new>
#include <optional>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "cli/command.hpp"
#include "cli/process.hpp"
#include "library/memory_session.hpp"
#include "rehearsal.h"
#include "report/columns.hpp"

using rehearsal::Json;
using rehearsal::report::Column;

struct rehearsal_answer {
  // A table of one of the results, once somebody has asked for it.
  struct Made {
    std::vector<Column> columns;
    std::map<std::string, std::vector<const char*>> words;  // by column
  };

  std::optional<rehearsal::library::MemorySession> session;
  rehearsal::cli::Arguments words;
  int status = -1;
  std::string refused;  // why it was never asked
  std::map<std::string, Made> tables;
  std::string listed;  // rehearsal_tables
};

namespace {

constexpr const char* kNothing = "";

const char* text(const std::string& text, size_t* bytes) {
  if (bytes) *bytes = text.size();
  return text.c_str();
}

const char* nothing(size_t* bytes) {
  if (bytes) *bytes = 0;
  return kNothing;
}

rehearsal::cli::Arguments read_words(const char* json) {
  const auto line = Json::parse(json ? json : "");
  if (!line.is_array()) throw rehearsal::UserError("the words of a command line are a JSON array of texts");
  rehearsal::cli::Arguments words;
  for (const auto& word : line.items()) {
    if (!word.is_string()) throw rehearsal::UserError("the words of a command line are a JSON array of texts");
    words.push_back(word.text());
    if (words.back().find('\0') != std::string::npos)
      throw rehearsal::UserError("a word of a command line has no zero byte in it");
  }
  return words;
}

std::map<std::string, std::string> read_files(const char* json) {
  std::map<std::string, std::string> files;
  if (!json) return files;
  const auto given = Json::parse(json);
  if (!given.is_object()) throw rehearsal::UserError("files in memory are a JSON object of texts by name");
  for (const auto& [name, content] : given.members())
    files[name] = content.is_string() ? content.text() : content.dump();
  return files;
}

// "timeline:1": the table of that name of the second result.
struct Wanted {
  const rehearsal::report::ColumnTable* table = nullptr;
  const rehearsal::answer::Result* result = nullptr;
};
Wanted find(const rehearsal_answer& answer, const std::string& name) {
  const auto colon = name.find(':');
  std::size_t at = 0;
  if (colon != std::string::npos) {
    const auto number = name.substr(colon + 1);
    if (number.empty() || number.size() > 6 || number.find_first_not_of("0123456789") != std::string::npos) return {};
    at = std::stoul(number);
  }
  const auto& results = answer.session->results();
  if (at >= results.size()) return {};
  for (const auto& table : rehearsal::report::column_tables())
    if (table.name == name.substr(0, colon)) return {&table, &results[at]};
  return {};
}

rehearsal_answer::Made* made(rehearsal_answer& answer, const std::string& name) {
  if (const auto there = answer.tables.find(name); there != answer.tables.end()) return &there->second;
  const auto wanted = answer.session ? find(answer, name) : Wanted{};
  if (!wanted.table) return nullptr;
  auto& table = answer.tables[name];
  table.columns = wanted.table->make(*wanted.result);
  for (const auto& column : table.columns)
    if (!column.words.empty()) {
      auto& words = table.words[column.name];
      for (const auto& word : column.words) words.push_back(word.c_str());
    }
  return &table;
}

const Column* column_of(rehearsal_answer* answer, const char* table, const char* column) {
  if (!answer || !table || !column) return nullptr;
  const auto* there = made(*answer, table);
  if (!there) return nullptr;
  for (const auto& one : there->columns)
    if (one.name == column) return &one;
  return nullptr;
}

char type_of(const Column& column) { return "dqiB"[column.values.index()]; }

// The result of `make`, or `otherwise` if this machine has no memory for it.
template <class T, class Make>
T guarded(T otherwise, const Make& make) noexcept {
  try {
    return make();
  } catch (...) {
    return otherwise;
  }
}

}  // namespace

extern "C" {

rehearsal_answer* rehearsal_new(const char* words_json, const char* files_json) {
  return guarded<rehearsal_answer*>(nullptr, [&] {
    auto answer = std::make_unique<rehearsal_answer>();
    try {
      answer->words = read_words(words_json);
      answer->session.emplace(read_files(files_json));
    } catch (const rehearsal::UserError& error) {
      answer->session.reset();
      answer->status = 2, answer->refused = fmt::format("rehearse: {}\n", error.what());
    }
    return answer.release();
  });
}

void rehearsal_progress(rehearsal_answer* answer, void (*say)(void* context, const char* line), void* context) {
  if (answer && answer->session && say)
    guarded(0, [&] { return answer->session->on_progress([=](const char* line) { say(context, line); }), 0; });
}

int rehearsal_perform(rehearsal_answer* answer) {
  if (!answer) return 3;
  if (answer->status < 0) answer->status = rehearsal::cli::run_program(*answer->session, answer->words);
  return answer->status;
}

rehearsal_answer* rehearsal_ask(const char* words_json, const char* files_json) {
  auto* answer = rehearsal_new(words_json, files_json);
  rehearsal_perform(answer);
  return answer;
}

void rehearsal_cancel(rehearsal_answer* answer) {
  if (answer && answer->session) answer->session->ask_to_stop();
}

int rehearsal_status(const rehearsal_answer* answer) { return answer ? answer->status : 3; }

const char* rehearsal_out(const rehearsal_answer* answer, size_t* bytes) {
  return answer && answer->session ? text(answer->session->out(), bytes) : nothing(bytes);
}

const char* rehearsal_err(const rehearsal_answer* answer, size_t* bytes) {
  if (!answer) return nothing(bytes);
  return answer->session ? text(answer->session->err(), bytes) : text(answer->refused, bytes);
}

const char* rehearsal_file(const rehearsal_answer* answer, const char* name, size_t* bytes) {
  return guarded<const char*>(nullptr, [&]() -> const char* {
    if (!answer || !answer->session || !name) return nullptr;
    const auto& written = answer->session->written();
    const auto there = written.find(name);
    return there == written.end() ? nullptr : text(there->second, bytes);
  });
}

const char* rehearsal_tables(rehearsal_answer* answer) {
  return guarded<const char*>("{}", [&]() -> const char* {
    if (!answer || !answer->session) return "{}";
    auto all = Json::object();
    for (std::size_t i = 0; i < answer->session->results().size(); i++)
      for (const auto& table : rehearsal::report::column_tables()) {
        const auto name = i == 0 ? table.name : fmt::format("{}:{}", table.name, i);
        auto list = Json::array();
        for (const auto& column : made(*answer, name)->columns)
          list.push_back({{"name", column.name},
                          {"type", std::string(1, type_of(column))},
                          {"words", !column.words.empty()},
                          {"unit", column.unit},
                          {"help", column.help}});
        all[name] = std::move(list);
      }
    answer->listed = all.dump();
    return answer->listed.c_str();
  });
}

const void* rehearsal_column(rehearsal_answer* answer, const char* table, const char* column, size_t* count,
                             char* type) {
  return guarded<const void*>(nullptr, [&]() -> const void* {
    if (count) *count = 0;
    const auto* found = column_of(answer, table, column);
    if (!found) return nullptr;
    if (type) *type = type_of(*found);
    return std::visit(
        [&](const auto& values) -> const void* {
          if (count) *count = values.size();
          return values.empty() ? static_cast<const void*>(kNothing) : values.data();
        },
        found->values);
  });
}

const char* const* rehearsal_words(rehearsal_answer* answer, const char* table, const char* column, size_t* count) {
  return guarded<const char* const*>(nullptr, [&]() -> const char* const* {
    if (count) *count = 0;
    const auto* found = column_of(answer, table, column);
    if (!found || found->words.empty()) return nullptr;
    const auto& words = made(*answer, table)->words.at(column);
    if (count) *count = words.size();
    return words.data();
  });
}

int rehearsal_main(int words, const char* const* line) {
  return guarded(3, [&] {
    const auto session = rehearsal::cli::process_session();
    return rehearsal::cli::run_program(*session, {line, line + words});
  });
}

void rehearsal_free(rehearsal_answer* answer) { delete answer; }

const char* rehearsal_version(void) {
  static const std::string kVersion = rehearsal::program_version();
  return kVersion.c_str();
}

}  // extern "C"
