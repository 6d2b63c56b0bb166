#include "report/collective_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cluster/device_kind.hpp"
#include "collective/holdings.hpp"
#include "page/grid.hpp"
#include "page/layout.hpp"
#include "report/measured_text.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

using cost::OneCollective;

constexpr std::uint32_t kMostRows = 24;

std::string rate_text(Bandwidth rate) { return show_amount(rate.value(), Unit::rate); }
std::string time_text(double s) { return show(seconds(s)); }
std::string bytes_text(double n) { return show(bytes(n)); }

bool across(const OneCollective& one) { return one.quote.shape.nodes() > 1; }

std::string count_of(double count, double each) { return fmt::format("{:.4g} x {}", count, time_text(each)); }

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

// A candidate, with what it was compared for.
struct Offer {
  const Exchange& of;
  const collective::Candidate& candidate;
};
std::vector<Offer> offers(const Exchange& of) {
  return each(of.one.quote.candidates, [&](const collective::Candidate& c) { return Offer{of, c}; });
}
Shown<Offer> candidate() {
  return Shown<Offer>("Algorithms of the kind, by their closed forms.")
      .figure("algorithm", [](auto& o) { return o.candidate.algorithm->name; })
      .figure("applies", [](auto& o) { return o.candidate.refusal == collective::Refusal::none; })
      .figure("time_s", Unit::seconds, "time", "null: it cannot run here",
              [](auto& o) { return o.candidate.form ? std::optional(o.candidate.seconds) : std::nullopt; })
      .figure("why", [](auto& o) { return candidate_note(o.of.model, o.of.one, o.candidate); });
}

Shown<OneCollective> closed_form_terms() {
  using collective::ClosedForm;
  return Shown<OneCollective>("T = fixed + steps x latency + hops x net_latency + inside + wire - hidden + ramp.")
      .also(Shown<ClosedForm>()
                .figure("fixed_s", Unit::seconds, "start of the call", &ClosedForm::fixed)
                .figure("steps", [](auto& form) { return number(form.steps); })
                .figure("latency_s", Unit::seconds, "of a step", &ClosedForm::latency)
                .figure("hops", Unit::none, "between domains", [](auto& form) { return number(form.hops); })
                .figure("net_latency_s", Unit::seconds, "of a hop", &ClosedForm::net_latency)
                .figures(Unit::seconds, "inside_s", &ClosedForm::inside, "wire_s", &ClosedForm::wire, "hidden_s",
                         &ClosedForm::hidden, "ramp_s", &ClosedForm::ramp, "time_s", &ClosedForm::seconds),
            &OneCollective::form)
      .figure("shared_links_s", Unit::seconds, "of the fullest that messages share", &OneCollective::shared)
      .figure("measured_over_closed_form", Unit::none, "by size curves",
              [](auto& one) { return number(one.quote.across && one.chosen ? one.quote.across : one.correction); });
}

const char* way(const cost::OneDispatch& one) { return one.question.combine ? "combine" : "dispatch"; }
const char* dispatcher(const cost::OneDispatch& one) {
  constexpr std::array kNames{"nccl", "deepep", "hybridep"};
  return kNames[std::size_t(one.question.dispatcher)];
}

}  // namespace

