#include "interchange/log.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <span>
#include <utility>

#include "interchange/keys.hpp"

namespace rehearsal::interchange {
namespace {

constexpr double kMiB = 0x1p20, kGiB = 0x1p30;
constexpr double kStraggles = 1.2;  // of the median
// The first lines of a run allocate memory and compile kernels: a tenth of the iterations, at least four where there
// are more.
constexpr double kWarmUpShare = .1;
constexpr std::int64_t kWarmUp = 4;
constexpr std::size_t kLongestLine = 8192;
// Seconds of a step that are none: a line that is broken.
constexpr double kShortestStep = 1e-6, kLongestStep = 1e7;
// Lines of ranks of the same iteration come within as many iterations of each other.
constexpr std::size_t kRanksApart = 4;
// Usual distances between lines beyond which iterations lie between that this log does not hold.
constexpr std::int64_t kGap = 10;

enum class What : std::uint8_t {
  iteration,
  seconds,
  samples_rate,
  token_rate,
  tflops,
  step_rate,
  allocated,
  reserved,
  device
};

// A number behind a word of a line, in our unit.
struct Word {
  std::string_view text;
  What what;
  double unit = 1;
};

// Lines with `mark` in them, and the words that they hold.
struct LogLine {
  std::string_view dialect, mark;
  std::span<const Word> words;
  bool step = true;  // of a step; else of memory, whichever the dialect
  std::string_view note = "";
};

// Megatron-LM, training/training.py `training_log`; Megatron-Bridge and Megatron-DeepSpeed print the same line, Primus
// (trainer/megatron) two numbers "now/mean" and the memory of the device, "compute per GPU" since 2026-07.
constexpr Word kMegatron[] = {{"iteration", What::iteration},
                              {"elapsed time per iteration (ms):", What::seconds, 1e-3},
                              {"throughput per gpu (tflop/s/gpu):", What::tflops},
                              {"compute per gpu (tflop/s/gpu):", What::tflops},
                              {"tflops:", What::tflops},
                              {"samples per second:", What::samples_rate},
                              {"tokens per gpu (tokens/s/gpu):", What::token_rate},
                              {"mem usage/free/total/usage_ratio:", What::device, kGiB}};
constexpr Word kMegatronSeconds[] = {{"iteration", What::iteration},
                                     {"elapsed time per iteration (s):", What::seconds},
                                     {"tflops:", What::tflops},
                                     {"samples per second:", What::samples_rate}};
// training/utils.py `report_memory`, in 2^20 bytes.
constexpr Word kMegatronMemory[] = {{"max allocated:", What::allocated, kMiB}, {"max reserved:", What::reserved, kMiB}};
// Megatron-Bridge, training/utils/train_utils.py.
constexpr Word kBridge[] = {{"step time :", What::seconds}, {"gpu utilization:", What::tflops}};
// torchtitan, components/metrics.py: "memory" is the most that the allocator held.
constexpr Word kTitan[] = {{"step:", What::iteration},
                           {"memory:", What::reserved, kGiB},
                           {"tps:", What::token_rate},
                           {"tflops:", What::tflops}};
// DeepSpeed, utils/timer.py `ThroughputTimer.stop`; "GB" is 2^30 bytes.
constexpr Word kDeepSpeed[] = {{"global_step=", What::iteration},
                               {"currsamplespersec=", What::samples_rate},
                               {"maxmemallocated=", What::allocated, kGiB}};
// Hugging Face Trainer, trainer_utils.py `speed_metrics`: one line at the end.
constexpr Word kTrainer[] = {{"train_samples_per_second':", What::samples_rate},
                             {"train_steps_per_second':", What::step_rate}};

// The first whose mark is in a step of the file is the file's; marks are in small letters.
constexpr std::array kLines{LogLine{"Megatron", "elapsed time per iteration (ms):", kMegatron},
                            LogLine{"Megatron-DeepSpeed", "elapsed time per iteration (s):", kMegatronSeconds},
                            LogLine{"Megatron", "memory (mb) |", kMegatronMemory, false},
                            LogLine{"Megatron-Bridge", "step time :", kBridge},
                            LogLine{"torchtitan", "  tps: ", kTitan},
                            LogLine{"DeepSpeed", "currsamplespersec=", kDeepSpeed},
                            LogLine{"Hugging Face Trainer", "'train_runtime':", kTrainer, true,
                                    "the mean of the whole run, its first steps and evaluations included"}};

// Lines before the first step of a run, once more where it is resumed: training.py of Megatron-LM, train.py of
// torchtitan.
constexpr std::string_view kStarts[] = {"[before the start of training step]", "training starts at step"};

// Without the terminal's colours, ESC [ ... letter, which trainers print into files, too.
std::string without_colours(std::string_view line) {
  std::string plain;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] != '\x1b' || at + 1 >= line.size() || line[at + 1] != '[') {
      plain += line[at];
      continue;
    }
    for (at += 2; at < line.size() && !std::isalpha(static_cast<unsigned char>(line[at]));) ++at;
  }
  return plain;
}

