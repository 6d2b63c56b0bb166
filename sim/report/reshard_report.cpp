#include "report/reshard_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/quantity_text.hpp"
#include "page/grid.hpp"
#include "page/layout.hpp"
#include "page/svg.hpp"
#include "report/measured_text.hpp"
#include "report/performed_alone.hpp"
#include "reshard/routes.hpp"
#include "timeline/compare.hpp"

namespace rehearsal::report {

using namespace page;
using reshard::Answer, reshard::Sending, reshard::Transfer;
namespace {

constexpr std::size_t kMostTableRows = 32;
constexpr std::uint32_t kMostGridRows = 32;

std::string rate(double bytes_per_second) { return show_amount(bytes_per_second, Unit::rate); }

std::string layout_text(const reshard::Layout& layout) {
  return fmt::format("{} on {}x{}", reshard::to_text(layout.spec), layout.mesh.rows, layout.mesh.columns);
}

std::string verdict(const reshard::Plan& plan) {
  if (plan.optimal()) return "optimal";
  return fmt::format("not proven optimal, at most {:.2f} % above it",
                     100 * (double(plan.makespan) / double(plan.lower_bound) - 1));
}

// Elements over one NIC as time at its bandwidth.
Time on_the_nic(const reshard::Question& question, std::int64_t elements) {
  return seconds(double(elements) * (double(question.method.element_bytes) / question.method.link.nic));
}

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

// An entry of the schedule, with what it sends.
struct Sent {
  Sending of;
  const Transfer* transfer;
  std::uint32_t nic;
};
std::vector<Sent> sent(const Answer& answer) {
  return each(answer.plan.schedule, [&](const Sending& s) {
    return Sent{s, &answer.transfers[s.task], answer.numbered.sender_nics[s.sender]};
  });
}

Shown<Transfer> transfer() {
  return Shown<Transfer>("Transfers.")
      .figure("box", Unit::none, "from and to, by dimension; null: given without a tensor",
              [](auto& t) {
                Json box;
                for (const auto& side : t.box) box.push_back({side.low, side.high});
                return box;
              })
      .figure("size", Unit::none, "elements", &Transfer::size)
      .figure("senders", Unit::none, "NICs, one of which sends", &Transfer::senders)
      .figure("receivers", Unit::none, "NICs", &Transfer::receivers)
      .figure("unit_task", Unit::none, "which it serves", &Transfer::unit)
      .figure("strategy", [](auto& t) { return reshard::name(t.strategy); });
}
Shown<Sent> sending() {
  return Shown<Sent>("Who sends what when.")
      .figure("task", [](auto& s) { return s.of.task; })
      .figure("sender", Unit::none, "NIC", &Sent::nic)
      .figure("start", [](auto& s) { return s.of.start; })
      .figure("end", [](auto& s) { return s.of.end; });
}
Shown<Sent> whole_sending() { return sending().also(transfer(), &Sent::transfer); }

}  // namespace

Shown<Planned> reshard_answer() {
  return Shown<Planned>("A tensor from one mesh to another. Makespan, bound and schedule in elements over a NIC.")
      .figure("name", [](auto& p) { return p.question.name; })
      .figure("strategy", Unit::none, "as asked", [](auto& p) { return reshard::name(p.question.method.strategy); })
      .figure("performed", Unit::none, "most frequent first",
              [](auto& p) { return each(p.answer.performed, reshard::name); })
      .figure("planner", [](auto& p) { return p.question.planner; })
      .figure("chunks", Unit::none, "of a broadcast", [](auto& p) { return p.answer.chunks; })
      .rows("tasks", transfer(), [](auto& p) { return &p.answer.transfers; })
      .rows("schedule", sending(), [](auto& p) { return sent(p.answer); })
      .figure("makespan", [](auto& p) { return p.answer.plan.makespan; })
      .figure("lower_bound", [](auto& p) { return p.answer.plan.lower_bound; })
      .figure("optimal", Unit::none, "proven", [](auto& p) { return p.answer.plan.optimal(); })
      .figure("time_s", Unit::seconds, "time", "with latency and NVLink", [](auto& p) { return p.answer.seconds; })
      .figure("effective_bandwidth_bytes_per_s", Unit::rate, "", [](auto& p) { return p.answer.bandwidth(); })
      .figure("bandwidth_bound_bytes_per_s", Unit::rate, "", [](auto& p) { return p.answer.bandwidth_bound; })
      .figure("tensor_bytes", Unit::bytes, "", [](auto& p) { return p.answer.tensor_bytes; })
      .group("measured", performed_alone(), &Planned::performed)
      .or_left_out()
      .figure("assumptions", [](auto& p) { return p.question.assumptions; })
      .figure("warnings", [](auto& p) { return p.answer.warnings; });
}

std::string to_csv(const Answer& answer) {
  return csv(whole_sending(), sent(answer),
             {"task", "strategy", "box", "size", "senders", "receivers", "sender", "start", "end"});
}

Table sendings(const Answer& answer) {
  auto all = sent(answer);
  std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.of.start < b.of.start; });
  return report::table(whole_sending(), all,
                       {"task", "box", "size", "senders", "receivers", "strategy", "sender", "start", "end"});
}

