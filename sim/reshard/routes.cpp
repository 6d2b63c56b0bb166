#include "reshard/routes.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace rehearsal::reshard {
namespace {

class Router {
 public:
  Router(const Answer& answer, Chunks chunks) : answer_(answer), chunks_(chunks) {}

  std::vector<Carry> run() {
    const auto& schedule = answer_.plan.schedule;
    std::vector<std::uint32_t> order(schedule.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return schedule[a].start < schedule[b].start; });
    for (const auto s : order) {
      const auto first = made_.size();
      transfer(answer_.transfers[schedule[s].task], sender(schedule[s]));
      for (auto i = first; i < made_.size(); i++) made_[i].sending = s;
    }
    // All rings advance together, step by step.
    for (std::size_t step = 0; !rings_.empty(); ++step)
      std::erase_if(rings_, [&](Ring& ring) {
        if (step == ring.around.size()) return true;
        add(ring.around[step], ring);
        return step + 1 == ring.around.size();
      });
    return std::move(made_);
  }

 private:
  // A part that circulates among the gathering devices.
  struct Ring {
    Box box;
    std::uint32_t at, after;  // its current holder, and the message that brought it
    std::vector<std::uint32_t> around;
  };

  // The first device behind the NIC chosen by the planner.
  std::uint32_t sender(const Sending& sending) const {
    const auto& task = answer_.numbered.problem.tasks[sending.task];
    for (std::size_t i = 0; i < task.replicas.size(); i++)
      if (task.replicas[i].sender == sending.sender) return answer_.transfers[sending.task].sender_devices[i];
    INVARIANT(false, "a task is sent by a NIC of one of its devices");
    return 0;
  }

  void transfer(const Transfer& t, std::uint32_t from) {
    if (t.strategy != Strategy::global_allgather) {
      chain(t.box, from, t.receiver_devices,
            t.strategy == Strategy::broadcast || t.strategy == Strategy::striped ? answer_.chunks : 1);
      if (t.gatherers > 1) gather(t);
      return;
    }
    const auto n = std::int64_t(t.receiver_devices.size());
    for (std::int64_t j = 0; j < n; j++) {
      const auto box = nth_part(t.box, j, n);
      if (elements(box) == 0) continue;
      chain(box, from, {t.receiver_devices[std::size_t(j)]}, 1);
      ring(box, t.receiver_devices, std::size_t(j), std::uint32_t(made_.size() - 1));
    }
  }

  // Along the longest side; parts differ by one element at most.
  static Box nth_part(Box box, std::int64_t j, std::int64_t n) {
    const auto side = std::max_element(box.begin(), box.end(),
                                       [](const Interval& a, const Interval& b) { return a.length() < b.length(); });
    const auto [low, length] = std::pair(side->low, side->length());
    *side = {low + length * j / n, low + length * (j + 1) / n};
    return box;
  }

  void chain(const Box& box, std::uint32_t from, const std::vector<std::uint32_t>& to, std::int64_t wanted) {
    const std::int64_t all = elements(box), chunks = to.size() == 1 ? 1 : std::clamp<std::int64_t>(wanted, 1, all);
    struct Piece {
      std::int64_t first, count, chunks;
      bool flows;
    };
    std::vector<Piece> pieces;
    const auto cut = [&](std::int64_t k) { return all * k / chunks; };
    if (chunks_ == Chunks::each || chunks <= 3)
      for (std::int64_t k = 0; k < chunks; k++) pieces.push_back({cut(k), cut(k + 1) - cut(k), 1, false});
    else
      pieces = {{0, cut(1), 1, false},
                {cut(1), cut(chunks - 1) - cut(1), chunks - 2, true},
                {cut(chunks - 1), all - cut(chunks - 1), 1, false}};
    const auto first = std::uint32_t(made_.size()), hops = std::uint32_t(to.size());
    arrived_.assign(hops, 0);
    for (std::uint32_t p = 0; p < pieces.size(); p++)
      for (std::uint32_t h = 0; h < hops; h++) {
        Carry carry{h == 0 ? from : to[h - 1], to[h],        h > 0, box, pieces[p].first, pieces[p].count,
                    pieces[p].chunks,          std::nullopt, false};
        if (h > 0) {
          carry.cut_through = pieces[p].flows;
          carry.after = first + (pieces[p].flows ? p - 1 : p) * hops + h - 1;
        }
        arrived_[h] = std::uint32_t(made_.size());
        made_.push_back(std::move(carry));
      }
  }

  // After a chain: each of its devices sends its part to the devices that gather with it.
  void gather(const Transfer& t) {
    for (std::size_t i = 0; i < t.receiver_devices.size(); i++) {
      const auto first = t.gather_with.begin() + std::ptrdiff_t(i * t.gatherers);
      const std::vector<std::uint32_t> with(first, first + std::ptrdiff_t(t.gatherers));
      const auto at = std::find(with.begin(), with.end(), t.receiver_devices[i]);
      INVARIANT(at != with.end(), "who has a part gathers too");
      ring(t.box, with, std::size_t(at - with.begin()), arrived_[i]);
    }
  }

  void ring(const Box& box, const std::vector<std::uint32_t>& members, std::size_t at, std::uint32_t after) {
    Ring ring{box, members[at], after, {}};
    for (std::size_t i = 1; i < members.size(); i++) ring.around.push_back(members[(at + i) % members.size()]);
    if (!ring.around.empty()) rings_.push_back(std::move(ring));
  }
  void add(std::uint32_t to, Ring& ring) {
    made_.push_back({ring.at, to, true, ring.box, 0, elements(ring.box), 1, ring.after, false});
    ring.at = to, ring.after = std::uint32_t(made_.size() - 1);
  }

  const Answer& answer_;
  Chunks chunks_;
  std::vector<Carry> made_;
  std::vector<std::uint32_t> arrived_;  // for the last chain: the last message to each of its devices
  std::vector<Ring> rings_;
};

}  // namespace

std::vector<Carry> carries(const Answer& answer, Chunks chunks) { return Router(answer, chunks).run(); }

}  // namespace rehearsal::reshard
