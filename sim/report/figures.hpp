// The numbers of one answer by which variants are compared: the columns of `compare` and of a store, in one table.
// CSV, --sort and SQL call them by their names, which are those of JSON where that has them.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "answer/predict.hpp"

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
  fits,
  gpus,
  item_time,
  gpu_token_rate,
  stages_held,
  in_flight,
  // Of a job.
  days,
  gpu_hours,
  job_cost,
  energy,
  goodput,
  // By the other rows: rank_rows sets them, and a store does not keep them.
  relative,
  cost,
  best,
  pareto
};
inline constexpr std::size_t kFigures = 24, kKeptFigures = std::size_t(Figure::relative);

struct FigureText {
  enum class Kind : std::uint8_t { real, whole, yes };
  std::string_view name;
  Kind kind;
  std::string_view help;
};
// In the order of Figure.
inline constexpr std::array<FigureText, kFigures> kFigureTexts{{
    {"iteration_s", FigureText::Kind::real, "time of an iteration"},
    {"samples_per_s", FigureText::Kind::real, "sequences a second"},
    {"tokens_per_s", FigureText::Kind::real, "tokens a second"},
    {"mfu", FigureText::Kind::real, "share of the peak that the model uses"},
    {"bubble_rate", FigureText::Kind::real, "idle share of the busiest rank"},
    {"exposed_communication_s", FigureText::Kind::real, "communication that the rank that ends last waits for"},
    {"allocated_bytes", FigureText::Kind::real, "live buffers of the worst rank (given pipelines: their unit)"},
    {"reserved_bytes", FigureText::Kind::real, "what the allocator holds for them"},
    {"device_bytes", FigureText::Kind::real, "what the device holds"},
    {"fits", FigureText::Kind::yes, "whether the memory suffices"},
    {"gpus", FigureText::Kind::whole, "GPUs (given pipelines: ranks)"},
    {"item_s", FigureText::Kind::real, "time per sequence (given pipelines: per micro-batch)"},
    {"tokens_per_s_per_gpu", FigureText::Kind::real, "tokens a second of one GPU"},
    {"stages_held", FigureText::Kind::whole, "given pipelines: stages whose parameters a rank holds"},
    {"in_flight", FigureText::Kind::whole, "given pipelines: forwards of a stage that a rank holds, at most"},
    {"days", FigureText::Kind::real, "of a job: until it is done"},
    {"gpu_hours", FigureText::Kind::real, "of a job, spare GPUs included"},
    {"job_cost", FigureText::Kind::real, "of a job, in its currency"},
    {"energy_mwh", FigureText::Kind::real, "of a job"},
    {"goodput", FigureText::Kind::real, "of a job: share of the time that trains"},
    {"relative", FigureText::Kind::real, "time per item over that of the best"},
    {"relative_cost", FigureText::Kind::real, "GPU time per token over that of the first row"},
    {"best", FigureText::Kind::yes, "least time per item of those that fit"},
    {"pareto", FigureText::Kind::yes, "nothing that fits is better in time, memory or GPUs and as good in the others"},
}};

class Figures {
 public:
  std::optional<double>& operator[](Figure f) { return values_[std::size_t(f)]; }
  const std::optional<double>& operator[](Figure f) const { return values_[std::size_t(f)]; }
  bool yes(Figure f) const { return (*this)[f] == 1.; }

 private:
  std::array<std::optional<double>, kFigures> values_;
};

Figures figures(const answer::Prediction& prediction);

}  // namespace rehearsal::report
