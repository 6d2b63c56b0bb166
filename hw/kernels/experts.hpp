// An expert layer without its matrix products; equations: cpu/experts.cpp. Slots are 32-bit integers, weights and
// probabilities fp32. No sum depends on thread timing: rows are numbered and added in their order.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/routing.hpp"
#include "kernels/team.hpp"

namespace rehearsal::kernels {

// Probabilities, chosen experts and their weights, one row at a time. Writes dropped(expert) in the place of each slot:
// the next pass (NumberSlots) numbers the rows of each expert.
template <class T>
struct RouteRows {
  static constexpr int kThreads = 32;
  using Shared = Nothing;
  Gating gating;
  const T* logits;
  float* weights;
  std::int32_t* slots;
  float* probabilities;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, float> most(team);
    Local<Team, double> sums(team);
    Local<Team, std::int32_t> place(team);
    const std::int64_t E = gating.experts, k = gating.choices;
    for (std::int64_t row = team.block(); row < gating.rows; row += team.blocks()) {
      const T* from = logits + row * E;
      const float top = largest_after(team, from, most, std::numeric_limits<float>::infinity(), -1);
      team.own([&](int thread) {
        double sum = 0;
        for (std::int64_t i = thread; i < E; i += kThreads) sum += double(expf(widened(from[i]) - top));
        sums(thread) = sum;
      });
      const double total = team.sum(sums);
      // The last chosen expert: the next one has a smaller logit, or an equal one and a higher index.
      float logit = std::numeric_limits<float>::infinity();
      std::int64_t expert = -1;
      double chosen = 0;
      for (std::int64_t choice = 0; choice < k; ++choice) {
        if (gating.routing != Routing::by_logits) {
          expert = forced_expert(gating.routing, row, choice, k, E);
        } else {
          const float next = largest_after(team, from, most, logit, expert);
          team.own([&](int thread) {
            std::int32_t found = -std::numeric_limits<std::int32_t>::max();
            for (std::int64_t i = thread; i < E; i += kThreads)
              if (widened(from[i]) == next && follows(next, i, logit, expert))
                found = Largest{}(found, -std::int32_t(i));
            place(thread) = found;
          });
          const std::int64_t found = -std::int64_t(team.largest(place));
          expert = found < E ? found : choice;  // no number exceeds a NaN: the loss will show it
          logit = next;
        }
        const float p = float(double(expf(widened(from[expert]) - top)) / total);
        chosen += double(p);
        team.own([&](int thread) {
          if (thread != 0) return;
          slots[row * k + choice] = std::int32_t(dropped(expert));
          weights[row * k + choice] = p;
        });
      }
      team.each([&](int thread) {
        for (std::int64_t i = thread; i < E; i += kThreads)
          probabilities[row * E + i] = float(double(expf(widened(from[i]) - top)) / total);
      });
      team.own([&](int thread) {
        if (thread != 0 || !gating.renormalised) return;
        for (std::int64_t choice = 0; choice < k; ++choice)
          weights[row * k + choice] = float(double(weights[row * k + choice]) / chosen);
      });
    }
  }

 private:
  REHEARSAL_DEVICE static bool follows(float x, std::int64_t i, float logit, std::int64_t expert) {
    return x < logit || (x == logit && i > expert);
  }
  template <class Team, class Values>
  REHEARSAL_DEVICE float largest_after(Team& team, const T* from, Values& most, float logit,
                                       std::int64_t expert) const {
    team.own([&](int thread) {
      float x = -std::numeric_limits<float>::infinity();
      for (std::int64_t i = thread; i < gating.experts; i += kThreads)
        if (const float y = widened(from[i]); follows(y, i, logit, expert) || y != y) x = Largest{}(x, y);
      most(thread) = x;
    });
    return team.largest(most);
  }
};

// Rows of an expert get its slots in row order until none is left. A block serves one expert; each thread takes a run
// of consecutive choices. Blocks do not confuse each other's results: assigned slots are not negative.
struct NumberSlots {
  static constexpr int kThreads = 256;
  struct Shared {
    std::int64_t counts[kThreads];
  };
  std::int32_t* slots;
  std::int64_t choices, capacity;  // choices: over all rows

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    const std::int64_t expert = team.block(), each = (choices + kThreads - 1) / kThreads;
    const auto mark = std::int32_t(dropped(expert));
    team.each([&](int thread) {
      std::int64_t count = 0;
      for (std::int64_t i = thread * each; i < (thread + 1) * each && i < choices; ++i) count += slots[i] == mark;
      team.shared.counts[thread] = count;
    });
    team.each([&](int thread) {
      std::int64_t number = 0;
      for (int before = 0; before < thread; ++before) number += team.shared.counts[before];
      for (std::int64_t i = thread * each; i < (thread + 1) * each && i < choices; ++i)
        if (slots[i] == mark) {
          if (number < capacity) slots[i] = std::int32_t(expert * capacity + number);
          ++number;
        }
    });
  }
};