std::string to_text(const Planned& planned, const page::TextStyle& style) {
  const auto& [question, answer, measured] = planned;
  const Paint paint{style.color};
  const auto& plan = answer.plan;
  std::string text = paint.bold(title(question)) + "\n";
  const char* nics = !question.resharding                               ? "NICs as given"
                     : question.method.nic == reshard::NicSharing::host ? "one NIC per host"
                                                                        : "one NIC per GPU";
  std::string strategy(reshard::name(question.method.strategy));
  if (!answer.warnings.empty())
    strategy = fmt::format("{} instead of {}", fmt::join(each(answer.performed, reshard::name), " and "), strategy);
  text += paint.dim(fmt::format("{}, planner {}, {}; {} of {} in {} transfer{}", strategy, question.planner, nics,
                                question.resharding ? "a tensor" : "tasks", show(Bytes(answer.tensor_bytes)),
                                grouped(answer.transfers.size()), answer.transfers.size() == 1 ? "" : "s")) +
          "\n\n";
  text += fmt::format("  Makespan     {} elements over one NIC, {}\n",
                      paint.bold(grouped(std::uint64_t(plan.makespan))), show(on_the_nic(question, plan.makespan)));
  text += fmt::format("  Lower bound  {}: {}\n", grouped(std::uint64_t(plan.lower_bound)), paint.bold(verdict(plan)));
  text += fmt::format("  Time         {} with latency, NVLink and {} chunks per broadcast\n",
                      paint.bold(show(seconds(answer.seconds))), grouped(std::uint64_t(answer.chunks)));
  if (measured) text += performed_lines(*measured, 13, paint);
  text += fmt::format("  Bandwidth    {}, at most {}\n\n", paint.bold(rate(answer.bandwidth())),
                      rate(answer.bandwidth_bound));

  const auto names = row_names(question, answer);
  std::vector<GridSpan> spans;
  // Named: the compiler of the page captures no structured bindings.
  for_each_row(answer, [&, &question = question](std::uint32_t row, const reshard::Sending& s, char kind) {
    spans.push_back({row, on_the_nic(question, s.start), on_the_nic(question, s.end), kind, s.task});
  });
  GridOptions grid;
  grid.width = style.width, grid.color = style.color, grid.max_rows = kMostGridRows, grid.rows_are = "sides";
  grid.row_name = [&](std::uint32_t row) { return names[row]; };
  text += draw_grid(spans, std::uint32_t(names.size()), grid) + "\n";

  auto entries = sendings(answer);
  const auto count = entries.rows.size();
  entries.rows.resize(std::min(count, kMostTableRows));
  text += page::text(entries, paint, style.width);
  if (count > kMostTableRows)
    text += paint.dim(fmt::format("{} more; --format csv or json lists all", count - kMostTableRows)) + "\n";
  return fit(text + notes("Assumptions", question.assumptions, style.width, paint) +
                 notes("Warnings", answer.warnings, style.width, paint) +
                 (measured ? disturbance_text(measured->timeline, style.width, paint) : ""),
             style.width);
}

Drawing drawing_of(const reshard::Question& question, const reshard::Answer& answer) {
  Drawing drawing;
  drawing.title = title(question);
  drawing.subtitle = fmt::format("{}, planner {} \xc2\xb7 {} elements over one NIC, {} \xc2\xb7 {}",
                                 reshard::name(question.method.strategy), question.planner,
                                 grouped(std::uint64_t(answer.plan.makespan)),
                                 show(on_the_nic(question, answer.plan.makespan)), verdict(answer.plan));
  drawing.row_names = row_names(question, answer);
  drawing.rows = std::uint32_t(drawing.row_names.size());
  for_each_row(answer, [&](std::uint32_t row, const reshard::Sending& s, char kind) {
    drawing.boxes.push_back({row, on_the_nic(question, s.start), on_the_nic(question, s.end), kind, Half::whole, 0,
                             std::to_string(s.task),
                             fmt::format("task {} from NIC {}: {} to {}", s.task, answer.numbered.sender_nics[s.sender],
                                         show(on_the_nic(question, s.start)), show(on_the_nic(question, s.end)))});
  });
  return drawing;
}

