// What one rank alone trains, as the reference for many trainings: computed once, whatever their layout and injected
// faults.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>

#include "explore/perform.hpp"
#include "explore/verify.hpp"
#include "loopback/loopback.hpp"

namespace rehearsal {

// The serial reference of a scenario, for a run with these options. Its key is the task graph and the training data,
// which determine a training: all layouts of one network share it.
inline const backend::TrainingResult& trained_serially(const scenario::Scenario& scenario,
                                                       const backend::RunOptions& options) {
  static std::map<std::string, backend::TrainingResult> known;
  const auto serially = explore::serial_options(options, scenario);
  const auto question = answer::prepare(explore::serial_reference(scenario));
  const auto l = explore::learning(question.scenario);
  const auto [it, fresh] = known.try_emplace(fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", question.graph.digest(), serially.iterations, l.seed,
      l.micro_batch, l.sequence, l.context, l.pieces, l.balanced, l.microbatches, l.vocabulary, l.width,
      l.learning_rate, l.beta1, l.beta2, l.epsilon, l.weight_decay, serially.warmup, fmt::join(l.documents, ",")));
  if (!fresh) return it->second;
  try {
    it->second = explore::perform(question, *loopback::make_loopback(), serially).trained;
  } catch (...) {
    known.erase(it);
    throw;
  }
  return it->second;
}

}  // namespace rehearsal
