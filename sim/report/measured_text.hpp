// The parts of a text report that only performed runs have.
#pragma once
#include <string>

#include "answer/predict.hpp"
#include "page/layout.hpp"

namespace rehearsal::report {

// "median of 10; p10 .. p90 12.1 .. 12.9 ms": what stands beside the length of the iteration.
std::string iterations_note(const timeline::Spread& iterations);

// Prediction and memory set beside what was measured; what disturbed the run; the verification. `run.measured` is
// there.
std::string measured_text(const answer::Result& run, int width, const page::Paint& paint);

// "2.3 % shorter", from a signed relative error of a prediction.
std::string predicted_error(double error);

inline constexpr const char* kDisturbed = "Disturbed: do not trust these times";
// The list under it; empty where nothing was noticed.
std::string disturbance_text(const timeline::Timeline& timeline, int width, const page::Paint& paint);

}  // namespace rehearsal::report
