#include "report/collective_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cluster/device_kind.hpp"
#include "collective/holdings.hpp"
#include "page/grid.hpp"
#include "page/layout.hpp"
#include "report/json.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

using cost::OneCollective;

constexpr std::uint32_t kMostRows = 24;

std::string rate_text(Bandwidth rate) { return fmt::format("{:.4g} GB/s", rate.value() / 1e9); }
std::string time_text(double s) { return show(seconds(s)); }
std::string bytes_text(double n) { return show(bytes(n)); }

bool across(const OneCollective& one) { return one.quote.shape.nodes() > 1; }

// Rows of "name  amount  derivation", with amounts right-aligned.
struct Row {
  std::string name, amount, how;
};
std::string rows_text(const std::vector<Row>& rows, int width, const Paint& paint) {
  std::size_t names = 0, amounts = 0;
  for (const auto& row : rows) names = std::max(names, row.name.size()), amounts = std::max(amounts, row.amount.size());
  const std::size_t left = 2 + names + 2 + amounts + 3;
  std::string text;
  for (const auto& row : rows) {
    std::string line = fmt::format("  {:<{}}  {:>{}}   ", row.name, names, row.amount, amounts);
    line += wrap(row.how, std::max(left + 30, std::size_t(width)), std::string(left, ' '), left);
    while (line.ends_with(' ')) line.pop_back();
    text += (row.name == "sum" ? paint.bold(line) : line) + "\n";
  }
  return text;
}

std::string count_of(double count, double each) { return fmt::format("{:.4g} x {}", count, time_text(each)); }

std::vector<Row> closed_form(const cost::CommunicationModel& model, const OneCollective& one) {
  const auto& form = one.form;
  const auto& wires = one.quote.wires;
  const auto& curves = model.curves().name;
  std::vector<Row> rows;
  const auto add = [&](const char* name, double s, std::string how) {
    if (s > 0) rows.push_back({name, time_text(s), std::move(how)});
  };
  if (!across(one)) {
    const auto reached = wires.rate * one.share;
    add("start", form.fixed, "of the call");
    add("steps", form.steps * form.latency, count_of(form.steps, form.latency));
    add("bytes", form.inside,
        fmt::format("{} at {} of a port ({:.3g} of {} as sold)", bytes_text(form.inside * reached.value()),
                    rate_text(reached), one.share, rate_text(wires.rate)));
    add("ramp", form.ramp, "until channels and their pipelines are full");
    rows.push_back({"sum", time_text(form.seconds()), ""});
    if (one.correction)
      rows.push_back({"measured", time_text(one.seconds),
                      fmt::format("{:.4g} x the sum, by the size curves {}", *one.correction, curves)});
    return rows;
  }
  const auto node = wires.net_rate * double(one.quote.shape.per_node);
  add("start", form.fixed, "whatever the links");
  add("between nodes", form.wire, fmt::format("alone, at {} out of each node for this group", rate_text(node)));
  std::string inside = "alone";
  const bool ring_alone = wires.ring_inside != wires.inside && form.inside != wires.inside;
  if (ring_alone)
    inside += ", as a ring: the switch adds for others";
  else if (one.quote.inside.algorithm)
    inside += one.correction
                  ? fmt::format("; a node by itself takes {}, {:.4g} x its closed form, by the size curves {}",
                                time_text(one.quote.inside.seconds), *one.correction, curves)
                  : fmt::format("; a node by itself takes {}, by its closed form", time_text(one.quote.inside.seconds));
  add("inside nodes", form.inside, std::move(inside));
  if (form.hidden > 0) rows.push_back({"hidden", "-" + time_text(form.hidden), "one of the two behind the other"});
  add("hops", form.hops * form.net_latency, count_of(form.hops, form.net_latency) + " between nodes");
  add("steps", form.steps * form.latency, count_of(form.steps, form.latency) + " inside nodes");
  add("ramp", form.ramp, "until NICs and their queues are full");
  rows.push_back({"sum", time_text(form.seconds()), ""});
  if (one.chosen && one.quote.across)
    rows.push_back({"measured", time_text(one.seconds),
                    fmt::format("{:.4g} x the sum, by the size curves {} of whole nodes", *one.quote.across, curves)});
  if (one.shared >= one.seconds)
    rows.push_back({"shared links", time_text(one.shared), "of the fullest on the way to NICs: it takes no less"});
  return rows;
}

std::string candidate_note(const cost::CommunicationModel& model, const OneCollective& one,
                           const collective::Candidate& candidate) {
  if (auto why = collective::reason(candidate, one.quote.shape, model.runtime()); !why.empty()) return why;
  const auto* fastest = one.quote.choice.algorithm;
  if (candidate.algorithm == fastest) return model.runtime().library.title + "'s choice: the fastest that applies";
  for (const auto& other : one.quote.candidates)
    if (other.algorithm == fastest) return fmt::format("{:.3g} times as long", candidate.seconds / other.seconds);
  return "";
}

