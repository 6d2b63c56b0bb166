// The log of a training run: how long its steps took and what they held, in the words of each trainer. What the run was
// is said elsewhere: by the arguments that some logs begin with (all/megatron_log.cpp), or by a scenario.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::interchange {

// One line of progress, or several of the same iteration (a line per rank): amounts are means of these.
struct LoggedSteps {
  std::int64_t iteration = 0;              // the last of them
  std::int64_t count = 1;                  // iterations that the line is the mean of
  bool restarted = false;                  // the first line after the run was started again
  std::optional<double> seconds;           // of an iteration
  std::optional<double> samples_per_s;     // of all GPUs
  std::optional<double> tokens_per_s_gpu;  // of one GPU
  std::optional<double> tflops;            // of one GPU, as the trainer counts them
};

struct Log {
  std::string dialect;             // "Megatron"
  std::vector<LoggedSteps> steps;  // in the order of the file
  // In bytes, the most of any rank that says it.
  std::optional<double> allocated, reserved, device;
  std::string note;  // what the times of this dialect hold beside steps; empty: nothing
};

// Nothing if no dialect finds a step.
std::optional<Log> read_log(std::string_view text);
// The trainers whose logs are read, for messages.
std::string log_dialects();

// Steps as they are in the long run: without the first ones, in which memory is allocated and kernels are compiled, and
// those after each restart.
struct SteadySteps {
  double seconds = 0;        // the median over iterations
  double low = 0, high = 0;  // 10 % of the iterations are shorter, 10 % longer
  std::int64_t iterations = 0;
  std::int64_t dropped = 0;  // the first ones, and those after restarts
  std::int64_t restarts = 0;
  std::size_t lines = 0;                 // of progress that the iterations are of
  std::vector<std::int64_t> stragglers;  // iterations that took more than 1.2 medians, the last of each line
  std::optional<double> tflops;          // their median
};
// `samples`, `tokens_per_gpu`: of an iteration, for logs that say rates alone. Nothing if no line can be made a time.
std::optional<SteadySteps> steady(const Log& log, double samples, double tokens_per_gpu);

}  // namespace rehearsal::interchange
