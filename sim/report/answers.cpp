#include "report/answers.hpp"

#include "report/balance_report.hpp"
#include "report/collective_report.hpp"
#include "report/compare_report.hpp"
#include "report/explain_report.hpp"
#include "report/groups_report.hpp"
#include "report/import_report.hpp"
#include "report/jobs_report.hpp"
#include "report/log_report.hpp"
#include "report/model_report.hpp"
#include "report/plan_report.hpp"
#include "report/reshard_report.hpp"
#include "report/run_report.hpp"
#include "report/schedule_report.hpp"
#include "report/validate_report.hpp"

namespace rehearsal::report {

const std::vector<AnswerOf>& answers() {
  static const auto kAnswers = [] {
    std::vector<AnswerOf> all{{"run", run_answer()},         {"run of several jobs", jobs_answer()},
                              {"measure", run_answer()},     {"explain", explain_answer()},
                              {"compare", compare_answer()}, {"sweep", compare_answer()},
                              {"plan", plan_answer()},       {"validate", validate_answer()}};
    for (auto& answer : trace_answers()) all.push_back(std::move(answer));
    for (auto& answer : std::vector<AnswerOf>{{"validate --log", logged_answer()},
                                              {"import", imported_answer()},
                                              {"schedule", schedule_answer()},
                                              {"schedule --batch", batch_answer()},
                                              {"reshard", reshard_answer()},
                                              {"reshard --compare", planners_answer()},
                                              {"balance", balance_answer()},
                                              {"collective", collective_answer()},
                                              {"collective dispatch", dispatch_answer()},
                                              {"groups", groups_answer()},
                                              {"list models NAME", model_answer()}})
      all.push_back(std::move(answer));
    return all;
  }();
  return kAnswers;
}

std::string answers_schema(std::span<const AnswerOf> more) {
  auto commands = Json::object();
  for (const auto& some : {std::span<const AnswerOf>(answers()), more})
    for (const auto& answer : some) {
      const auto one = schema(answer.what, answer.items);
      commands.append(std::string(answer.command), answer.list ? Json{{"type", "array"}, {"items", one}} : one);
    }
  const Json all{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "Answers of Rehearsal as JSON, by command"},
                 {"$defs", std::move(commands)}};
  return all.dump(2) + "\n";
}

}  // namespace rehearsal::report
