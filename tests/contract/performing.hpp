// Trains a scenario for real, on loopback, and compares it with what one rank alone trains.
#pragma once
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "../serially.hpp"
#include "base/error.hpp"
#include "explore/perform.hpp"
#include "explore/verify.hpp"
#include "loopback/loopback.hpp"
#include "timeline/memory.hpp"

namespace rehearsal {

using Sets = std::vector<std::string>;

inline const std::string kGpt = PROJECT_ROOT "/scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml";
inline const std::string kMlp = PROJECT_ROOT "/scenarios/measure/mlp-gemm-pipeline-2-ranks.yaml";

struct Outcome {
  answer::Verification verified;
  bool memory_as_predicted = true;
};

inline Outcome train(const std::string& path, const Sets& sets, const backend::FaultInjection& fault_injection = {},
                     int steps = 3) {
  const auto what = explore::load_performable(path, sets, backend::Compute::real, "loopback");
  const auto loopback = loopback::make_loopback();
  backend::RunOptions options;
  options.compute = backend::Compute::real;
  options.warmup = 0, options.iterations = steps;  // a loss one update late falls at the third step
  options.times_matter = false;
  const auto rehearsed = answer::predict(what.scenario, answer::Options::time_alone());
  options.fault_injection = fault_injection;
  const auto performed = explore::perform(*rehearsed.lowered, *loopback, options);

  const auto& reference = trained_serially(what.scenario, options);
  Outcome outcome;
  auto limits = explore::limits(what.scenario);
  backend::TrainingResult in_fp32;
  if (const auto wide = explore::wide_reference(what.scenario)) {
    const auto serially = explore::serial_options(options, what.scenario);
    in_fp32 = explore::perform(answer::prepare(*wide), *loopback, serially).trained;
    limits.wide = &in_fp32;
  }
  outcome.verified = explore::verify(performed.trained, reference, limits);
  for (std::size_t r = 0; r < performed.timeline.peak_bytes.size(); ++r)
    outcome.memory_as_predicted =
        outcome.memory_as_predicted && performed.timeline.peak_bytes[r] ==
                                           timeline::memory_peak(rehearsed.graph(), rehearsed.timeline, RankId(r)).peak;
  for (std::size_t r = 0; r < performed.timeline.beyond_bytes.size(); ++r)
    for (const Tier tier : {Tier::host, Tier::nvme})
      outcome.memory_as_predicted =
          outcome.memory_as_predicted &&
          performed.timeline.beyond_bytes[r][index(tier)] ==
              timeline::memory_peak(rehearsed.graph(), rehearsed.timeline, RankId(r), tier).peak;
  return outcome;
}

inline void check_trains(const std::string& path, const Sets& sets, int steps = 3) {
  const auto [verified, memory] = train(path, sets, {}, steps);
  CAPTURE(verified.worst_tensor);
  CAPTURE(verified.max_relative_difference);
  CAPTURE(verified.failures.empty() ? std::string() : verified.failures.front());
  CHECK(verified.ok);
  CHECK(verified.loss.back() < verified.loss.front());
  CHECK(memory);
}

inline const Sets kSmall{"model.hidden=32", "model.sequence=16", "training.optimizer=sgd", "batch.micro=1"};
inline const Sets kSmallLlama{
    "model={family: llama, layers: 4, hidden: 32, heads: 4, kv_heads: 2, ffn: 48, vocabulary: 101, sequence: 16}",
    "training.optimizer=sgd", "batch.micro=1"};

inline const Sets kSmallMoe{
    "model={family: moe, layers: 4, dense_layers: 1, hidden: 32, heads: 4, kv_heads: 2, ffn: 48, experts: 4, "
    "experts_per_token: 2, expert_ffn: 24, shared_experts: 1, vocabulary: 101, sequence: 16}",
    "training.optimizer=sgd", "batch.micro=1"};

inline Sets with(Sets sets, std::initializer_list<std::string> more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

}  // namespace rehearsal
