#include "explore/path_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "timeline/breakdown.hpp"
#include "timeline/split.hpp"

namespace rehearsal::explore {
namespace {

using graph::Category;
using graph::Lane;
using graph::LaneKind;
using graph::Pass;
using graph::Way;

// The part of the machine that a piece of the path waits for.
enum class Cause : std::uint8_t {
  kernels,
  nvlink,  // links inside a domain
  nics,
  fixed,  // of a message: its latency and the cost of posting it
  other
};

// A rank is named on its own if its time is this many times the mean of the ranks with such pieces.
constexpr double kStandsOut = 2;

struct What {
  Category category;
  Pass pass;
  Lane lane;
  Cause cause;
  auto operator<=>(const What&) const = default;
};
struct Amount {
  Time time;
  double arithmetic = 0, memory = 0;  // seconds in kernels: GEMMs and attention; all others
};

// Splits the kernel time of a work into these, by their prices.
void kernels(const answer::LoweredJob& q, WorkId work, double times, Amount& sum) {
  const auto& what = q.graph.work(work);
  if (const auto* all = std::get_if<graph::Sequence>(&what)) {
    for (const auto& item : all->items) kernels(q, item.work, times * item.count, sum);
  } else if (const auto* both = std::get_if<graph::Overlapped>(&what)) {
    kernels(q, both->kernel, times, sum);
  } else {
    const double seconds = times * to_seconds(q.durations[work.index()]);
    if (std::holds_alternative<Gemm>(what) || std::holds_alternative<FusedAttention>(what))
      sum.arithmetic += seconds;
    else if (std::holds_alternative<MemoryBound>(what))
      sum.memory += seconds;
  }
}

class Path {
 public:
  explicit Path(const answer::Result& prediction)
      : q_(*prediction.lowered), graph_(q_.graph), timeline_(prediction.timeline) {}

  std::vector<PathPiece> run() {
    const auto steps = timeline::critical_path(graph_, timeline_);
    for (const auto& step : steps) add(step);
    return told();
  }

 private:
  void add(const timeline::CriticalStep& step) {
    const Time span = step.end - step.start;
    if (span <= Time{}) return;
    const RankId rank = graph_.rank_of(step.task);
    const auto& program = graph_.program_of(graph_.ranks()[rank.index()]);
    const std::size_t task = graph_.local(step.task).index();
    const Lane lane = program.lane[task];
    const Pass pass = program.coordinates[task].pass;
    const WorkId work = program.work[task];
    total_ += span;
    if (graph::is_send(lane)) {
      const Time wire = q_.held.empty() ? Time{} : std::min(span, q_.held[work.index()]);
      const auto cause = lane == Lane::send_out || lane == Lane::relay_out ? Cause::nics : Cause::nvlink;
      const auto to = graph_.rank_of(graph_.partner(rank, graph_.local(step.task)));
      put({Category::pipeline_comm, pass, lane, cause}, to, wire);
      put({Category::pipeline_comm, pass, lane, Cause::fixed}, to, span - wire);
      return;
    }
    const auto parts = timeline::split_task(graph_, program, task, span, q_.durations, true);
    for (std::size_t c = 0; c < parts.size(); ++c) {
      const auto category = static_cast<Category>(c);
      const What what{category, pass, lane, cause(category, work)};
      put(what, rank, parts[c]);
      if (what.cause == Cause::kernels && parts[c] > Time{}) kernels(q_, work, 1, amounts_[{what, rank}]);
    }
  }

  void put(const What& what, RankId rank, Time time) {
    if (time > Time{}) amounts_[{what, rank}].time += time;
  }

  Cause cause(Category category, WorkId work) const {
    if (category == Category::compute || category == Category::recompute) return Cause::kernels;
    if (q_.volumes.empty()) return Cause::other;
    const auto& over = q_.volumes[work.index()].own.over;
    const auto moves = [&](Axis axis, Way way) {
      return over[static_cast<std::size_t>(graph::along(axis, way))] > Bytes{};
    };
    const auto by = [&](std::initializer_list<Axis> axes) {
      for (const Axis axis : axes)
        if (moves(axis, Way::wire) || moves(axis, Way::spread)) return Cause::nics;
      return Cause::nvlink;
    };
    switch (category) {
      case Category::tensor_comm:
      case Category::data_comm:
        return by({Axis::tensor});
      case Category::context_comm:
        return by({Axis::context});
      case Category::expert_comm:
        return by({Axis::expert, Axis::expert_tensor});
      default:
        return Cause::other;
    }
  }

  std::vector<PathPiece> told() const {
    struct Told {
      Amount amount;
      std::vector<RankId> ranks;
    };
    std::map<What, std::pair<Time, std::int64_t>> whole;  // total over ranks, and their number
    for (const auto& [key, amount] : amounts_)
      if (amount.time > Time{}) whole[key.first].first += amount.time, ++whole[key.first].second;
    std::vector<std::pair<What, Told>> all;
    std::map<What, Told> together;
    for (const auto& [key, amount] : amounts_) {
      const auto& [what, rank] = key;
      if (amount.time <= Time{}) continue;
      const auto& [sum, ranks] = whole[what];
      const bool alone = ranks > 1 && amount.time / sum * double(ranks) >= kStandsOut;
      Told& told = alone ? all.emplace_back(what, Told{}).second : together[what];
      told.amount.time += amount.time;
      told.amount.arithmetic += amount.arithmetic, told.amount.memory += amount.memory;
      told.ranks.push_back(rank);
    }
    for (auto& [what, told] : together) all.emplace_back(what, std::move(told));
    std::vector<PathPiece> pieces;
    for (const auto& [what, told] : all)
      pieces.push_back({what.category, told.amount.time / total_, told.amount.time,
                        sentence(what) + where(what, told.ranks) + detail(what, told.amount)});
    std::stable_sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
    return pieces;
  }