Table closed_form(const cost::CommunicationModel& model, const OneCollective& one) {
  const auto& form = one.form;
  const auto& wires = one.quote.wires;
  const auto& curves = model.curves().name;
  Table table{{"term", "time", ""}, {}, {true, false, true}};
  const auto row = [&](const char* name, double s, std::string how) {
    table.rows.push_back({{name}, {time_text(s), s}, {std::move(how)}});
  };
  const auto add = [&](const char* name, double s, std::string how) {
    if (s > 0) row(name, s, std::move(how));
  };
  if (!across(one)) {
    const auto reached = wires.rate * one.share;
    add("start", form.fixed, "of the call");
    add("steps", form.steps * form.latency, count_of(form.steps, form.latency));
    add("bytes", form.inside,
        fmt::format("{} at {} of a port ({:.3g} of {} as sold)", bytes_text(form.inside * reached.value()),
                    rate_text(reached), one.share, rate_text(wires.rate)));
    add("ramp", form.ramp, "until channels and their pipelines are full");
    row("sum", form.seconds(), "");
    if (one.correction)
      row("measured", one.seconds, fmt::format("{:.4g} x the sum, by the size curves {}", *one.correction, curves));
    return table;
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
  if (form.hidden > 0) row("hidden", -form.hidden, "one of the two behind the other");
  add("hops", form.hops * form.net_latency, count_of(form.hops, form.net_latency) + " between nodes");
  add("steps", form.steps * form.latency, count_of(form.steps, form.latency) + " inside nodes");
  add("ramp", form.ramp, "until NICs and their queues are full");
  row("sum", form.seconds(), "");
  if (one.chosen && one.quote.across)
    row("measured", one.seconds,
        fmt::format("{:.4g} x the sum, by the size curves {} of whole nodes", *one.quote.across, curves));
  if (one.shared >= one.seconds) row("shared links", one.shared, "of the fullest on the way to NICs: it takes no less");
  return table;
}

Table candidates(const cost::CommunicationModel& model, const OneCollective& one) {
  return report::table(candidate(), offers({model, one}), {"algorithm", "time_s", "why="});
}

Table links(const OneCollective& one) {
  using cost::LinkKind;
  return report::table(
      Shown<LinkKind>()
          .figures(Unit::none, "from", [](auto& k) { return cluster::name(k.from); })
          .figures(
              Unit::none, "to", [](auto& k) { return cluster::name(k.to); }, "links", &LinkKind::links)
          .figures(Unit::bytes, "bytes", &LinkKind::total, "busiest", &LinkKind::most)
          .figure("rate", Unit::rate, "", [](auto& k) { return k.rate.value(); })
          .figure("busy", Unit::share, "", [&](auto& k) { return k.most / k.rate.value() / one.seconds; }),
      one.link_kinds(), {"from", "to", "links", "bytes", "busiest", "rate", "busy"});
}

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

std::string to_text(const Exchange& exchange, const page::TextStyle& style) {
  const auto& model = exchange.model;
  const auto& one = exchange.one;
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
  if (exchange.performed) text += performed_lines(*exchange.performed, 12, paint);
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

  text += "\n" + paint.bold("Closed form") + "\n" + page::text(closed_form(model, one), paint, style.width);
  const auto& library = model.runtime().library;  // this program's own has no versions
  text += "\n" +
          paint.bold(fmt::format("Candidates by their closed forms ({}{})", library.title,
                                 library.nccl_protocols ? " " + show(model.runtime().version) : "")) +
          "\n" + page::text(candidates(model, one), paint, style.width);

  if (one.steps.empty())
    return text + "\n" + paint.dim(fmt::format("Steps and links are listed for up to {} ranks.", cost::kMostListed)) +
           "\n";
  const auto parts = collective::parts_of(*one.algorithm, one.quote.shape);
  text += "\n" +
          paint.bold(fmt::format("Steps (from > to: chunk, one of {} of {})", parts, bytes_text(one.part_bytes()))) +
          "\n";
  for (const auto& line : step_lines(one, style.width)) text += line + "\n";

  text += "\n" + paint.bold("Links") + "\n" + page::text(links(one), paint, style.width);
  if (across(one) && one.quote.shape.per_node > 1)
    text += paint.dim("  " + wrap("What leaves a node is dealt out to the NICs of its ranks: as many rings or "
                                  "trees run at a time, and each leaves and enters by another one.",
                                  std::size_t(style.width - 2), "  ")) +
            "\n";
  if (exchange.performed) text += disturbance_text(exchange.performed->timeline, style.width, paint);
  return fit(text, style.width);
}

Shown<Exchange> collective_answer() {
  using collective::Transfer;
  return Shown<Exchange>("One collective on one machine, as nccl-tests counts: the whole array.")
      .figure("collective", [](auto& e) { return name(e.one.question.kind); })
      .figure("algorithm", [](auto& e) { return e.one.algorithm->name; })
      .figure("cluster", [](auto& e) { return e.model.machine().spec().name; })
      .figure("ranks", [](auto& e) { return e.one.question.ranks; })
      .figure("per_node", [](auto& e) { return e.one.per_node; })
      .figure("size_bytes", Unit::bytes, "of the array", [](auto& e) { return e.one.question.size; })
      .figure("time_s", Unit::seconds, "time", "", [](auto& e) { return e.one.seconds; })
      .group("measured", performed_alone(), &Exchange::performed)
      .or_left_out()
      .figure("algbw_bytes_per_s", Unit::rate, "", [](auto& e) { return e.one.algorithm_bandwidth(); })
      .figure("busbw_bytes_per_s", Unit::rate, "bandwidth on the bus", "",
              [](auto& e) { return e.one.bus_bandwidth(); })
      .figure("why", Unit::none, "this algorithm", [](auto& e) { return e.one.why; })
      .figure("chosen_by_nccl", [](auto& e) { return e.one.chosen; })
      .group("closed_form", closed_form_terms(), [](auto& e) { return &e.one; })
      .figure("bytes_sent_per_rank", Unit::bytes, "of the busiest",
              [](auto& e) { return e.one.algorithm->bytes_sent_per_rank(e.one.quote.shape, e.one.question.size); })
      .figure("chunks", [](auto& e) { return collective::parts_of(*e.one.algorithm, e.one.quote.shape); })
      .rows("candidates", candidate(), offers)
      .lists("steps",
             Shown<Transfer>("By step; none above 256 ranks. Beyond the ranks are switches; reduce: adds, else copies.")
                 .figures(Unit::none, "from", &Transfer::from, "to", &Transfer::to, "chunk", &Transfer::chunk, "reduce",
                          &Transfer::reduce),
             [](auto& e) { return &e.one.steps; })
      .rows("links",
            Shown<cost::LinkLoad>("Both directions of every link.")
                .figure("from", [](auto& l) { return cluster::name(l.from); })
                .figure("to", [](auto& l) { return cluster::name(l.to); })
                .figure("bytes", Unit::bytes, "over it", &cost::LinkLoad::bytes)
                .figure("rate_bytes_per_s", Unit::rate, "", [](auto& l) { return number(l.rate.value()); }),
            [](auto& e) { return &e.one.links; });
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

std::string to_text(const TokenExchange& exchange, const page::TextStyle& style) {
  const auto& one = exchange.one;
  const auto& q = one.question;
  const auto line = [&](const char* over, double sent, double rate) {
    return fmt::format("  {:<8} {:>12} sent by each GPU, {}\n", over, show(bytes(sent)), show_amount(rate, Unit::rate));
  };
  std::string text =
      fmt::format("{} by {}: {} tokens of {} values on each of {} ranks, {} of {} experts per token\n\n", way(one),
                  dispatcher(one), q.tokens, q.hidden, one.work.group.ranks, q.per_token, q.experts);
  text += fmt::format(
      "  Time     {:>9.4g} ms{}\n", one.seconds * 1e3,
      one.work.loads.empty() ? "" : fmt::format(", by the busiest rank: {:.3g} times the mean", one.work.load));
  if (exchange.performed) text += performed_lines(*exchange.performed, 9, Paint{style.color});
  return text + line("NVLink", one.sent.inside, one.inside_rate()) + line("RDMA", one.sent.out, one.out_rate());
}

Shown<TokenExchange> dispatch_answer() {
  using cost::OneDispatch, cost::DispatchQuestion;
  const auto exchange =
      Shown<OneDispatch>()
          .figure("collective", way)
          .figure("dispatcher", dispatcher)
          .figure("ranks", [](auto& d) { return d.work.group.ranks; })
          .also(Shown<DispatchQuestion>()
                    .figure("tokens", Unit::none, "of each rank", &DispatchQuestion::tokens)
                    .figure("hidden", Unit::none, "values of a token", &DispatchQuestion::hidden)
                    .figure("experts", &DispatchQuestion::experts)
                    .figure("top_k", Unit::none, "experts of a token", &DispatchQuestion::per_token),
                &OneDispatch::question)
          .figure("load", Unit::none, "rows of the busiest rank over the mean", [](auto& d) { return d.work.load; })
          .figure("time_s", Unit::seconds, "time", "", &OneDispatch::seconds)
          .figure("nvlink_bytes", [](auto& d) { return d.sent.inside; })
          .figure("nvlink_bytes_per_s", Unit::rate, "", &OneDispatch::inside_rate)
          .figure("rdma_bytes", [](auto& d) { return d.sent.out; })
          .figure("rdma_bytes_per_s", Unit::rate, "", &OneDispatch::out_rate);
  return Shown<TokenExchange>(
             "Tokens on their way to experts, or back. Bytes and rates are those that the busiest GPU sends.")
      .also(exchange, [](auto& e) -> const OneDispatch& { return e.one; })
      .group("measured", performed_alone(), &TokenExchange::performed)
      .or_left_out();
}

std::string to_csv(const cost::OneDispatch& one) {
  const auto& q = one.question;
  return fmt::format(
      "collective,dispatcher,ranks,tokens,hidden,experts,top_k,time_ms,nvlink_gbs,rdma_gbs\n"
      "{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g}\n",
      way(one), dispatcher(one), one.work.group.ranks, q.tokens, q.hidden, q.experts, q.per_token, one.seconds * 1e3,
      one.inside_rate() / 1e9, one.out_rate() / 1e9);
}

}  // namespace rehearsal::report
