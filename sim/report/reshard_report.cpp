#include "report/reshard_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/quantity_text.hpp"
#include "page/grid.hpp"
#include "page/layout.hpp"
#include "page/svg.hpp"
#include "report/json.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::size_t kMostTableRows = 32;
constexpr std::uint32_t kMostGridRows = 32;

std::string box_text(const reshard::Box& box) {
  if (box.empty()) return "-";
  std::string text;
  for (const auto& side : box) text += fmt::format("{}{}:{}", text.empty() ? "" : ",", side.low, side.high);
  return text;
}

std::string list(const std::vector<std::uint32_t>& ids) {
  if (ids.size() <= 6) return fmt::format("{}", fmt::join(ids, " "));
  return fmt::format("{} .. {} ({})", ids.front(), ids.back(), ids.size());
}

std::string rate(double bytes_per_second) { return fmt::format("{:.4g} GB/s", bytes_per_second / 1e9); }

std::string layout_text(const reshard::Layout& layout) {
  return fmt::format("{} on {}x{}", reshard::to_text(layout.spec), layout.mesh.rows, layout.mesh.columns);
}

std::string verdict(const reshard::Plan& plan) {
  if (plan.optimal()) return "optimal";
  return fmt::format("not proven optimal, at most {:.2f} % above it",
                     100 * (double(plan.makespan) / double(plan.lower_bound) - 1));
}

// Converts elements over one NIC to time at its bandwidth.
class Clock {
 public:
  explicit Clock(const reshard::Question& question)
      : seconds_per_element_(double(question.method.element_bytes) / question.method.link.nic) {}
  Time at(std::int64_t elements) const { return seconds(double(elements) * seconds_per_element_); }

 private:
  double seconds_per_element_;
};

// One row per NIC's sending side, then one per receiving side.
std::vector<std::string> row_names(const reshard::Question& question, const reshard::Answer& answer) {
  const char* nic = question.resharding && question.method.nic == reshard::NicSharing::host ? "host" : "NIC";
  std::vector<std::string> names;
  for (const auto id : answer.numbered.sender_nics) names.push_back(fmt::format("{} {} out", nic, id));
  for (const auto id : answer.numbered.receiver_nics) names.push_back(fmt::format("{} {} in", nic, id));
  return names;
}

template <class Each>  // each(row, sending, kind)
void for_each_row(const reshard::Answer& answer, const Each& each) {
  for (const auto& s : answer.plan.schedule) {
    each(s.sender, s, 'S');
    for (const auto r : answer.numbered.problem.tasks[s.task].receivers)
      each(answer.numbered.problem.senders + r, s, 'R');
  }
}

std::string title(const reshard::Question& question) {
  if (!question.resharding) return fmt::format("{}: {} tasks", question.name, question.given.size());
  const auto& r = *question.resharding;
  return fmt::format("{}: {} to {}, tensor {}", question.name, layout_text(r.source), layout_text(r.destination),
                     fmt::join(r.shape, "x"));
}

