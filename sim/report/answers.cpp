#include "report/answers.hpp"

#include "report/compare_report.hpp"
#include "report/explain_report.hpp"
#include "report/import_report.hpp"
#include "report/log_report.hpp"
#include "report/plan_report.hpp"
#include "report/run_report.hpp"
#include "report/validate_report.hpp"

namespace rehearsal::report {

const std::vector<AnswerOf>& answers() {
  static const std::vector<AnswerOf> kAnswers{{"run", run_answer()},
                                              {"measure", run_answer()},
                                              {"explain", explain_answer()},
                                              {"compare", compare_answer()},
                                              {"sweep", compare_answer()},
                                              {"plan", plan_answer()},
                                              {"validate", validate_answer()},
                                              {"validate --log", logged_answer()},
                                              {"import", imported_answer()}};
  return kAnswers;
}

std::string answers_schema(std::span<const AnswerOf> more) {
  auto commands = Json::object();
  for (const auto& some : {std::span<const AnswerOf>(answers()), more})
    for (const auto& answer : some) commands.append(std::string(answer.command), schema(answer.what, *answer.items));
  const Json all{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "Answers of Rehearsal as JSON, by command"},
                 {"$defs", std::move(commands)}};
  return all.dump(2) + "\n";
}

}  // namespace rehearsal::report
