#include "models/recurrent.hpp"

#include "base/error.hpp"

namespace rehearsal::models {

Recurrence recurrence(MixerKind kind) {
  switch (kind) {
    case MixerKind::delta:  // beta and the decay; A_log and dt_bias; chunks of fla/ops/gated_delta_rule/chunk.py
      return {.scalars = 2, .vectors = 2, .norm_per_head = true, .chunk = 64};
    case MixerKind::mamba2:  // dt; A_log, D and dt_bias; chunk_size of the Nemotron-H configurations
      return {.scalars = 1, .vectors = 3, .convolution_bias = true, .chunk = 128};
    case MixerKind::lightning:  // the decay of a head is a constant
      return {.chunk = 64};
    case MixerKind::attention:
    case MixerKind::none:
      break;
  }
  INVARIANT(false, "a mixer with a state");
  return {};
}

double recurrent_matrices(std::int64_t hidden, const Mixer& mixer) {
  const auto scalars = recurrence(mixer.kind).scalars * mixer.heads;
  return double(hidden) * double(2 * mixer.keys() + 2 * mixer.values() + scalars) +
         double(mixer.values()) * double(hidden);
}

double recurrent_vectors(const Mixer& mixer) {
  const auto has = recurrence(mixer.kind);
  const double convolved = mixer.convolution > 0 ? double(2 * mixer.keys() + mixer.values()) : 0;
  return convolved * double(mixer.convolution + has.convolution_bias) + double(has.vectors * mixer.heads) +
         double(has.norm_per_head ? mixer.value_dim() : mixer.values());
}

// The kernels of flash-linear-attention for the delta rule (2412.06464, section 3.2): cumulated decay, keys with keys,
// T, w and u, states, outputs; each reads its operands and writes its result: keys 4 times, queries once, w twice,
// values once, u and the new values twice each, results once, the C scores of a token four times and the state of a
// chunk twice. Kept: T and the decay. Of state-space duality (2405.21060, section 6.1; mamba_ssm): states of chunks,
// their sum, keys with queries once for each group, and outputs, with states in fp32; kept: the step and its sum.
ScanCost scan_cost(const Mixer& mixer) {
  const double c = double(recurrence(mixer.kind).chunk), k = double(mixer.head_dim), v = double(mixer.value_dim());
  const double state = k * v / c;  // elements of it for a token
  if (mixer.kind == MixerKind::delta) return {2 * (7 * k + 6 * v + 4 * c + 2 * state), 2 * c + 8, 6};
  const double shared = double(mixer.kv_heads) / double(mixer.heads);
  return {2 * (3 * k * shared + 3 * v + 2 * c * shared) + 4 * 4 * state, 8, 5};
}

}  // namespace rehearsal::models