// Element i is one of dlogits[rows, experts].
template <class T>
struct RouteGradient {
  static constexpr int kAtOnce = 1;
  Gating gating;
  const float* probabilities;
  const std::int32_t* slots;
  const float* dweights;
  T* dlogits;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t row = quotient(i, gating.experts), own = i - row * gating.experts;
    const float* p = probabilities + row * gating.experts;
    double chosen = 0, along = 0;
    for (std::int64_t j = 0; j < gating.choices; ++j) {
      const double x = double(p[expert(row, j)]);
      chosen += x, along += x * double(dweights[row * gating.choices + j]);
    }
    double mean = 0, slope = 0;
    for (std::int64_t j = 0; j < gating.choices; ++j) {
      const double d = double(dweights[row * gating.choices + j]);
      const double g = gating.renormalised ? (d - along / chosen) / chosen : d;
      mean += double(p[expert(row, j)]) * g;
      if (expert(row, j) == own) slope += g;
    }
    dlogits[i] = stored<T>(float(double(p[own]) * (slope - mean)));
  }

 private:
  REHEARSAL_DEVICE std::int64_t expert(std::int64_t row, std::int64_t choice) const {
    return expert_of(slots[row * gating.choices + choice], gating.capacity);
  }
};

template <class T>
struct Zeros {
  static constexpr int kAtOnce = kWide<T>;
  T* x;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    store<N>(x + i, Floats<N>{});
  }
};

// to[slot] = weight x row, or the row itself without weights. Element i is one of [rows, choices, columns].
template <class T>
struct ScatterRows {
  static constexpr int kAtOnce = kWide<T>;
  const T* rows;
  const std::int32_t* slots;
  const float* weights;  // may be null
  T* to;
  std::int64_t choices, columns;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t choice = quotient(i, columns), column = i - choice * columns, slot = slots[choice];
    if (slot < 0) return;
    Floats<N> x = load<N>(rows + quotient(choice, choices) * columns + column);
    if (weights) {
      REHEARSAL_UNROLL
      for (int e = 0; e < N; ++e) x[e] *= weights[choice];
    }
    store<N>(to + slot * columns + column, x);
  }
};

// Rows = sum of weight x from[slot] over their choices, in order. Element i is one of [rows, columns].
template <class T>
struct GatherRows {
  static constexpr int kAtOnce = kWide<T>;
  const T* from;
  const std::int32_t* slots;
  const float* weights;  // may be null
  T* rows;
  std::int64_t choices, columns;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t row = quotient(i, columns), column = i - row * columns;
    Floats<N> sum{};
    for (std::int64_t j = row * choices; j < (row + 1) * choices; ++j) {
      if (slots[j] < 0) continue;
      const Floats<N> x = load<N>(from + slots[j] * columns + column);
      REHEARSAL_UNROLL
      for (int e = 0; e < N; ++e) sum[e] += weights ? weights[j] * x[e] : x[e];
    }
    store<N>(rows + i, sum);
  }
};

// dweights = dy back[slot] for every choice; 0 without a slot.
template <class T>
struct SlotProducts {
  static constexpr int kThreads = 64;
  using Shared = Nothing;
  const T *dy, *back;
  const std::int32_t* slots;
  float* dweights;
  std::int64_t all, choices, columns;  // all: choices of all rows
  bool wide;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, double> part(team);
    for (std::int64_t i = team.block(); i < all; i += team.blocks()) {
      const std::int64_t slot = slots[i];
      const T *a = dy + i / choices * columns, *b = back + (slot < 0 ? 0 : slot) * columns;
      team.own([&](int thread) {
        double sum = 0;
        if (slot >= 0)
          stride<kWide<T>>(thread, kThreads, columns, wide, [&](auto width, std::int64_t j) {
            const auto x = load<width()>(a + j), y = load<width()>(b + j);
            REHEARSAL_UNROLL
            for (int e = 0; e < width(); ++e) sum += double(x[e]) * double(y[e]);
          });
        part(thread) = sum;
      });
      const double product = team.sum(part);
      team.own([&](int thread) {
        if (thread == 0) dweights[i] = float(product);
      });
    }
  }
};

}  // namespace rehearsal::kernels