std::vector<std::string> step_lines(const OneCollective& one, int width) {
  std::vector<std::string> lines;
  const auto count = std::uint32_t(one.steps.size());
  const ElidedRows fold = elided_rows(count, kMostRows);
  for (std::uint32_t k = 0; k < count; ++k) {
    if (fold.hidden && k == fold.first) {
      lines.push_back(fmt::format("       ... {} more steps ...", fold.hidden));
      k += fold.hidden;
    }
    std::string line = fmt::format("  {:>3}  {:<7}", k + 1, step_verb(one.steps[k]));
    const auto all = arrows(one.steps[k]);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto end = [&](std::uint32_t who) { return who < one.question.ranks ? std::to_string(who) : "switch"; };
      const auto cell = fmt::format("  {} > {}: {}", end(all[i].from), end(all[i].to), chunk_text(all[i].chunks));
      const auto more = fmt::format("  and {} more", all.size() - i);
      if (line.size() + cell.size() + (i + 1 < all.size() ? more.size() : 0) > std::size_t(width)) {
        line += more;
        break;
      }
      line += cell;
    }
    lines.push_back(line);
  }
  return lines;
}

std::string gpus_text(const OneCollective& one, const cluster::ClusterSpec& spec) {
  const auto nodes = one.question.ranks / one.per_node;
  auto text = fmt::format("{} GPUs in a node of {}", one.question.ranks, spec.name);
  if (nodes > 1)
    text = fmt::format("{} GPUs, {} in each of {} nodes of {}", one.question.ranks, one.per_node, nodes, spec.name);
  if (one.group.stride > 1) text += fmt::format(", {} apart", one.group.stride);
  return text;
}

}  // namespace

std::vector<Arrow> arrows(const std::vector<collective::Transfer>& step) {
  std::vector<Arrow> all;
  for (const auto& t : step) {
    auto same = std::find_if(all.begin(), all.end(),
                             [&](const Arrow& a) { return a.from == t.from && a.to == t.to && a.reduce == t.reduce; });
    if (same == all.end()) same = all.insert(all.end(), {t.from, t.to, t.reduce, {}});
    same->chunks.push_back(t.chunk);
  }
  return all;
}

std::string chunk_text(const std::vector<std::uint32_t>& chunks) {
  return chunks.size() <= 2 ? fmt::format("{}", fmt::join(chunks, ",")) : fmt::format("{} chunks", chunks.size());
}

std::string step_verb(const std::vector<collective::Transfer>& step) {
  const auto adding = std::count_if(step.begin(), step.end(), [](const auto& t) { return t.reduce; });
  return adding == 0 ? "copies" : adding == std::ssize(step) ? "adds" : "both";
}

std::string to_text(const cost::CommunicationModel& model, const OneCollective& one, const page::TextStyle& style) {
  const Paint paint{style.color};
  const auto& spec = model.machine().spec();
  std::string text = paint.bold(fmt::format("{} of {} among {}", name(one.question.kind), show(one.question.size),
                                            gpus_text(one, spec))) +
                     "\n" +
                     paint.dim(wrap(std::string("The size is that of nccl-tests: the whole array. ") +
                                        (one.group.stride > 1 ? "The other GPUs of these nodes do the same meanwhile."
                                                              : "Nothing else is on the links."),
                                    std::size_t(style.width))) +
                     "\n\n";
  text += fmt::format("  Time        {}\n", paint.bold(time_text(one.seconds)));
  text += fmt::format(
      "  Algorithm   {}: {}{}\n", paint.bold(one.algorithm->name), one.why,
      one.chosen ? ""
                 : fmt::format("; {} would run {}", model.runtime().library.title, one.quote.choice.algorithm->name));
  text += fmt::format("  Bandwidth   {} of the algorithm, {} on the bus (x {:.4g})\n",
                      rate_text(Bandwidth(one.algorithm_bandwidth())),
                      paint.bold(rate_text(Bandwidth(one.bus_bandwidth()))), one.bus_factor());
  text += fmt::format("  Sends       {} from the busiest rank, in {} steps\n",
                      show(one.algorithm->bytes_sent_per_rank(one.quote.shape, one.question.size)),
                      grouped(one.algorithm->steps(one.quote.shape)));
  text += wrap("  " + one.algorithm->summary, std::size_t(style.width), "  ") + "\n";

  text += "\n" + paint.bold("Closed form") + "\n" + rows_text(closed_form(model, one), style.width, paint);

  std::vector<Row> rows;
  for (const auto& candidate : one.quote.candidates)
    rows.push_back({candidate.algorithm->name, candidate.form ? time_text(candidate.seconds) : "-",
                    candidate_note(model, one, candidate)});
  text += "\n" +
          paint.bold(fmt::format("Candidates by their closed forms ({} {})", model.runtime().library.title,
                                 show(model.runtime().version))) +
          "\n" + rows_text(rows, style.width, paint);

  if (one.steps.empty())
    return text + "\n" + paint.dim(fmt::format("Steps and links are listed for up to {} ranks.", cost::kMostListed)) +
           "\n";
  const auto parts = collective::parts_of(*one.algorithm, one.quote.shape);
  text += "\n" +
          paint.bold(fmt::format("Steps (from > to: chunk, one of {} of {})", parts, bytes_text(one.part_bytes()))) +
          "\n";
  for (const auto& line : step_lines(one, style.width)) text += line + "\n";

  text += "\n" + paint.bold("Links") + "\n";
  std::vector<std::vector<std::string>> links{{"", "from", "to", "links", "bytes", "busiest", "rate", "busy"}};
  for (const auto& kind : one.link_kinds())
    links.push_back({"", cluster::name(kind.from), cluster::name(kind.to), grouped(std::uint64_t(kind.links)),
                     bytes_text(kind.total), bytes_text(kind.most), rate_text(kind.rate),
                     fmt::format("{:.1f} %", 100 * kind.most / kind.rate.value() / one.seconds)});
  text += table(links, paint, style.width);
  if (across(one) && one.quote.shape.per_node > 1)
    text += paint.dim("  " + wrap("What leaves a node is dealt out to the NICs of its ranks: as many rings or "
                                  "trees run at a time, and each leaves and enters by another one.",
                                  std::size_t(style.width - 2), "  ")) +
            "\n";
  return fit(text, style.width);
}