// The number that follows, behind spaces, with its thousands separated or not: "  6,512", "1147.6/1150.0", "'3.061'"
// (the Trainer of transformers 5).
std::optional<double> number_behind(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\'')) ++at;
  std::string digits;
  for (; at < text.size() && digits.size() < 40; ++at) {
    const char c = text[at];
    const bool sign = (c == '-' || c == '+') && !digits.empty() && digits.back() == 'e';
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '.' || c == 'e' || sign)
      digits += c;
    else if (c != ',' || at + 1 >= text.size() || !std::isdigit(static_cast<unsigned char>(text[at + 1])))
      break;
  }
  while (!digits.empty() && (digits.back() == 'e' || digits.back() == '.')) digits.pop_back();
  return number_of(digits);
}

// Places where a word begins: not within another.
std::size_t find_word(std::string_view line, std::string_view word) {
  for (auto at = line.find(word); at != line.npos; at = line.find(word, at + 1))
    if (at == 0 || !std::isalnum(static_cast<unsigned char>(line[at - 1]))) return at;
  return line.npos;
}

struct Read {
  LoggedSteps step;
  std::optional<double> allocated, reserved, device;
  bool numbered = false;
};

Read read_words(std::string_view line, std::span<const Word> words) {
  Read read;
  for (const auto& [text, what, unit] : words) {
    const auto at = find_word(line, text);
    if (at == line.npos) continue;
    const auto number = number_behind(line.substr(at + text.size()));
    if (!number || *number < 0) continue;
    const double value = *number * unit;
    switch (what) {
      case What::iteration:
        if (value <= 9e15) read.step.iteration = std::int64_t(value), read.numbered = true;
        break;
      case What::seconds:
        if (value >= kShortestStep && value <= kLongestStep) read.step.seconds = value;
        break;
      case What::step_rate:
        if (value > 0) read.step.seconds = 1 / value;
        break;
      case What::samples_rate:
        if (value > 0) read.step.samples_per_s = value;
        break;
      case What::token_rate:
        if (value > 0) read.step.tokens_per_s_gpu = value;
        break;
      case What::tflops:
        if (value > 0) read.step.tflops = value;
        break;
      case What::allocated:
        read.allocated = value;
        break;
      case What::reserved:
        read.reserved = value;
        break;
      case What::device:
        read.device = value;
        break;
    }
  }
  return read;
}

bool says_time(const LoggedSteps& step) { return step.seconds || step.samples_per_s || step.tokens_per_s_gpu; }

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Lines of the same iteration, one for each rank, are one.
class Gathered {
 public:
  void start() { started_ = !steps_.empty(); }
  void add(LoggedSteps step) {
    step.restarted = std::exchange(started_, false);
    for (std::size_t back = 1; !step.restarted && back <= std::min(kRanksApart, steps_.size()); ++back) {
      auto& [same, lines] = steps_[steps_.size() - back];
      if (same.iteration != step.iteration) continue;
      lines++;
      for (const auto part :
           {&LoggedSteps::seconds, &LoggedSteps::samples_per_s, &LoggedSteps::tokens_per_s_gpu, &LoggedSteps::tflops})
        if (auto& mean = same.*part; mean && step.*part) *mean += (*(step.*part) - *mean) / lines;
      return;
    }
    steps_.push_back({step, 1});
  }
  // A line is the mean over the iterations since the one before; where a run was resumed, over as many as usual.
  std::vector<LoggedSteps> take() const {
    std::vector<LoggedSteps> all;
    std::vector<double> apart;
    for (std::size_t i = 1; i < steps_.size(); ++i)
      if (const auto since = distance(i); since > 0) apart.push_back(double(since));
    const auto usual = apart.empty() ? 0 : std::int64_t(median(std::move(apart)));
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      all.push_back(steps_[i].first);
      const auto since = distance(i);
      const bool next = since > 0 && (usual == 0 || since <= kGap * usual);
      if (next)
        all.back().count = since;
      else if (usual > 0)
        all.back().count = usual;
      all.back().restarted = i > 0 && (all.back().restarted || !next);
    }
    return all;
  }

 private:
  std::int64_t distance(std::size_t i) const {
    return steps_[i].first.iteration - (i > 0 ? steps_[i - 1].first.iteration : 0);
  }
  std::vector<std::pair<LoggedSteps, double>> steps_;  // and their lines
  bool started_ = false;                               // again, since the last of them
};

}  // namespace

