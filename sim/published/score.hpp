// How well predictions meet measurements, table by table, always beside what a constant rate would have achieved.
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
  std::string not_judged;  // why there is no prediction (then the numbers below mean nothing)
  double iteration_s = 0;
  double flops_per_gpu = 0;         // executed in an iteration, recomputation included
  double peak = 0;                  // on the counter that `run.peak_memory` was read from, of the rank it was read from
  double measured_peak = 0;         // the same in bytes; 0 = not printed
  bool fits = true;                 // the worst rank on its device
  timeline::Breakdown breakdown{};  // of the rank that ends last
  scenario::RunClass kind;          // as resolved, for the error bands
  // Once more, without the constants that only its family gave (constants.hpp); the same where there are none.
  std::string family, not_forecast;  // not_forecast: what has no other route
  double forecast_s = 0;
  double forecast_error() const { return forecast_s / *run.iteration_s - 1; }
  double error() const { return iteration_s / *run.iteration_s - 1; }
  double memory_error() const { return peak / measured_peak - 1; }
  bool timed() const { return not_judged.empty() && run.iteration_s.has_value(); }
};

// Shares, not percent. Ranks are Spearman's, 0 where fewer than three rows.
struct Score {
  std::string table;
  std::size_t rows = 0;
  double mean = 0, median = 0, p90 = 0, bias = 0;  // of |predicted/measured - 1|; bias is signed
  double rank_time = 0, rank_rate = 0;             // of iteration times and of FLOP/s
  double forecast = 0;                             // mean error without what the families of the rows gave
  std::size_t forecast_rows = 0;
  double constant = 0;  // mean error of ONE rate for the whole table, fitted to that table
  std::size_t memory_rows = 0;
  double memory_mean = 0, memory_bias = 0;
  // Rows that ran and rows that did not fit, by what was predicted.
  std::size_t ran_fits = 0, ran_unfit = 0, failed_unfit = 0, failed_fits = 0;
  std::size_t not_judged = 0;
};

// In order of first appearance.
std::vector<Score> score(const std::vector<Prediction>& predictions);

// Over the tables with at least two timed rows: mean of `mean` and of `constant`.
struct Overall {
  std::size_t tables = 0, rows = 0;
  double mean = 0, median = 0, constant = 0, forecast = 0;
  std::size_t memory_tables = 0, memory_rows = 0, fits_rows = 0;
  double memory = 0, fits_right = 0;  // mean of tables; share of rows
};
Overall overall(const std::vector<Score>& scores);

// Families of runs, in order of first appearance: their rows predicted with all constants, and without their own.
struct FamilyScore {
  std::string family, not_forecast;
  std::size_t rows = 0;
  double mean = 0, forecast = 0, bias = 0;  // bias: of the forecast, signed
};
std::vector<FamilyScore> score_families(const std::vector<Prediction>& predictions);

// Of the values of several families, each weighing as much as any other.
double quantile_by_family(const std::map<std::string, std::vector<double>>& values, double q);

// Nearest-rank quantile, 0 <= q <= 1, of a list that is not empty.
double quantile(std::vector<double> values, double q);

}  // namespace rehearsal::published