std::string performed(const reshard::Answer& answer) {
  std::vector<std::string_view> names;
  for (const auto strategy : answer.performed) names.push_back(reshard::name(strategy));
  return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace

Json to_json(const reshard::Question& question, const reshard::Answer& answer) {
  Json tasks = Json::array(), schedule = Json::array();
  for (const auto& t : answer.transfers) {
    Json box = nullptr;
    if (!t.box.empty()) box = Json::array();
    for (const auto& side : t.box) box.push_back({side.low, side.high});
    tasks.push_back({{"box", box},
                     {"size", t.size},
                     {"senders", t.senders},
                     {"receivers", t.receivers},
                     {"unit_task", t.unit},
                     {"strategy", reshard::name(t.strategy)}});
  }
  for (const auto& s : answer.plan.schedule)
    schedule.push_back(
        {{"task", s.task}, {"sender", answer.numbered.sender_nics[s.sender]}, {"start", s.start}, {"end", s.end}});
  Json performed = Json::array();
  for (const auto strategy : answer.performed) performed.push_back(reshard::name(strategy));
  return {{"name", question.name},
          {"strategy", reshard::name(question.method.strategy)},
          {"performed", performed},
          {"planner", question.planner},
          {"chunks", answer.chunks},
          {"tasks", tasks},
          {"schedule", schedule},
          {"makespan", answer.plan.makespan},
          {"lower_bound", answer.plan.lower_bound},
          {"optimal", answer.plan.optimal()},
          {"time_s", answer.seconds},
          {"effective_bandwidth_bytes_per_s", answer.bandwidth()},
          {"bandwidth_bound_bytes_per_s", answer.bandwidth_bound},
          {"tensor_bytes", answer.tensor_bytes},
          {"assumptions", question.assumptions},
          {"warnings", answer.warnings}};
}

std::string to_csv(const reshard::Answer& answer) {
  std::string csv = csv_line({"task", "strategy", "box", "size", "senders", "receivers", "sender", "start", "end"});
  for (const auto& s : answer.plan.schedule) {
    const auto& t = answer.transfers[s.task];
    csv += csv_line(
        {std::to_string(s.task), std::string(reshard::name(t.strategy)), box_text(t.box), std::to_string(t.size),
         fmt::format("{}", fmt::join(t.senders, " ")), fmt::format("{}", fmt::join(t.receivers, " ")),
         std::to_string(answer.numbered.sender_nics[s.sender]), std::to_string(s.start), std::to_string(s.end)});
  }
  return csv;
}

std::string to_text(const reshard::Question& question, const reshard::Answer& answer, const page::TextStyle& style) {
  const Paint paint{style.color};
  const auto& plan = answer.plan;
  const Clock clock(question);
  std::string text = paint.bold(title(question)) + "\n";
  const char* nics = !question.resharding                               ? "NICs as given"
                     : question.method.nic == reshard::NicSharing::host ? "one NIC per host"
                                                                        : "one NIC per GPU";
  std::string strategy(reshard::name(question.method.strategy));
  if (!answer.warnings.empty()) strategy = fmt::format("{} instead of {}", performed(answer), strategy);
  text += paint.dim(fmt::format("{}, planner {}, {}; {} of {} in {} transfer{}", strategy, question.planner, nics,
                                question.resharding ? "a tensor" : "tasks", show(Bytes(answer.tensor_bytes)),
                                grouped(answer.transfers.size()), answer.transfers.size() == 1 ? "" : "s")) +
          "\n\n";
  text += fmt::format("  Makespan     {} elements over one NIC, {}\n",
                      paint.bold(grouped(std::uint64_t(plan.makespan))), show(clock.at(plan.makespan)));
  text += fmt::format("  Lower bound  {}: {}\n", grouped(std::uint64_t(plan.lower_bound)), paint.bold(verdict(plan)));
  text += fmt::format("  Time         {} with latency, NVLink and {} chunks per broadcast\n",
                      paint.bold(show(seconds(answer.seconds))), grouped(std::uint64_t(answer.chunks)));
  text += fmt::format("  Bandwidth    {}, at most {}\n\n", paint.bold(rate(answer.bandwidth())),
                      rate(answer.bandwidth_bound));

  const auto names = row_names(question, answer);
  std::vector<GridSpan> spans;
  for_each_row(answer, [&](std::uint32_t row, const reshard::Sending& s, char kind) {
    spans.push_back({row, clock.at(s.start), clock.at(s.end), kind, s.task});
  });
  GridOptions grid;
  grid.width = style.width, grid.color = style.color, grid.max_rows = kMostGridRows, grid.rows_are = "sides";
  grid.row_name = [&](std::uint32_t row) { return names[row]; };
  text += draw_grid(spans, std::uint32_t(names.size()), grid) + "\n";

  auto entries = plan.schedule;
  std::stable_sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.start < b.start; });
  std::vector<std::vector<std::string>> rows{
      {"task", "box", "size", "senders", "receivers", "strategy", "sender", "start", "end"}};
  for (const auto& s : entries) {
    if (rows.size() > kMostTableRows) break;
    const auto& t = answer.transfers[s.task];
    rows.push_back({std::to_string(s.task), box_text(t.box), grouped(std::uint64_t(t.size)), list(t.senders),
                    list(t.receivers), std::string(reshard::name(t.strategy)),
                    std::to_string(answer.numbered.sender_nics[s.sender]), grouped(std::uint64_t(s.start)),
                    grouped(std::uint64_t(s.end))});
  }
  text += table(rows, paint, style.width);
  if (entries.size() > kMostTableRows)
    text += paint.dim(fmt::format("{} more; --format csv or json lists all", entries.size() - kMostTableRows)) + "\n";
  return fit(text + notes("Assumptions", question.assumptions, style.width, paint) +
                 notes("Warnings", answer.warnings, style.width, paint),
             style.width);
}

