// The figures by which variants are compared: the columns of `compare` and of a store, in one table. CSV, --sort and
// SQL use their names, which are the JSON names where JSON has them; --sort also accepts the column headings.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "answer/predict.hpp"
#include "report/shown.hpp"

namespace rehearsal::report {

enum class Figure : std::uint8_t {
  iteration,
  samples_rate,
  token_rate,
  mfu,
  bubble,
  exposed,
  allocated,
  reserved,
  device,
  states,
  capacity,
  fits,
  gpus,
  item_time,
  gpu_token_rate,
  stages_held,
  in_flight,
  // With a job.
  days,
  gpu_hours,
  job_cost,
  energy,
  goodput,
  // Depends on the other rows: set by rank_rows, not kept in a store.
  relative,
  cost,
  best,
  pareto
};
inline constexpr std::size_t kFigures = 26, kKeptFigures = std::size_t(Figure::relative);

struct FigureText {
  enum class Kind : std::uint8_t { real, whole, yes };
  std::string_view name;
  std::string_view head;  // column heading; empty: its name
  Kind kind;
  page::Unit unit;
  std::string_view json;  // position in a JSON row; empty: none
  std::string_view help;
};
// In the order of Figure.
inline constexpr auto kFigureTexts = [] {
  using enum FigureText::Kind;
  using enum page::Unit;
  return std::array<FigureText, kFigures>{{
      {"iteration_s", "iteration", real, seconds, "iteration_s", "time of an iteration"},
      {"samples_per_s", "sequences/s", real, none, "samples_per_s", "sequences a second"},
      {"tokens_per_s", "tokens/s", real, none, "tokens_per_s", "tokens a second"},
      {"mfu", "MFU %", real, share, "mfu", "share of the peak that the model uses"},
      {"bubble_rate", "idle %", real, share, "bubble_rate", "idle share of the busiest rank"},
      {"exposed_communication_s", "exposed", real, seconds, "", "communication that the rank that ends last waits for"},
      {"allocated_bytes", "allocated", real, bytes, "peak_memory_bytes/allocated",
       "live buffers of the worst rank (given pipelines: their unit)"},
      {"reserved_bytes", "reserved", real, bytes, "peak_memory_bytes/reserved", "what the allocator holds for them"},
      {"device_bytes", "peak memory", real, bytes, "peak_memory_bytes/device", "what the device holds"},
      {"model_states_bytes", "states", real, bytes, "model_states_bytes",
       "parameters, gradients and optimizer states of the GPU that holds most"},
      {"capacity_bytes", "capacity", real, bytes, "", "what the device has (given pipelines: their limit)"},
      {"fits", "fits", yes, none, "", "whether the memory suffices"},
      {"gpus", "GPUs", whole, none, "gpus", "GPUs (given pipelines: ranks)"},
      {"item_s", "time/item", real, seconds, "",
       "time per sequence of a step that trains (given pipelines: per micro-batch)"},
      {"tokens_per_s_per_gpu", "tokens/s/GPU", real, none, "tokens_per_s_per_gpu", "tokens a second of one GPU"},
      {"stages_held", "stages held", whole, none, "stages_held",
       "given pipelines: stages whose parameters a rank holds"},
      {"in_flight", "in flight", whole, none, "in_flight",
       "given pipelines: forwards of a stage that a rank holds, at most"},
      {"days", "job time", real, none, "", "of a job: until it is done"},
      {"gpu_hours", "GPU-hours", real, none, "", "of a job, spare GPUs included"},
      {"job_cost", "job cost", real, money, "", "of a job, in its currency"},
      {"energy_mwh", "MWh", real, none, "", "of a job"},
      {"goodput", "goodput", real, share, "", "of a job: share of the time that trains"},
      {"relative", "relative", real, none, "relative", "time per item over that of the best"},
      {"relative_cost", "cost", real, none, "relative_cost", "GPU time per token over that of the first row"},
      {"best", "", yes, none, "", "least time per item of those that fit"},
      {"pareto", "", yes, none, "", "nothing that fits is better in time, memory or GPUs and as good in the others"},
  }};
}();

inline constexpr const FigureText& text_of(Figure f) { return kFigureTexts[std::size_t(f)]; }

class Figures {
 public:
  std::optional<double>& operator[](Figure f) { return values_[std::size_t(f)]; }
  const std::optional<double>& operator[](Figure f) const { return values_[std::size_t(f)]; }
  bool yes(Figure f) const { return (*this)[f] == 1.; }
  Json json(Figure f) const;

 private:
  std::array<std::optional<double>, kFigures> values_;
};

Figures figures(const answer::Result& prediction);

}  // namespace rehearsal::report
