// An expert layer without its matrix products: routing of rows to experts, and moving rows into their slots and back.
//
//   p = softmax(logits);  the k experts with the largest logits, of equal ones the first;  w_j = p_j, or p_j / S with
//   S = the sum of the k chosen p (renormalised: Mixtral, arXiv 2401.04088, section 2.1)
//   sent[slot_j] = x,  y = sum_j w_j back[slot_j]
//   gradient  dback[slot_j] = w_j dy,  dw_j = dy back[slot_j],  dx = sum_j dsent[slot_j]
//             g_j = dw_j, or (dw_j - sum_m w_m dw_m) / S;  dlogits_i = p_i (g_i - sum_m p_m g_m)
// Rows beyond an expert's capacity have no slot: they add nothing, and their dw is 0.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "cpu/exponential.hpp"
#include "cpu/functions.hpp"

namespace rehearsal::cpu {
namespace {

using kernels::dropped, kernels::expert_of, kernels::forced_expert;

std::int32_t slot_of(float stored) { return std::bit_cast<std::int32_t>(stored); }

// The `choice`-th expert of a row, given the earlier choices.
std::int64_t choose(const Gating& gating, const float* logits, std::int64_t row, std::int64_t choice,
                    std::vector<char>& taken) {
  if (gating.routing != Routing::by_logits)
    return forced_expert(gating.routing, row, choice, gating.choices, gating.experts);
  std::int64_t best = -1;
  for (std::int64_t i = 0; i < gating.experts; ++i)
    if (!taken[i] && (best < 0 || logits[i] > logits[best])) best = i;
  taken[best] = 1;
  return best;
}

// Calls body(slot, row, choice) for every choice of a row that has a slot.
template <class Body>
void each_slot(const Dispatch& shape, const float* slots, const Body& body) {
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t choice = 0; choice < shape.choices; ++choice) {
      const std::int64_t slot = slot_of(slots[row * shape.choices + choice]);
      if (slot < 0) continue;
      INVARIANT(slot < shape.slots, "rows go to slots that there are");
      body(slot, row, choice);
    }
}

}  // namespace

void route(const Gating& gating, const float* logits, float* weights, float* slots, float* probabilities) {
  const std::int64_t E = gating.experts, k = gating.choices;
  std::vector<std::int64_t> rows_of(static_cast<std::size_t>(E));
  for (std::int64_t row = 0; row < gating.rows; ++row, logits += E, probabilities += E, weights += k, slots += k) {
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t i = 0; i < E; ++i) largest = std::max(largest, logits[i]);
    double sum = 0, chosen = 0;
    for (std::int64_t i = 0; i < E; ++i) sum += double(probabilities[i] = exponential(logits[i] - largest));
    for (std::int64_t i = 0; i < E; ++i) probabilities[i] = float(double(probabilities[i]) / sum);
    std::vector<char> taken(static_cast<std::size_t>(E));
    for (std::int64_t choice = 0; choice < k; ++choice) {
      const std::int64_t expert = choose(gating, logits, row, choice, taken);
      const std::int64_t number = rows_of[expert]++;
      slots[choice] = std::bit_cast<float>(
          static_cast<std::int32_t>(number < gating.capacity ? expert * gating.capacity + number : dropped(expert)));
      weights[choice] = probabilities[expert];
      chosen += double(probabilities[expert]);
    }
    if (gating.renormalised)
      for (std::int64_t choice = 0; choice < k; ++choice) weights[choice] = float(double(weights[choice]) / chosen);
  }
}

void route_gradient(const Gating& gating, const float* probabilities, const float* slots, const float* dweights,
                    float* dlogits) {
  const std::int64_t E = gating.experts, k = gating.choices;
  std::vector<double> slopes(static_cast<std::size_t>(E));
  for (std::int64_t row = 0; row < gating.rows; ++row, probabilities += E, slots += k, dweights += k, dlogits += E) {
    std::fill(slopes.begin(), slopes.end(), 0.);
    double chosen = 0, along = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      const double p = double(probabilities[expert_of(slot_of(slots[j]), gating.capacity)]);
      chosen += p, along += p * double(dweights[j]);
    }
    for (std::int64_t j = 0; j < k; ++j) {
      const double d = double(dweights[j]);
      slopes[expert_of(slot_of(slots[j]), gating.capacity)] += gating.renormalised ? (d - along / chosen) / chosen : d;
    }
    double mean = 0;
    for (std::int64_t i = 0; i < E; ++i) mean += double(probabilities[i]) * slopes[i];
    for (std::int64_t i = 0; i < E; ++i) dlogits[i] = float(double(probabilities[i]) * (slopes[i] - mean));
  }
}

void dispatch_rows(const Dispatch& shape, const float* x, const float* slots, float* sent) {
  const std::int64_t h = shape.columns;
  std::fill_n(sent, shape.slots * h, 0.f);
  each_slot(shape, slots,
            [&](std::int64_t slot, std::int64_t row, std::int64_t) { std::copy_n(x + row * h, h, sent + slot * h); });
}

void dispatch_rows_gradient(const Dispatch& shape, const float* dsent, const float* slots, float* dx) {
  const std::int64_t h = shape.columns;
  std::fill_n(dx, shape.rows * h, 0.f);
  each_slot(shape, slots,
            [&](std::int64_t slot, std::int64_t row, std::int64_t) { add(h, dsent + slot * h, dx + row * h); });
}

void combine_rows(const Dispatch& shape, const float* back, const float* slots, const float* weights, float* y) {
  const std::int64_t h = shape.columns;
  std::fill_n(y, shape.rows * h, 0.f);
  each_slot(shape, slots, [&](std::int64_t slot, std::int64_t row, std::int64_t choice) {
    const float weight = weights[row * shape.choices + choice];
    for (std::int64_t j = 0; j < h; ++j) y[row * h + j] += weight * back[slot * h + j];
  });
}

void combine_rows_gradient(const Dispatch& shape, const float* dy, const float* back, const float* slots,
                           const float* weights, float* dback, float* dweights) {
  const std::int64_t h = shape.columns;
  std::fill_n(dback, shape.slots * h, 0.f);
  std::fill_n(dweights, shape.rows * shape.choices, 0.f);
  each_slot(shape, slots, [&](std::int64_t slot, std::int64_t row, std::int64_t choice) {
    const std::int64_t at = row * shape.choices + choice;
    double product = 0;
    for (std::int64_t j = 0; j < h; ++j) {
      dback[slot * h + j] = weights[at] * dy[row * h + j];
      product += double(dy[row * h + j]) * double(back[slot * h + j]);
    }
    dweights[at] = float(product);
  });
}

std::vector<std::int32_t> slots_in_turn(const Kernel& kernel) {
  const auto operand = slots_operand(kernel.kind);
  INVARIANT(operand, "a kernel that goes by slots");
  const auto& dims = kernel.dims;
  const bool gates = kernel.kind == KernelKind::route_gradient;
  const std::int64_t all = gates ? dims[1] * dims[3] : dims[3] * dims[4];
  std::vector<std::int32_t> slots;
  for (std::int64_t i = 0; i < operand_elements(kernel, 0).elements[*operand]; ++i)
    slots.push_back(static_cast<std::int32_t>(i % all));
  return slots;
}

}  // namespace rehearsal::cpu
