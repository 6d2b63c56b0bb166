// The parts of a text report that only performed runs have.
#pragma once
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "page/page.hpp"

namespace rehearsal::report {

// "median of 10; p10 .. p90 12.1 .. 12.9 ms": the note beside the length of the iteration.
std::string iterations_note(const timeline::Spread& iterations);

std::string collectives_note(backend::Collectives how);

// What passed the links of hosts beside what was predicted, the most used one by name; empty where nothing counted it.
std::string links_note(const std::vector<answer::Measured::Link>& links);

// How well the clocks of several hosts were aligned; empty on one.
std::string clocks_note(const timeline::Timeline& timeline);

// Prediction and memory compared with the measurement. Requires `run.measured`.
void measured_facts(const answer::Result& run, std::vector<page::Fact>& facts);

// "2.3 % shorter", from a signed relative error of a prediction.
std::string predicted_error(double error);

inline constexpr const char* kDisturbed = "Disturbed: do not trust these times";
// The list below it; empty if there were no disturbances.
std::string disturbance_text(const timeline::Timeline& timeline, int width, const page::Paint& paint);

}  // namespace rehearsal::report
