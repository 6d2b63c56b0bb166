#include "report/answers.hpp"

#include "report/explain_report.hpp"
#include "report/import_report.hpp"
#include "report/log_report.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {

const std::vector<AnswerOf>& answers() {
  static const std::vector<AnswerOf> kAnswers = [] {
    std::vector<AnswerOf> all;
    const auto add = [&](std::string_view command, const auto& shown) {
      all.push_back({command, shown.what(), &shown.items()});
    };
    add("run", run_answer()), add("measure", run_answer()), add("explain", explain_answer());
    add("import", imported_answer()), add("validate --log", logged_answer());
    return all;
  }();
  return kAnswers;
}

std::string answers_schema() {
  auto commands = Json::object();
  for (const auto& answer : answers()) commands.append(std::string(answer.command), schema(answer.what, *answer.items));
  const Json all{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "Answers of Rehearsal as JSON, by command"},
                 {"$defs", std::move(commands)}};
  return all.dump(2) + "\n";
}

}  // namespace rehearsal::report