Json to_json(const cost::CommunicationModel& model, const OneCollective& one) {
  const auto& form = one.form;
  Json candidates = Json::array(), steps = Json::array(), links = Json::array();
  for (const auto& c : one.quote.candidates) {
    candidates.push_back({{"algorithm", c.algorithm->name},
                          {"applies", c.refusal == collective::Refusal::none},
                          {"time_s", c.form ? Json(c.seconds) : Json(nullptr)},
                          {"why", candidate_note(model, one, c)}});
  }
  for (const auto& step : one.steps) {
    auto& transfers = steps.push_back(Json::array());
    for (const auto& t : step)
      transfers.push_back({{"from", t.from}, {"to", t.to}, {"chunk", t.chunk}, {"reduce", t.reduce}});
  }
  for (const auto& link : one.links)
    links.push_back({{"from", cluster::name(link.from)},
                     {"to", cluster::name(link.to)},
                     {"bytes", number(link.bytes)},
                     {"rate_bytes_per_s", number(link.rate.value())}});
  return {{"collective", name(one.question.kind)},
          {"algorithm", one.algorithm->name},
          {"cluster", model.machine().spec().name},
          {"ranks", one.question.ranks},
          {"per_node", one.per_node},
          {"size_bytes", one.question.size.count()},
          {"time_s", one.seconds},
          {"algbw_bytes_per_s", one.algorithm_bandwidth()},
          {"busbw_bytes_per_s", one.bus_bandwidth()},
          {"why", one.why},
          {"chosen_by_nccl", one.chosen},
          {"closed_form",
           {{"fixed_s", form.fixed},
            {"steps", number(form.steps)},
            {"latency_s", form.latency},
            {"hops", number(form.hops)},
            {"net_latency_s", form.net_latency},
            {"inside_s", form.inside},
            {"wire_s", form.wire},
            {"hidden_s", form.hidden},
            {"ramp_s", form.ramp},
            {"time_s", form.seconds()},
            {"shared_links_s", one.shared},
            {"measured_over_closed_form", number(one.quote.across && one.chosen ? one.quote.across : one.correction)}}},
          {"bytes_sent_per_rank", one.algorithm->bytes_sent_per_rank(one.quote.shape, one.question.size).count()},
          {"chunks", collective::parts_of(*one.algorithm, one.quote.shape)},
          {"candidates", candidates},
          {"steps", steps},
          {"links", links}};
}

std::string to_csv(const OneCollective& one) {
  if (one.question.ranks > cost::kMostListed)
    throw UserError(fmt::format("--format csv lists transfers, of up to {} ranks", cost::kMostListed));
  std::string csv = csv_line({"step", "from", "to", "chunk", "bytes", "reduce"});
  for (std::size_t k = 0; k < one.steps.size(); ++k)
    for (const auto& t : one.steps[k])
      csv += csv_line({std::to_string(k + 1), std::to_string(t.from), std::to_string(t.to), std::to_string(t.chunk),
                       Json(number(one.part_bytes())).dump(), t.reduce ? "yes" : "no"});
  return csv;
}

}  // namespace rehearsal::report