std::optional<Drawing> hops_of(const reshard::Question& question, const reshard::Answer& answer) {
  const auto first = std::find_if(answer.plan.schedule.begin(), answer.plan.schedule.end(), [&](const Sending& s) {
    return answer.transfers[s.task].receiver_devices.size() > 1;
  });
  if (!question.resharding || first == answer.plan.schedule.end()) return std::nullopt;
  Answer alone = answer;
  alone.plan.schedule = {*first};
  const auto carries = reshard::carries(alone, reshard::Chunks::each);
  const auto& to = question.resharding->destination.mesh;
  const auto& link = question.method.link;
  Drawing drawing;
  drawing.title = fmt::format("Task {} on its way, hop by hop", first->task);
  drawing.subtitle = fmt::format("{} to {} GPUs: each passes a chunk on while it receives the next",
                                 reshard::name(answer.transfers[first->task].strategy),
                                 answer.transfers[first->task].receiver_devices.size());
  struct Hop {
    std::uint32_t row;
    Time free;  // when its link is
    std::size_t chunks = 0;
  };
  std::map<std::tuple<bool, std::uint32_t, std::uint32_t>, Hop> hops;
  std::vector<std::pair<Time, std::uint32_t>> arrived;  // by carry: when, and its box
  for (const auto& c : carries) {
    const bool nic = !c.relayed || to.row_of(c.from) != to.row_of(c.to);
    const double bytes = double(c.count) * double(question.method.element_bytes);
    const Time length = seconds(link.latency + bytes / (nic ? link.nic : link.nvlink));
    const auto before = c.after ? arrived[*c.after] : std::pair(Time{}, kNoBox);
    arrived.push_back(before);
    if (length == Time{}) continue;  // no NVLink was given: it takes no time, and is not drawn
    const auto [hop, fresh] = hops.try_emplace({c.relayed, c.from, c.to}, Hop{std::uint32_t(hops.size()), {}});
    if (fresh) drawing.row_names.push_back(fmt::format("{} {} > {}", c.relayed ? "GPU" : "source", c.from, c.to));
    auto& [row, free, chunks] = hop->second;
    SvgBox box{row, std::max(free, before.first)};
    free = box.end = box.start + length;
    box.after = before.second, box.kind = nic ? 'U' : 'V', box.label = std::to_string(chunks++);
    box.tip =
        fmt::format("chunk {} over {}: {} to {}", box.label, nic ? "NICs" : "NVLink", show(box.start), show(box.end));
    arrived.back() = {box.end, std::uint32_t(drawing.boxes.size())};
    drawing.boxes.push_back(std::move(box));
  }
  drawing.rows = std::uint32_t(drawing.row_names.size());
  return drawing;
}

Shown<Comparison> planners_answer() {
  return Shown<Comparison>("Questions, each planned by every planner. Makespans in elements over a NIC.")
      .figure("planners", &Comparison::planners)
      .rows("rows",
            Shown<Compared>()
                .figure("name", Unit::none, "question", "", &Compared::name)
                .named("makespan", Unit::none, "", "by planner", &Compared::makespans)
                .figure("lower_bound", &Compared::lower_bound)
                .figure("optimal", Unit::none, "whether the last is proven to be", &Compared::optimal),
            &Comparison::rows);
}

std::string to_text(const Comparison& comparison, const page::TextStyle& style) {
  std::vector<std::string> columns{"name"};
  for (const auto& planner : comparison.planners) columns.push_back(fmt::format("makespan/{0}={0}", planner));
  columns.insert(columns.end(), {"lower_bound", "optimal"});
  const auto answer = planners_answer();
  const auto json = answer.json(comparison);
  const std::vector<std::string_view> shown(columns.begin(), columns.end());
  return page::text(Showing(json, answer.items()).table("/rows", shown), Paint{style.color}, style.width);
}

std::string to_csv(const Comparison& comparison) {
  const std::vector<CsvColumn> columns{{"question", "/name"}, {"*", "/makespan"}, {"lower_bound"}, {"optimal"}};
  return csv(columns, planners_answer().json(comparison).find("rows")->items());
}

}  // namespace rehearsal::report
