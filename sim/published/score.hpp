// The accuracy of predictions, table by table, always compared with that of a constant rate.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "published/run.hpp"
#include "scenario/error_band.hpp"
#include "timeline/breakdown.hpp"

namespace rehearsal::published {

// What a forecast leaves out: constants that only the row's family of runs gave, only runs of its framework, only runs
// on its GPU, or only runs of its causes (what the row is beyond a dense pre-training step: causes_of in
// constants.hpp).
enum class Left : std::uint8_t { family, framework, gpu, cause };
inline constexpr Left kLeft[] = {Left::family, Left::framework, Left::gpu, Left::cause};
inline constexpr std::size_t kLefts = 4;
const char* name(Left left);
Left left_of(scenario::Unseen unseen);  // what makes forecasts of runs of which so little is known

// One row, priced and simulated. Times in seconds, memory in bytes.
struct Prediction {
  Run run;
  std::string not_judged;  // why there is no prediction; the numbers below are then meaningless
  double iteration_s = 0;
  double flops_per_gpu = 0;         // executed in an iteration, including recomputation
  double peak = 0;                  // counted as `run.peak_memory` was, on the same rank
  double measured_peak = 0;         // the measured one in bytes; 0 = not printed
  bool fits = true;                 // the worst rank on its device
  bool narrow = false;              // its peak is near the memory of the device
  timeline::Breakdown breakdown{};  // of the rank that ends last
  scenario::RunClass kind;          // as resolved, for the error bands
  scenario::ErrorBand band;         // as a scenario is told, times `recipes`
  scenario::BandRange recipes{};    // steps of other recipes that its source leaves open, over the predicted one
  std::string family;
  std::vector<std::string> causes;
  // Predicted without some constants (constants.hpp): as with them if there are none. `missing`: those without
  // substitute.
  struct Forecast {
    double seconds = 0;
    std::string missing;
  };
  std::array<Forecast, kLefts> forecasts;
  const Forecast& forecast(Left left) const { return forecasts[static_cast<std::size_t>(left)]; }
  double forecast_error(Left left) const { return forecast(left).seconds / *run.iteration_s - 1; }
  double error() const { return iteration_s / *run.iteration_s - 1; }
  double memory_error() const { return peak / measured_peak - 1; }
  bool timed() const { return not_judged.empty() && run.iteration_s.has_value(); }
};

// Shares, not percent. Ranks are Spearman's; 0 for fewer than three rows.
struct Score {
  std::string table;
  std::size_t rows = 0;
  double mean = 0, median = 0, p90 = 0, bias = 0;  // of |predicted/measured - 1|; bias is signed
  double rank_time = 0, rank_rate = 0;             // of iteration times and of FLOP/s
  struct Forecast {
    double mean = 0;  // error without some constants
    std::size_t rows = 0;
  };
  std::array<Forecast, kLefts> forecasts;
  const Forecast& forecast(Left left) const { return forecasts[static_cast<std::size_t>(left)]; }
  double constant = 0;  // mean error of a SINGLE rate for the whole table, fitted to that table
  std::size_t memory_rows = 0;
  double memory_mean = 0, memory_bias = 0;
  // Rows that ran and rows that did not fit, by prediction.
  std::size_t ran_fits = 0, ran_unfit = 0, failed_unfit = 0, failed_fits = 0;
  std::size_t narrow = 0, narrow_right = 0;  // of these, near the memory of the device
  std::size_t not_judged = 0;
};

// In order of first appearance.
std::vector<Score> score(const std::vector<Prediction>& predictions);

// Over tables with at least two timed rows: the means of `mean` and of `constant`.
struct Overall {
  std::size_t tables = 0, rows = 0;
  double mean = 0, median = 0, constant = 0;
  std::array<double, kLefts> forecasts{};
  double forecast(Left left) const { return forecasts[static_cast<std::size_t>(left)]; }
  std::size_t memory_tables = 0, memory_rows = 0, fits_rows = 0;
  double memory = 0, fits_right = 0;  // mean over tables; share of rows
  std::size_t narrow_rows = 0;
  double narrow_right = 0;
};
Overall overall(const std::vector<Score>& scores);

// Groups of runs that a forecast leaves out (families, frameworks, GPUs or causes), in order of first appearance:
// predicted with all constants, and without those that only the group gave.
struct GroupScore {
  std::string name, not_forecast;
  std::size_t rows = 0;
  double mean = 0, forecast = 0, bias = 0;  // bias: of the forecast, signed
};
std::vector<GroupScore> score_groups(const std::vector<Prediction>& predictions, Left left);

// Over tables of at least two timed rows, of their rows that have a cause. In the means of forecasts above, rows
// without one count as predicted.
struct OfCauses {
  std::size_t tables = 0;
  double mean = 0, forecast = 0;
};
OfCauses of_causes(const std::vector<Prediction>& predictions);

double mean(const std::vector<double>& values);  // 0 of none

// Nearest-rank quantile, 0 <= q <= 1, of a list that is not empty.
double quantile(std::vector<double> values, double q);

}  // namespace rehearsal::published
