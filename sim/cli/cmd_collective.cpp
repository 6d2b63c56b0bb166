// rehearse collective: one collective on one machine, step by step (contract, section 2).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <sstream>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cli/numbers.hpp"
#include "cli/output_files.hpp"
#include "cli/page_options.hpp"
#include "cli/performing.hpp"
#include "cost/one_dispatch.hpp"
#include "report/pages.hpp"
#include "scenario/cluster_file.hpp"

namespace rehearsal::cli {
namespace {

constexpr std::size_t kMostRanks = 1'000'000;
constexpr std::int64_t kMostBytes = 1'000'000'000'000'000;

CommandText collective_text() {
  std::string algorithms;
  for (const auto& [name, algorithm] : collective::registry())
    if (!algorithm.point_to_point) algorithms += fmt::format("  {}\n", name);
  return {
      .name = "collective",
      .operands = "NAME --ranks N [OPTIONS]",
      .summary =
          "Shows one collective on one machine, step by step: who sends what, bytes on every link,\n"
          "the closed form with its numbers, the algorithm that the machine's library would choose, and why.",
      .more =
          "NAME is a kind (all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, shift), which shows\n"
          "the library's choice, or one algorithm:\n" +
          algorithms +
          "or dispatch or combine: tokens on their way to experts and back, as in a training step, with --tokens,\n"
          "--hidden, --experts, --top-k, --dispatcher and --precision.\n"
          "Sizes are those of the whole array, as in nccl-tests. With n ranks, bus bandwidth is algorithm bandwidth\n"
          "x 2(n-1)/n for all-reduce, x 1 for broadcast and x (n-1)/n for others.\n"
          "--set changes keys of the cluster, such as links.scale_up.bandwidth; without 'nodes' the machine\n"
          "is as large as the ranks need. With --faults, rings run at the rate of their slowest member.\n"
          "With --backend ranks perform it, what was measured stands beside the prediction, and over hosts ('rehearse\n"
          "hosts') the bytes on each link, too.\n",
      .example =
          "  rehearse collective all-reduce --ranks 8 --size 1GiB\n"
          "  rehearse collective ring-all-reduce --ranks 4 --svg ring.svg\n"
          "  rehearse collective all-to-all --ranks 64 --per-node 4 --set links.scale_out.bandwidth=200Gb/s\n"
          "  rehearse collective dispatch --ranks 32 --dispatcher deepep --precision fp8\n"
          "  rehearse collective ring-all-reduce --ranks 2 --size 1MB --cluster this-machine --backend mpi\n",
      .takes_set = true};
}

Bytes array_size(const std::string& text) {
  Bytes size;
  try {
    size = parse_bytes(text);
  } catch (const UserError& error) {
    throw UserError("--size: " + error.diagnostics().front().message);
  }
  if (size.count() < 1 || size.count() > kMostBytes)
    throw UserError("--size must be from 1B to 1PB, found '" + text + "'");
  return size;
}

Version nccl_version(const std::string& text) {
  try {
    return parse_version(text);
  } catch (const UserError& error) {
    throw UserError("--nccl: " + error.diagnostics().front().message);
  }
}

// How many, or as many as usual.
std::int64_t count(const char* option, const std::string& text, std::int64_t usual) {
  return text.empty() ? usual : std::int64_t(whole_number(option, text, 1, 1'000'000'000));
}

constexpr std::array kOfTokens{"tokens", "hidden", "experts", "top-k", "dispatcher", "precision", "loads"};

// Options that would have no effect.
void refuse_others(const CommandLine& line, const std::string& name, bool experts) {
  if (!experts) {
    for (const char* option : kOfTokens)
      if (line.has(option))
        throw UserError(fmt::format("--{} belongs to dispatch and combine, not to {}", option, name));
    return;
  }
  for (const char* option : {"size", "nccl", "svg", "html"})
    if (line.has(option)) throw UserError(fmt::format("--{} has no effect on {}; leave it out", option, name));
}

// What `dispatch` and `combine` ask.
struct Tokens {
  std::string tokens, hidden, experts, top_k, dispatcher = "nccl", precision = "bf16", loads;

  cost::DispatchQuestion question(bool combine) const {
    cost::DispatchQuestion q;
    q.combine = combine;
    q.tokens = count("--tokens", tokens, q.tokens), q.hidden = count("--hidden", hidden, q.hidden);
    q.experts = count("--experts", experts, q.experts), q.per_token = count("--top-k", top_k, q.per_token);
    using models::Dispatcher;
    static const std::map<std::string, Dispatcher> known{
        {"nccl", Dispatcher::nccl}, {"deepep", Dispatcher::deepep}, {"hybridep", Dispatcher::hybridep}};
    const auto found = known.find(dispatcher);
    if (found == known.end()) throw UserError("--dispatcher is nccl, deepep or hybridep, found '" + dispatcher + "'");
    if (precision != "bf16" && precision != "fp8")
      throw UserError("--precision is bf16 or fp8, found '" + precision + "'");
    q.dispatcher = found->second, q.narrow = precision == "fp8";
    std::istringstream list(loads);
    for (std::string load; std::getline(list, load, ',');) q.loads.push_back(parse_number(load));
    const auto begin = q.loads.begin(), end = q.loads.end();
    if (std::any_of(begin, end, [](double load) { return !(load >= 0 && load < 1e15); }) ||
        (begin != end && *std::max_element(begin, end) <= 0))
      throw UserError("--loads are numbers of 0 and more, and not all 0: '3,1,1,1'; found '" + loads + "'");
    return q;
  }
};

constexpr std::uint32_t kMostPerformed = 256;

// What is predicted of the links outside of nodes.
HostLinks between_nodes(const cost::OneCollective& one) {
  HostLinks links;
  for (const auto& link : one.links)
    if (std::min(link.from.kind, link.to.kind) >= cluster::DeviceKind::nic)
      links[fmt::format("{} to {}", cluster::name(link.from), cluster::name(link.to))] = {link.bytes,
                                                                                          link.rate.value()};
  return links;
}

// `algorithm`: null: the library's choice.
std::optional<explore::Performed> perform_collective(const AlonePerforming& o, const cost::CommunicationModel& model,
                                                     const graph::Work& work, const graph::Collective& moves,
                                                     const collective::Algorithm* algorithm, bool named,
                                                     std::uint32_t per_node, double predicted, const HostLinks& links,
                                                     const Arguments& arguments, const CommonOptions& common) {
  const std::uint32_t ranks = moves.group.ranks;
  if (ranks > kMostPerformed)
    throw UserError(fmt::format("--backend performs collectives of up to {} ranks, not {}", kMostPerformed, ranks));
  const auto how = collectives_asked(o.collectives, o.backend, backend::Compute::timed);
  if (named && how == backend::Collectives::library)
    throw UserError(
        fmt::format("the library chooses its own algorithm, whatever is named; perform {} by --collectives own, or ask "
                    "for '{}'",
                    algorithm->name, name(moves.kind)));
  const auto backend = open_backend(o.backend, "collective", arguments);
  const auto what = lower::one_collective(work, ranks, per_node, seconds(predicted));
  const std::vector executions(what.graph.works().size(),
                               model.execution(moves.group, moves.kind, moves.size, algorithm));
  return perform(o, *backend, what, predicted, executions, links, common);
}

}  // namespace

int run_collective(Session& session, const Arguments& arguments) {
  const CommandText text = collective_text();
  CommonOptions common(session);
  std::string ranks, per_node, size = "1GiB", machine = "dgx-h100", nccl, faults;
  PageOptions pages;
  Tokens tokens;
  AlonePerforming performing;
  OptionList own{
      {"ranks", "N", "GPUs that take part, 2 or more", &ranks},
      {"per-node", "G", "GPUs used in each node, evenly spaced (default: all)", &per_node},
      {"size", "SIZE", "size of the array, such as 64MiB (default 1GiB)", &size},
      {"cluster", "NAME",
       "a name from 'rehearse list clusters' (default dgx-h100), or a file: a cluster, or a scenario that has one",
       &machine},
      {"faults", "LIST", "faults of the machine, as in a scenario: '[{nic: 3, rate: 0}]'", &faults},
      {"nccl", "VERSION",
       fmt::format("NCCL's version, which decides what algorithms there are (default {})", show(kNewestNccl)), &nccl},
      {"tokens", "N", "dispatch and combine: tokens of each rank (default 4096)", &tokens.tokens},
      {"hidden", "H", "values per token (default 7168)", &tokens.hidden},
      {"experts", "E", "experts of all ranks together (default 256)", &tokens.experts},
      {"top-k", "K", "experts per token (default 8)", &tokens.top_k},
      {"dispatcher", "NAME", "nccl, deepep or hybridep (default nccl)", &tokens.dispatcher},
      {"precision", "NAME", "format of dispatched tokens: bf16 or fp8 (default bf16)", &tokens.precision},
      {"loads", "LIST", "rows that ranks get, in any unit: '3,1,1,1' (default: as many as each other)", &tokens.loads},
      {"collectives",
       "HOW",
       "with --backend: own: these steps; library: as MPI or NCCL perform it (default own)",
       &performing.collectives,
       false,
       {"own", "library"}}};
  for (auto& option : alone_options(performing, "the collective")) own.push_back(std::move(option));
  own = with_page_options(std::move(own), pages, "draw the steps as a picture");
  const auto line = parse(text, own, arguments, common);
  if (!line) return 0;
  const auto name = one_operand(text, *line, "the name of a collective");
  const bool experts = name == "dispatch" || name == "combine";
  auto question = cost::named_collective(experts ? "all-to-all" : name);
  refuse_others(*line, name, experts);
  check(*line, performing);
  if (!line->has("ranks")) throw UserError("missing --ranks; see 'rehearse collective --help'");
  question.ranks = static_cast<std::uint32_t>(whole_number("--ranks", ranks, 1, kMostRanks));
  if (question.ranks < 2) throw UserError("--ranks must be at least 2: one rank has no peer");
  if (line->has("per-node")) question.per_node = std::int64_t(whole_number("--per-node", per_node, 1, kMostRanks));
  question.size = array_size(size);
  check_outputs(common, page_outputs(pages), {});

  auto cluster = scenario::load_named_cluster(machine, common.set, session.files());
  warn(common, cluster.warnings);
  const auto group = cost::place(question, cluster.spec, cluster.sized);
  if (line->has("faults"))
    cluster.spec = cluster::with_faults(cluster.spec, scenario::named_faults(faults, cluster.spec));
  const cost::CommunicationModel model(cluster.spec, cluster.curves,
                                       line->has("nccl") ? nccl_version(nccl) : kNewestNccl);
  std::optional<explore::Performed> done;
  std::optional<report::PerformedAlone> performed;
  // False: another rank reports.
  const auto perform_it = [&](const graph::Work& work, const graph::Collective& moves,
                              const collective::Algorithm* algorithm, double predicted, const HostLinks& links) {
    if (performing.backend.empty()) return true;
    const auto per_node = std::uint32_t(std::min<std::int64_t>(group.ranks, cluster.spec.gpus_per_node / group.stride));
    done = perform_collective(performing, model, work, moves, algorithm, question.algorithm != nullptr, per_node,
                              predicted, links, arguments, common);
    if (done) performed.emplace(report::PerformedAlone{done->timeline, predicted, done->collectives, done->links});
    return done.has_value();
  };
  if (experts) {
    const auto one = cost::one_dispatch(cluster.spec, cluster.curves, tokens.question(name == "combine"), group);
    if (!perform_it(one.work, cost::CostModel::as_all_to_all(one.work), nullptr, one.seconds, {})) return 0;
    const report::TokenExchange exchange{one, performed ? &*performed : nullptr};
    emit_report(common, {.text = [&] { return report::to_text(exchange, text_style(common)); },
                         .json = [&] { return report::dispatch_answer().json_text(exchange); },
                         .csv = [&] { return report::to_csv(one); }});
    return 0;
  }
  const auto one = cost::step_by_step(model, question, group);
  const graph::Collective work{.kind = question.kind, .size = question.size, .group = group};
  if (!perform_it(work, work, one.algorithm, one.seconds, between_nodes(one))) return 0;
  const report::Exchange exchange{model, one, performed ? &*performed : nullptr};
  write_pages(common, pages,
              [&] { return report::collective_page(exchange, as_asked(session, "collective", arguments, "")); });
  emit_report(common, {.text = [&] { return report::to_text(exchange, text_style(common)); },
                       .json = [&] { return report::collective_answer().json_text(exchange); },
                       .csv = [&] { return report::to_csv(one); }});
  return 0;
}

}  // namespace rehearsal::cli
