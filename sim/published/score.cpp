#include "published/score.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace rehearsal::published {
namespace {

std::vector<double> absolute(std::vector<double> values) {
  for (double& v : values) v = std::abs(v);
  return values;
}

// Ranks from 0; equal values share the mean of theirs.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t j = i;
    while (j < order.size() && values[order[j]] == values[order[i]]) j++;
    for (std::size_t k = i; k < j; k++) result[order[k]] = double(i + j - 1) / 2;
    i = j;
  }
  return result;
}

// Spearman: the correlation of the ranks.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < 3) return 0;
  const auto x = ranks(a), y = ranks(b);
  const double mx = mean(x), my = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); i++)
    xy += (x[i] - mx) * (y[i] - my), xx += (x[i] - mx) * (x[i] - mx), yy += (y[i] - my) * (y[i] - my);
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

// The rate whose logarithm is the mean of logarithms: predictions that are too fast and too slow count equally.
double constant_rate_error(const std::vector<double>& rates) {
  double log_rate = 0;
  for (const double r : rates) log_rate += std::log(r) / double(rates.size());
  std::vector<double> errors;
  for (const double r : rates) errors.push_back(std::abs(r / std::exp(log_rate) - 1));
  return mean(errors);
}

Score score_table(const std::string& table, const std::vector<const Prediction*>& all) {
  Score s;
  s.table = table;
  std::array<std::vector<double>, kLefts> forecasts;
  std::vector<double> errors, predicted, measured, predicted_rate, measured_rate, memory;
  for (const auto* p : all) {
    if (!p->not_judged.empty()) {
      s.not_judged++;
      continue;
    }
    const bool failed = p->run.out_of_memory();
    (failed ? (p->fits ? s.failed_fits : s.failed_unfit) : (p->fits ? s.ran_fits : s.ran_unfit))++;
    if (p->narrow) s.narrow++, s.narrow_right += failed != p->fits;
    if (p->measured_peak > 0) memory.push_back(p->memory_error());
    if (!p->timed()) continue;
    errors.push_back(p->error());
    for (const auto left : kLeft)
      if (p->forecast(left).missing.empty())
        forecasts[static_cast<std::size_t>(left)].push_back(p->forecast_error(left));
    predicted.push_back(p->iteration_s), measured.push_back(*p->run.iteration_s);
    predicted_rate.push_back(p->flops_per_gpu / p->iteration_s);
    measured_rate.push_back(p->flops_per_gpu / *p->run.iteration_s);
  }
  s.rows = errors.size();
  s.memory_rows = memory.size();
  s.memory_mean = mean(absolute(memory)), s.memory_bias = mean(memory);
  if (errors.empty()) return s;
  s.mean = mean(absolute(errors)), s.bias = mean(errors);
  s.median = quantile(absolute(errors), .5), s.p90 = quantile(absolute(errors), .9);
  s.rank_time = rank_correlation(predicted, measured);
  s.rank_rate = rank_correlation(predicted_rate, measured_rate);
  s.constant = constant_rate_error(measured_rate);
  for (std::size_t i = 0; i < kLefts; i++) s.forecasts[i] = {mean(absolute(forecasts[i])), forecasts[i].size()};
  return s;
}

}  // namespace

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.) / double(values.size());
}

const char* name(Left left) {
  switch (left) {
    case Left::family:
      return "family";
    case Left::framework:
      return "framework";
    case Left::gpu:
      return "gpu";
    case Left::cause:
      return "cause";
  }
  return "";
}

Left left_of(scenario::Unseen unseen) {
  switch (unseen) {
    case scenario::Unseen::family:
      return Left::family;
    case scenario::Unseen::framework:
      return Left::framework;
    case scenario::Unseen::gpu:
      return Left::gpu;
  }
  return Left::family;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(q * double(values.size())))];
}