std::string log_dialects() {
  std::string all;
  for (const auto& line : kLines)
    if (line.step) all += (all.empty() ? "" : ", ") + std::string(line.dialect);
  return all;
}

std::optional<Log> read_log(std::string_view text) {
  Log log;
  Gathered gathered;
  const LogLine* of_steps = nullptr;
  std::int64_t unnumbered = 0;
  const auto most = [](std::optional<double>& of, const std::optional<double>& value) {
    if (value && (!of || *value > *of)) of = value;
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find_first_of("\n\r", at), text.size());
    const auto line = small_letters(without_colours(text.substr(at, std::min<std::size_t>(end - at, kLongestLine))));
    at = end + 1;
    for (const auto& start : kStarts)
      if (line.find(start) != line.npos) gathered.start();
    for (const auto& kind : kLines) {
      // Another dialect's line says the same step a second time.
      if (kind.step && of_steps && of_steps != &kind) continue;
      if (line.find(kind.mark) == line.npos) continue;
      auto read = read_words(line, kind.words);
      most(log.allocated, read.allocated), most(log.reserved, read.reserved), most(log.device, read.device);
      if (!kind.step || !says_time(read.step)) continue;
      of_steps = &kind;
      if (!read.numbered) read.step.iteration = ++unnumbered;
      gathered.add(read.step);
    }
  }
  if (!of_steps) return {};
  log.steps = gathered.take();
  log.dialect = of_steps->dialect, log.note = of_steps->note;
  return log;
}

std::optional<SteadySteps> steady(const Log& log, double samples, double tokens_per_gpu) {
  struct Timed {
    const LoggedSteps* steps;
    double seconds;
  };
  std::vector<Timed> timed;
  std::int64_t all = 0;
  for (const auto& steps : log.steps) {
    double seconds = 0;
    if (steps.seconds)
      seconds = *steps.seconds;
    else if (steps.samples_per_s && samples > 0)
      seconds = samples / *steps.samples_per_s;
    else if (steps.tokens_per_s_gpu && tokens_per_gpu > 0)
      seconds = tokens_per_gpu / *steps.tokens_per_s_gpu;
    if (seconds >= kShortestStep && seconds <= kLongestStep) timed.push_back({&steps, seconds}), all += steps.count;
  }
  if (timed.empty()) return {};
  SteadySteps steady;
  auto warm_up = std::max(kWarmUp, std::int64_t(double(all) * kWarmUpShare));
  std::int64_t since = 0;  // iterations left out since the last start
  std::erase_if(timed, [&](const Timed& one) {
    if (one.steps->restarted) warm_up = kWarmUp, since = 0, ++steady.restarts;
    const auto count = one.steps->count;
    if (since >= warm_up || steady.dropped + count >= all) return false;
    since += count, steady.dropped += count;
    return true;
  });
  std::sort(timed.begin(), timed.end(), [](const Timed& a, const Timed& b) { return a.seconds < b.seconds; });
  for (const auto& one : timed) steady.iterations += one.steps->count;
  const auto quantile = [&](double share) {  // each line counts as often as it has iterations
    double seen = 0;
    for (const auto& one : timed) {
      seen += double(one.steps->count);
      if (seen >= share * double(steady.iterations)) return one.seconds;
    }
    return timed.back().seconds;
  };
  steady.lines = timed.size();
  steady.seconds = quantile(.5), steady.low = quantile(.1), steady.high = quantile(.9);
  std::vector<double> tflops;
  for (const auto& one : timed) {
    if (one.seconds > kStraggles * steady.seconds) steady.stragglers.push_back(one.steps->iteration);
    if (one.steps->tflops) tflops.push_back(*one.steps->tflops);
  }
  std::sort(steady.stragglers.begin(), steady.stragglers.end());
  if (!tflops.empty()) steady.tflops = median(std::move(tflops));
  return steady;
}

}  // namespace rehearsal::interchange
