// The accuracy of predictions, table by table, always compared with that of a constant rate.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "published/run.hpp"
#include "scenario/run_class.hpp"
#include "timeline/breakdown.hpp"

namespace rehearsal::published {

// One row, priced and simulated. Times in seconds, memory in bytes.
struct Prediction {
  Run run;
  std::string not_judged;  // why there is no prediction; the numbers below are then meaningless
  double iteration_s = 0;
  double flops_per_gpu = 0;         // executed in an iteration, including recomputation
  double peak = 0;                  // counted as `run.peak_memory` was, on the same rank
  double measured_peak = 0;         // the measured one in bytes; 0 = not printed
  bool fits = true;                 // the worst rank on its device
  timeline::Breakdown breakdown{};  // of the rank that ends last
  scenario::RunClass kind;          // as resolved, for the error bands
  // Predicted without the constants that only its family provided (constants.hpp); the same if there are none.
  std::string family, not_forecast;  // not_forecast: constants without substitute
  double forecast_s = 0;
  double forecast_error() const { return forecast_s / *run.iteration_s - 1; }
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
  double forecast = 0;                             // mean error without the constants from the rows' own families
  std::size_t forecast_rows = 0;
  double constant = 0;  // mean error of a SINGLE rate for the whole table, fitted to that table
  std::size_t memory_rows = 0;
  double memory_mean = 0, memory_bias = 0;
  // Rows that ran and rows that did not fit, by prediction.
  std::size_t ran_fits = 0, ran_unfit = 0, failed_unfit = 0, failed_fits = 0;
  std::size_t not_judged = 0;
};

// In order of first appearance.
std::vector<Score> score(const std::vector<Prediction>& predictions);

// Over tables with at least two timed rows: the means of `mean` and of `constant`.
struct Overall {
  std::size_t tables = 0, rows = 0;
  double mean = 0, median = 0, constant = 0, forecast = 0;
  std::size_t memory_tables = 0, memory_rows = 0, fits_rows = 0;
  double memory = 0, fits_right = 0;  // mean over tables; share of rows
};
Overall overall(const std::vector<Score>& scores);

// Families of runs, in order of first appearance: predicted with all constants, and without their own.
struct FamilyScore {
  std::string family, not_forecast;
  std::size_t rows = 0;
  double mean = 0, forecast = 0, bias = 0;  // bias: of the forecast, signed
};
std::vector<FamilyScore> score_families(const std::vector<Prediction>& predictions);

// Quantile over several families with equal weight.
double quantile_by_family(const std::map<std::string, std::vector<double>>& values, double q);

// Nearest-rank quantile, 0 <= q <= 1, of a list that is not empty.
double quantile(std::vector<double> values, double q);

}  // namespace rehearsal::published
