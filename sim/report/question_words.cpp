#include "report/question_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace rehearsal::report {
namespace {

// "7, 6 x 8, 7": adjacent equal ones are grouped, in a form such as "{} x {}".
std::vector<std::string> counted(const std::vector<std::string>& all, const char* form) {
  std::vector<std::string> texts;
  for (std::size_t i = 0, next = 0; i < all.size(); i = next) {
    while (next < all.size() && all[next] == all[i]) next++;
    texts.push_back(next - i > 1 ? fmt::format(fmt::runtime(form), next - i, all[i]) : all[i]);
  }
  return texts;
}

// "stages: tensor 4, 2 x (tensor 2 x data 2)": of what repeats itself, once, and how often.
std::string layouts(const std::vector<plan::StageLayout>& all) {
  std::vector<std::string> texts;
  for (const auto& l : all) {
    auto& one = texts.emplace_back();
    const auto add = [&](const char* what, std::int64_t degree, const char* more = "") {
      if (degree > 1) one += fmt::format("{}{} {}{}", one.empty() ? "" : " x ", what, degree, more);
    };
    add("tensor", l.tensor, l.sequence ? " (sequence)" : ""), add("context", l.context), add("data", l.data);
    if (one.empty()) one = "1 GPU";
    if (l.sharding) one += " as " + reshard::to_text(*l.sharding);
  }
  texts = counted(texts, "{} x ({})");
  std::size_t period = 1;
  while (texts.size() % period != 0 || !std::equal(texts.begin() + std::ptrdiff_t(period), texts.end(), texts.begin()))
    ++period;
  const auto times = texts.size() / period;
  texts.resize(period);
  return times > 1 ? fmt::format("stages: {} x ({})", times, fmt::join(texts, ", "))
                   : fmt::format("stages: {}", fmt::join(texts, ", "));
}

// "A100 80GB", or "32 x A100 80GB, 32 x H100" in node order.
std::string gpus_of(const cluster::ClusterSpec& cluster) {
  std::string text = cluster.groups.empty() ? cluster.gpu.name : "";
  for (const auto& group : cluster.groups)
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", group.nodes * cluster.gpus_per_node,
                        (group.gpu ? *group.gpu : cluster.gpu).name);
  return text;
}

}  // namespace

std::string question_words(const answer::Result& run) {
  const auto& sc = run.scenario();
  const auto& p = sc.parallelism;
  const auto microbatches = run.summary.microbatches;
  auto schedule = sc.schedule.name;
  if (p.chunks > 1) schedule += fmt::format(" with {} chunks", p.chunks);
  if (!sc.concrete)
    return fmt::format("{} pipeline ranks, {} micro-batches, {}, stage times given", p.pipeline, microbatches,
                       schedule);
  const auto& c = *sc.concrete;
  const double parameters = models::parameters(c.model);
  const auto zero = p.zero ? fmt::format(" (ZeRO-{})", p.zero) : "";
  const auto batch = fmt::format("; {} sequences = {} micro-batch{} of ", sc.batch.global, microbatches,
                                 microbatches == 1 ? "" : "es");
  auto text = fmt::format(
      "{}: {} layers, hidden {}, {} parameters; sequences of {} tokens\n{} GPU{} ({}) in {} node{} ({}); framework "
      "{}\n",
      c.model.name, c.model.layers, c.model.hidden,
      parameters < 5e7 ? fmt::format("{:.1f} M", parameters * 1e-6) : fmt::format("{:.1f} B", parameters * 1e-9),
      sc.batch.sequence, run.summary.gpus, run.summary.gpus == 1 ? "" : "s", gpus_of(c.cluster), c.cluster.nodes,
      c.cluster.nodes == 1 ? "" : "s", c.cluster.name, c.framework.name);
  if (p.layouts.empty())
    text += fmt::format("tensor {}{}{} x pipeline {} x data {}{}{}{} per pipeline; {}", p.tensor,
                        p.sequence ? " (sequence)" : "", p.context > 1 ? fmt::format(" x context {}", p.context) : "",
                        p.pipeline, p.data, zero, batch, sc.batch.micro, schedule);
  else
    text += fmt::format("{}{}{}{}; {}", layouts(p.layouts), zero, batch, sc.batch.micro * p.data, schedule);
  std::vector<std::string> layers;
  for (const auto count : run.lowered->layers) layers.push_back(std::to_string(count));
  if (const auto some = counted(layers, "{} x {}"); some.size() > 1)
    text += fmt::format("\nlayers per stage: {}", fmt::join(some, ", "));
  return text;
}

}  // namespace rehearsal::report
