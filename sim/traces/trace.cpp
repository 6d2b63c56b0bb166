#include "traces/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <utility>

#include "traces/collector.hpp"
#include "traces/nsys.hpp"
#include "traces/refuse.hpp"

namespace rehearsal::traces {
namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// What Kineto writes, by category; older versions wrote them with capitals.
class KinetoEvents : public Events {
 public:
  explicit KinetoEvents(Collector& to) : to_(to) {}

  void event(const Event& e) override {
    if (e.phase != "X") return;
    const auto& category = e.category;
    if (category == "kernel" || category == "Kernel") {
      to_.kernel(e);
    } else if (category == "gpu_memcpy" || category == "gpu_memset" || category == "Memcpy" || category == "Memset") {
      to_.kernel(e, Kind::copy);
    } else if (e.name.starts_with("ProfilerStep#")) {
      std::int64_t number = 0;
      const auto digits = std::string_view(e.name).substr(13);
      if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc() && e.start &&
          e.duration)
        to_.step(number, *e.start, *e.start + std::max<std::int64_t>(0, *e.duration), category == "gpu_user_annotation",
                 e);
    } else if (category == "cpu_op" || category == "Operator") {
      to_.operation(e);
    } else if (category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime") {
      to_.launch(e);
    } else if (category == "user_annotation") {
      to_.range(e);
    } else if (category == "gpu_user_annotation") {
      to_.range_on_gpu(e);
    }
  }

 private:
  Collector& to_;
};

using Passed = std::function<void(std::size_t bytes)>;

// 0 for what is no regular file.
std::size_t size_of(const std::string& file) {
  std::error_code unknown;
  const auto size = std::filesystem::file_size(file, unknown);
  return unknown ? 0 : std::size_t(size);
}

std::vector<Trace> read_kineto(const std::string& file, const KernelClasses& classes, const Passed& passed) {
  Collector collector(classes);
  KinetoEvents events(collector);
  Header header;
  const auto read = read_profiler_json(file, header, events, passed);
  auto traces = std::move(collector).finish(file, header);
  if (traces.empty())
    refuse(file, fmt::format(
                     "{} events and no kernel of a GPU{}; profile with ProfilerActivity.CUDA", read.events,
                     read.incomplete.empty() ? "" : fmt::format(" ({} after {} bytes)", read.incomplete, read.bytes)));
  if (!read.incomplete.empty())
    for (auto& trace : traces)
      trace.notes.push_back(fmt::format("{}: read {} events in {} bytes of JSON, the last kernel ends at {:.6f} s",
                                        read.incomplete, read.events, read.bytes, double(trace.end()) * 1e-9));
  return traces;
}

bool is_database(const std::string& file) {
  std::array<char, 16> begins{};
  std::ifstream in(file, std::ios::binary);
  in.read(begins.data(), begins.size());
  return in && std::string_view(begins.data(), 15) == "SQLite format 3";
}

}  // namespace

Kind Transfer::kind() const {
  const bool pair = name == "send" || name == "recv" || has(name, "nccl:send") || has(name, "nccl:recv") ||
                    has(name, "coalesced_p2p") || has(name, "batch_isend_irecv");
  return pair ? Kind::message : Kind::collective;
}

Bytes Transfer::bytes() const {
  const auto each = bytes_of(dtype), most = std::max(in_elements, out_elements);
  return most > std::numeric_limits<std::int64_t>::max() / 8 ? Bytes{} : Bytes(each * most);
}

std::vector<std::int64_t> Transfer::members() const {
  std::vector<std::int64_t> all;
  for (std::string_view rest = ranks; !rest.empty();) {
    std::int64_t rank = 0;
    const auto [stop, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), rank);
    if (failed == std::errc())
      all.push_back(rank), rest.remove_prefix(std::size_t(stop - rest.data()));
    else
      rest.remove_prefix(1);
    if (rest.starts_with("...")) return {};  // long lists are cut
  }
  return all;
}

bool Trace::tells_passes() const {
  return std::any_of(kernels.begin(), kernels.end(),
                     [this](const LaunchedKernel& kernel) { return pass(kernel) == Pass::backward; });
}

std::int64_t Trace::end() const {
  std::int64_t last = 0;
  for (const auto& kernel : kernels) last = std::max(last, kernel.end());
  return last;
}

std::int64_t bytes_of(std::string_view type) {
  if (type.starts_with("c10::")) type.remove_prefix(5);
  static constexpr std::pair<std::string_view, std::int64_t> kTypes[] = {
      {"Float", 4},        {"float", 4},     {"BFloat16", 2},      {"Half", 2},        {"Double", 8},
      {"double", 8},       {"Byte", 1},      {"Char", 1},          {"Bool", 1},        {"bool", 1},
      {"Short", 2},        {"short int", 2}, {"Int", 4},           {"int", 4},         {"Long", 8},
      {"long", 8},         {"long int", 8},  {"unsigned char", 1}, {"signed char", 1}, {"Float4_e2m1fn_x2", 1},
      {"ComplexFloat", 8},
  };
  for (const auto& [name, bytes] : kTypes)
    if (name == type) return bytes;
  return type.starts_with("Float8") ? 1 : 0;
}

std::vector<Trace> read(const std::string& file, const KernelClasses& classes, const Passed& passed) {
  return is_database(file) ? read_nsys(file, classes) : read_kineto(file, classes, passed);
}

std::vector<Trace> read(const std::vector<std::string>& files, const KernelClasses& classes, const Done& done) {
  std::vector<Trace> all;
  std::size_t before = 0, of = 0;  // bytes
  for (const auto& file : files) of += size_of(file);
  for (const auto& file : files) {
    Passed passed;
    if (done) passed = [&](std::size_t bytes) { done(before + bytes, of); };
    for (auto& trace : read(file, classes, passed)) all.push_back(std::move(trace));
    before += size_of(file);
  }
  std::vector<std::int64_t> taken;
  for (const auto& trace : all) {
    if (!trace.rank) continue;
    for (const auto& other : all)
      if (&other != &trace && other.rank == trace.rank)
        refuse(other.file,
               fmt::format("is of rank {}, as '{}' is; give one trace of each rank", *trace.rank, trace.file));
    taken.push_back(*trace.rank);
  }
  std::int64_t next = 0;
  for (auto& trace : all) {
    if (trace.rank) continue;
    while (std::find(taken.begin(), taken.end(), next) != taken.end()) ++next;
    trace.rank = next++;
    trace.notes.push_back(fmt::format("names no rank: taken as rank {}, by the order of the files", *trace.rank));
  }
  std::stable_sort(all.begin(), all.end(), [](const Trace& a, const Trace& b) { return a.rank < b.rank; });
  return all;
}

}  // namespace rehearsal::traces
