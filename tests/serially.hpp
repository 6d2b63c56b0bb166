// What one rank alone trains, for tests that hold many trainings against it: trained once, however they are laid out and
// whatever is broken in them.
#pragma once
#include <fmt/format.h>

#include <map>
#include <string>

#include "explore/perform.hpp"
#include "explore/verify.hpp"
#include "loopback/loopback.hpp"

namespace rehearsal {

// The serial reference of this scenario, of a run with these options. By its task graph and what it learns from, which
// is all that a training depends on: layouts of one network share it.
inline const backend::TrainingResult& trained_serially(const scenario::Scenario& scenario,
                                                const backend::RunOptions& options) {
  static std::map<std::string, backend::TrainingResult> known;
  const auto serially = explore::serial_options(options, scenario);
  const auto question = answer::prepare(explore::serial_reference(scenario));
  const auto l = explore::learning(question.scenario);
  const auto [it, fresh] = known.try_emplace(
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", question.graph.digest(), serially.iterations,
                  l.seed, l.micro_batch, l.sequence, l.context, l.pieces, l.balanced, l.microbatches, l.vocabulary,
                  l.width, l.learning_rate, l.beta1, l.beta2, l.epsilon, l.weight_decay, serially.warmup));
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