std::vector<Score> score(const std::vector<Prediction>& predictions) {
  std::vector<std::string> tables;
  for (const auto& p : predictions)
    if (std::find(tables.begin(), tables.end(), p.run.table) == tables.end()) tables.push_back(p.run.table);
  std::vector<Score> scores;
  for (const auto& table : tables) {
    std::vector<const Prediction*> rows;
    for (const auto& p : predictions)
      if (p.run.table == table) rows.push_back(&p);
    scores.push_back(score_table(table, rows));
  }
  return scores;
}

std::vector<GroupScore> score_groups(const std::vector<Prediction>& predictions, Left left) {
  std::vector<GroupScore> all;
  std::vector<std::vector<double>> errors, forecasts;
  for (const auto& p : predictions) {
    if (!p.timed()) continue;
    const auto names = left == Left::cause       ? p.causes
                       : left == Left::framework ? std::vector{p.kind.framework}
                       : left == Left::gpu       ? std::vector{p.kind.gpu}
                                                 : std::vector{p.family};
    for (const auto& name : names) {
      auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
      if (found == all.end()) {
        found = all.insert(all.end(), {name, ""});
        errors.emplace_back(), forecasts.emplace_back();
      }
      const auto i = static_cast<std::size_t>(found - all.begin());
      if (found->not_forecast.empty()) found->not_forecast = p.forecast(left).missing;
      errors[i].push_back(p.error()), forecasts[i].push_back(p.forecast_error(left));
    }
  }
  for (std::size_t i = 0; i < all.size(); i++) {
    all[i].rows = errors[i].size(), all[i].bias = mean(forecasts[i]);
    all[i].mean = mean(absolute(errors[i])), all[i].forecast = mean(absolute(forecasts[i]));
  }
  return all;
}

OfCauses of_causes(const std::vector<Prediction>& predictions) {
  std::map<std::string, std::size_t> rows;
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> tables;
  for (const auto& p : predictions) {
    if (!p.timed()) continue;
    rows[p.run.table]++;
    if (p.causes.empty() || !p.forecast(Left::cause).missing.empty()) continue;
    auto& [errors, forecasts] = tables[p.run.table];
    errors.push_back(std::abs(p.error())), forecasts.push_back(std::abs(p.forecast_error(Left::cause)));
  }
  std::vector<double> means, forecasts;
  for (const auto& [table, of] : tables)
    if (rows.at(table) > 1) means.push_back(mean(of.first)), forecasts.push_back(mean(of.second));
  return {means.size(), mean(means), mean(forecasts)};
}

Overall overall(const std::vector<Score>& scores) {
  Overall o;
  std::vector<double> means, constants;
  std::array<std::vector<double>, kLefts> forecasts;
  std::size_t right = 0, narrow = 0;
  std::vector<double> memory;
  for (const auto& s : scores) {
    o.narrow_rows += s.narrow, narrow += s.narrow_right;
    right += s.ran_fits + s.failed_unfit, o.fits_rows += s.ran_fits + s.ran_unfit + s.failed_unfit + s.failed_fits;
    if (s.memory_rows > 1) memory.push_back(s.memory_mean), o.memory_rows += s.memory_rows;
    if (s.rows < 2) continue;
    for (std::size_t i = 0; i < kLefts; i++)
      if (s.forecasts[i].rows > 0) forecasts[i].push_back(s.forecasts[i].mean);
    means.push_back(s.mean), constants.push_back(s.constant);
    o.rows += s.rows;
  }
  o.memory_tables = memory.size(), o.memory = mean(memory);
  o.fits_right = o.fits_rows ? double(right) / double(o.fits_rows) : 0;
  o.narrow_right = o.narrow_rows ? double(narrow) / double(o.narrow_rows) : 0;
  o.tables = means.size();
  if (means.empty()) return o;
  o.mean = mean(means), o.median = quantile(means, .5), o.constant = mean(constants);
  for (std::size_t i = 0; i < kLefts; i++) o.forecasts[i] = mean(forecasts[i]);
  return o;
}

}  // namespace rehearsal::published
