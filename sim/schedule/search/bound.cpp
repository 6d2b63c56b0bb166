#include "schedule/search/bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rehearsal::schedule::search {

Bound::Bound(const Model& model, std::uint32_t horizon)
    : model_(model),
      forward_head_(std::size_t(model.stages) * model.microbatches),
      input_head_(forward_head_.size()),
      weight_head_(forward_head_.size()),
      horizon_(horizon) {
  tabulate();
}

void Bound::tabulate() {
  const Model& m = model_;
  if (m.stages != m.ranks || std::isinf(m.limit)) return;
  for (std::uint32_t s = 0; s < m.stages; ++s)
    for (std::uint32_t k = 0; k < m.microbatches; ++k) {
      row_.push_back(needed_.size());
      for (std::uint32_t b = m.inputs_before[m.at(s, k)]; b <= k; ++b) {
        const double need =
            double(k + 1) * m.activation[s] - double(b) * (m.activation[s] - m.hold[s]) - m.limit * (1 + 1e-9);
        needed_.push_back(need > 0 && m.hold[s] > 0
                              ? static_cast<std::uint32_t>(std::min(double(b), std::ceil(need / m.hold[s])))
                              : 0);
        if (needed_.back() == 0) break;  // more input gradients need no fewer
      }
    }
  row_.push_back(needed_.size());
}

// The least time of input and weight gradients that must run on the rank before forward k fits.
Ticks Bound::release_work(const State& state, std::uint32_t s, std::uint32_t k) const {
  const Model& m = model_;
  const std::uint32_t least = m.inputs_before[m.at(s, k)];
  if (row_.empty()) {
    const std::uint32_t top = m.stages_of[m.rank[s]].back(), b = state.done(top, Kind::input);
    return least > b ? (least - b) * m.input[top] : 0;
  }
  const std::uint32_t b = state.done(s, Kind::input), w = state.done(s, Kind::weight);
  const std::size_t row = row_[m.at(s, k)], size = row_[m.at(s, k) + 1] - row;
  Ticks best = std::numeric_limits<Ticks>::max();
  for (std::uint32_t inputs = std::max(b, least); inputs <= k; ++inputs) {
    const std::uint32_t weights = inputs - least < size ? needed_[row + inputs - least] : 0;
    const Ticks work = (inputs - b) * m.input[s] + (weights > w ? (weights - w) * m.weight[s] : 0);
    best = std::min(best, work);
    if (weights <= w) break;  // more input gradients only add work
  }
  return best;
}