std::string to_svg(const reshard::Question& question, const reshard::Answer& answer) {
  const Clock clock(question);
  Drawing drawing;
  drawing.title = title(question);
  drawing.subtitle = fmt::format("{}, planner {} \xc2\xb7 {} elements over one NIC, {} \xc2\xb7 {}",
                                 reshard::name(question.method.strategy), question.planner,
                                 grouped(std::uint64_t(answer.plan.makespan)), show(clock.at(answer.plan.makespan)),
                                 verdict(answer.plan));
  drawing.row_names = row_names(question, answer);
  drawing.rows = std::uint32_t(drawing.row_names.size());
  for_each_row(answer, [&](std::uint32_t row, const reshard::Sending& s, char kind) {
    drawing.boxes.push_back({row, clock.at(s.start), clock.at(s.end), kind, Half::whole, 0, std::to_string(s.task),
                             fmt::format("task {} from NIC {}: {} to {}", s.task, answer.numbered.sender_nics[s.sender],
                                         show(clock.at(s.start)), show(clock.at(s.end)))});
  });
  return draw_svg(drawing);
}

std::string compare_text(const std::vector<std::string>& planners, const std::vector<Compared>& compared,
                         const page::TextStyle& style) {
  std::vector<std::vector<std::string>> rows{{"question"}};
  rows[0].insert(rows[0].end(), planners.begin(), planners.end());
  rows[0].insert(rows[0].end(), {"lower bound", "best is"});
  for (const auto& c : compared) {
    rows.push_back({c.name});
    for (const auto& plan : c.plans) rows.back().push_back(grouped(std::uint64_t(plan.makespan)));
    rows.back().push_back(grouped(std::uint64_t(c.plans.back().lower_bound)));
    rows.back().push_back(c.plans.back().optimal() ? "optimal" : "not proven");
  }
  return table(rows, Paint{style.color}, style.width, {true});
}

std::string compare_csv(const std::vector<std::string>& planners, const std::vector<Compared>& compared) {
  std::vector<std::string> head{"question"};
  head.insert(head.end(), planners.begin(), planners.end());
  head.insert(head.end(), {"lower_bound", "optimal"});
  std::string csv = csv_line(head);
  for (const auto& c : compared) {
    std::vector<std::string> cells{c.name};
    for (const auto& plan : c.plans) cells.push_back(std::to_string(plan.makespan));
    cells.push_back(std::to_string(c.plans.back().lower_bound));
    cells.push_back(c.plans.back().optimal() ? "true" : "false");
    csv += csv_line(cells);
  }
  return csv;
}

Json compare_json(const std::vector<std::string>& planners, const std::vector<Compared>& compared) {
  Json rows = Json::array();
  for (const auto& c : compared) {
    Json makespans;
    for (std::size_t i = 0; i < planners.size(); i++) makespans[planners[i]] = c.plans[i].makespan;
    rows.push_back({{"name", c.name},
                    {"makespan", makespans},
                    {"lower_bound", c.plans.back().lower_bound},
                    {"optimal", c.plans.back().optimal()}});
  }
  return {{"planners", planners}, {"rows", rows}};
}

}  // namespace rehearsal::report
