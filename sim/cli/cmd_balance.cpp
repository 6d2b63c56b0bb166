// rehearse balance: places experts on GPUs (contract, section 7).
#include <fmt/format.h>

#include <thread>

#include "balance/registry.hpp"
#include "cli/output_files.hpp"
#include "cli/page_options.hpp"
#include "cli/progress.hpp"
#include "report/pages.hpp"
#include "scenario/balance_file.hpp"

namespace rehearsal::cli {
namespace {

CommandText balance_text() {
  std::string methods = "Methods:\n";
  for (const auto& [name, method] : balance::registry()) methods += fmt::format("  {:<6} {}\n", name, method.summary);
  return {
      .name = "balance",
      .operands = "FILE [OPTIONS]",
      .summary = "Places the experts of mixture-of-experts layers on GPUs so that the busiest GPU has the least load.",
      .more =
          "FILE (YAML or JSON) gives 'weights' (the load of every expert of every layer) or a 'trace' of them, and\n"
          "'replicas', 'groups', 'nodes', 'gpus'; scenarios/balance/README.md explains its keys.\n\n" +
          methods,
      .example =
          "  rehearse balance scenarios/balance/eplb-readme.yaml\n"
          "  rehearse balance scenarios/balance/eplb-readme.yaml --set method=eplb --format json\n",
      .takes_set = true,
      .takes_long = true};
}

}  // namespace

int run_balance(Session& session, const Arguments& arguments) {
  const CommandText text = balance_text();
  CommonOptions common(session);
  PageOptions pages;
  const auto own = with_page_options({}, pages, "draw the loads of the GPUs as a picture", {"placement", "balance"});
  const auto line = parse(text, own, arguments, common);
  if (!line) return 0;
  check_page_options(pages);
  if (pages.picture.empty()) pages.picture = "placement";
  check_outputs(common, page_outputs(pages), line->operands);
  const auto question = scenario::load_balance(one_operand(text, *line, "a file"), common.set, session.files());
  const auto answer = [&] {
    Progress progress(common);
    progress.begin("placing experts");
    return balance::answer(question, std::max(1u, std::thread::hardware_concurrency()));
  }();
  const report::Balanced both{question, answer};
  write_pages(common, pages, [&] {
    return report::balance_page(question, answer, as_asked(session, "balance", arguments, line->operands.front()));
  });
  emit_report(common, {.text = [&] { return report::to_text(question, answer, text_style(common)); },
                       .json = [&] { return report::balance_answer().json_text(both); },
                       .csv = [&] { return report::to_csv(answer); }});
  return 0;
}

}  // namespace rehearsal::cli