void Bound::find_heads(const State& state) {
  const Model& m = model_;
  const bool single = m.stages == m.ranks;
  std::uint32_t k = m.microbatches;
  end_ = 0;
  for (const auto& stage : state.stage) k = std::min(k, stage.done[2]), end_ = std::max(end_, stage.done[0]);
  end_ = horizon_ < m.microbatches - end_ ? end_ + horizon_ : m.microbatches;
  const auto more = [](std::uint32_t wanted, std::uint32_t done) { return wanted > done ? Ticks(wanted - done) : 0; };
  for (; k < end_; ++k) {
    for (std::uint32_t s = 0; s < m.stages; ++s) {
      const std::uint32_t f = state.done(s, Kind::forward);
      if (k < f) continue;
      const std::uint32_t r = m.rank[s];
      Ticks work = (k - f) * m.forward[s] + release_work(state, s, k);
      if (!single)
        for (std::uint32_t t : m.stages_of[r])
          if (t < s) work += more(k + 1, state.done(t, Kind::forward)) * m.forward[t];
      Ticks head = state.rank[r].free + work;
      if (s > 0) {
        const std::size_t from = m.at(s - 1, k);
        const bool done = state.done(s - 1, Kind::forward) > k;
        head = std::max(head, (done ? state.forward_end[from] : forward_head_[from] + m.forward[s - 1]) + m.hop[s - 1]);
      }
      if (k > f) head = std::max(head, forward_head_[m.at(s, k - 1)] + m.forward[s]);
      const std::uint32_t top = m.stages_of[r].back(), b = m.inputs_before[m.at(s, k)];
      if (b > state.done(top, Kind::input)) head = std::max(head, input_head_[m.at(top, b - 1)] + m.input[top]);
      const std::uint32_t w = m.weights_before[m.at(s, k)];
      if (w > state.done(s, Kind::weight)) head = std::max(head, weight_head_[m.at(s, w - 1)] + m.weight[s]);
      forward_head_[m.at(s, k)] = head;
    }
    for (std::uint32_t s = m.stages; s-- > 0;) {
      const std::uint32_t r = m.rank[s], b = state.done(s, Kind::input);
      if (k >= b) {
        Ticks work = (k - b) * m.input[s];
        if (single) {
          work += more(k + 1, state.done(s, Kind::forward)) * m.forward[s];
          if (state.done(s, Kind::forward) <= k)
            work += more(m.weights_before[m.at(s, k)], state.done(s, Kind::weight)) * m.weight[s];
        } else {
          for (std::uint32_t t : m.stages_of[r]) {
            work += more(k + 1, state.done(t, Kind::forward)) * m.forward[t];
            if (t > s) work += more(k + 1, state.done(t, Kind::input)) * m.input[t];
          }
        }
        Ticks head = state.rank[r].free + work;
        if (s + 1 < m.stages) {
          const std::size_t from = m.at(s + 1, k);
          const bool done = state.done(s + 1, Kind::input) > k;
          head = std::max(head, (done ? state.input_end[from] : input_head_[from] + m.input[s + 1]) + m.hop[s]);
        } else if (state.done(s, Kind::forward) <= k) {
          head = std::max(head, forward_head_[m.at(s, k)] + m.forward[s]);
        }
        if (k > b) head = std::max(head, input_head_[m.at(s, k - 1)] + m.input[s]);
        input_head_[m.at(s, k)] = head;
      }
      const std::uint32_t w = state.done(s, Kind::weight);
      if (k < w) continue;
      Ticks head = state.rank[r].free + (k - w) * m.weight[s];
      if (k >= b) head = std::max(head, input_head_[m.at(s, k)] + m.input[s]);
      weight_head_[m.at(s, k)] = head;
    }
  }
}

Ticks Bound::one_rank(const State& state, std::uint32_t r, Ticks enough) {
  const Model& m = model_;
  queues_.clear();
  for (std::uint32_t s : m.stages_of[r]) {
    const std::size_t row = m.at(s, 0);
    const auto add = [&](Kind kind, const std::vector<Ticks>& head, const std::vector<Ticks>& tail, Ticks time) {
      if (state.done(s, kind) < end_)
        queues_.push_back({&head[row], &tail[row], state.done(s, kind), end_, time, time});
    };
    add(Kind::forward, forward_head_, m.forward_tail, m.forward[s]);
    add(Kind::input, input_head_, m.input_tail, m.input[s]);
    add(Kind::weight, weight_head_, m.weight_tail, m.weight[s]);
  }
  Ticks now = state.rank[r].free, bound = now - m.first_start[r];
  while (!queues_.empty()) {
    Queue* run = nullptr;
    Ticks release = std::numeric_limits<Ticks>::max();
    for (Queue& q : queues_) {
      if (q.head[q.next] > now)
        release = std::min(release, q.head[q.next]);
      else if (run == nullptr || q.tail[q.next] > run->tail[run->next])
        run = &q;
    }
    if (run == nullptr) {
      now = release;
      continue;
    }
    if (now + run->left > release) {  // may be interrupted
      run->left -= release - now;
      now = release;
      continue;
    }
    now += run->left;
    bound = std::max(bound, now + run->tail[run->next]);
    if (bound >= enough) return bound;
    run->left = run->time;
    if (++run->next == run->end) {
      *run = queues_.back();
      queues_.pop_back();
    }
  }
  return bound;
}

Ticks Bound::operator()(const State& state, Ticks enough) {
  find_heads(state);
  Ticks bound = 0;
  pressure_ = 0;
  for (std::uint32_t r = 0; r < model_.ranks && bound < enough; ++r) {
    const Ticks alone = one_rank(state, r, enough);
    bound = std::max(bound, alone);
    pressure_ += alone;
  }
  return bound;
}

}  // namespace rehearsal::schedule::search