  static std::string passes(Pass pass) {
    switch (pass) {
      case Pass::forward:
        return "forward passes";
      case Pass::recompute:
        return "forward passes that are repeated";
      case Pass::backward:
        return "backward passes";
      case Pass::input_gradient:
        return "gradients of inputs";
      case Pass::weight_gradient:
        return "gradients of weights";
      case Pass::gradient_reduce:
        return "reductions of gradients";
      case Pass::optimizer:
        return "the optimizer's step";
      case Pass::parameter_gather:
        return "gathers of parameters";
      case Pass::embedding_reduce:
        return "the reduction of the tied embedding";
      case Pass::norm_backward:
        return "the backward for the norm of the gradients";
    }
    return {};
  }

  static std::string beyond_device(Lane lane) {
    switch (lane) {
      case Lane::copy_out:
        return "copying states from the GPU to its host";
      case Lane::copy_in:
        return "copying states from the host to its GPU";
      case Lane::host:
        return "updating states on the host, over its memory";
      case Lane::disk_read:
        return "reading states from disks";
      case Lane::disk_write:
        return "writing states to disks";
      default:
        return "moving states beyond the device";
    }
  }

  static std::string sentence(const What& what) {
    const auto passes = Path::passes(what.pass);
    switch (what.category) {
      case Category::compute:
        return "computing " + passes;
      case Category::recompute:
        return "recomputing activations for " + passes;
      case Category::tensor_comm:
        return "collectives of tensor groups in " + passes;
      case Category::context_comm:
        return "keys and values of other parts of the sequence in " + passes;
      case Category::expert_comm:
        return "tokens on their way to experts and back in " + passes;
      case Category::data_comm:
        return passes == Path::passes(Pass::gradient_reduce) || what.pass == Pass::parameter_gather ||
                       what.pass == Pass::embedding_reduce
                   ? passes
                   : "collectives of replicas in " + passes;
      case Category::pipeline_comm: {
        const bool data = what.pass == Pass::gradient_reduce || what.pass == Pass::parameter_gather;
        const auto carried = data ? passes : what.pass == Pass::forward ? "activations" : "gradients";
        return what.cause == Cause::fixed ? "latency and fixed cost of messages with " + std::string(carried)
                                          : "waiting for " + std::string(carried);
      }
      case Category::optimizer:
        return "updating parameters";
      case Category::host:
        return "waiting for the host to launch the kernels of " + passes;
      case Category::contention:
        return "slowed, by what runs beside, in " + passes;
      case Category::bubble:
        return "idle";
      case Category::offload:
        return beyond_device(what.lane);
    }
    return passes;
  }

  // "on rank 0 (stage 0) and 127 like it"; several ranks by their stages.
  std::string where(const What& what, const std::vector<RankId>& ranks) const {
    const char* on = what.category == Category::pipeline_comm ? "towards" : "on";
    if (ranks.size() == 1) {
      const auto& rank = graph_.ranks()[ranks.front().index()];
      auto text = fmt::format(" {} rank {}", on, rank.job_rank);
      if (const auto& name = graph_.program_of(rank).name; !name.empty()) text += fmt::format(" ({})", name);
      if (rank.multiplicity > 1) text += fmt::format(" and {} like it", rank.multiplicity - 1);
      return text;
    }
    const auto program = [&](RankId r) { return graph_.program_of(graph_.ranks()[r.index()]).name; };
    const auto first = program(ranks.front()), last = program(ranks.back());
    const auto from = first == last || first.empty() ? first : fmt::format("{} to {}", first, last);
    return fmt::format(" {} {} ranks{}", on, ranks.size(), from.empty() ? "" : " (" + from + ")");
  }

  static std::string detail(const What& what, const Amount& amount) {
    switch (what.cause) {
      case Cause::kernels: {
        const double all = amount.arithmetic + amount.memory;
        if (all <= 0) return "";
        return fmt::format(": {:.0f} % in matrix products and attention, the rest waits for the GPU's memory",
                           100 * amount.arithmetic / all);
      }
      case Cause::nvlink:
        return ", over links inside a node";
      case Cause::nics:
        return ", over NICs";
      case Cause::fixed:
      case Cause::other:
        return "";
    }
    return "";
  }

  const answer::LoweredJob& q_;
  const graph::TaskGraph& graph_;
  const timeline::Timeline& timeline_;
  Time total_;
  std::map<std::pair<What, RankId>, Amount> amounts_;
};

}  // namespace

std::vector<PathPiece> path_words(const answer::Result& prediction) { return Path(prediction).run(); }

}  // namespace rehearsal::explore
