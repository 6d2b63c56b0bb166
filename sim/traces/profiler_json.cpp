#include "traces/profiler_json.hpp"

#include <fmt/format.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "traces/pieces.hpp"
#include "traces/refuse.hpp"

namespace rehearsal::traces {
namespace {

constexpr std::size_t kDeepest = 256;  // events nest four levels

// What RapidJSON reads from. Control characters become spaces: between values that is what they mean, and within
// strings JSON does not allow them.
class Stream {
 public:
  using Ch = char;
  explicit Stream(Pieces& pieces) : pieces_(pieces) { fill(); }

  Ch Peek() const { return *at_; }
  Ch Take() {
    const char c = *at_;
    if (++at_ == end_) fill();
    return c;
  }
  std::size_t Tell() const { return before_ + std::size_t(at_ - begin_); }
  bool ended() const { return ended_; }
  // Reading into a copy in place is for other streams.
  Ch* PutBegin() { return nullptr; }
  void Put(Ch) {}
  void Flush() {}
  std::size_t PutEnd(Ch*) { return 0; }

 private:
  void fill() {
    before_ += std::size_t(end_ - begin_);
    const auto size = pieces_.next(begin_);
    at_ = begin_, end_ = begin_ + size;
    ended_ = size == 0;
    *end_ = '\0';  // at the end of the file, it is what RapidJSON takes for one
    for (char* c = begin_; c != end_; ++c) *c = static_cast<unsigned char>(*c) < ' ' ? ' ' : *c;
  }

  Pieces& pieces_;
  char *begin_ = nullptr, *at_ = nullptr, *end_ = nullptr;
  std::size_t before_ = 0;
  bool ended_ = false;
};

enum class Where : std::uint8_t {
  root,
  events,
  event,
  args,
  shapes,
  shape,
  values,
  types,
  devices,
  device,
  job,
  groups,
  group,
  ranks,
  other
};

enum class Key : std::uint8_t {
  other,
  events,
  devices,
  job,
  base,
  phase,
  category,
  name,
  start,
  duration,
  args,
  external,
  correlation,
  thread,
  device,
  stream,
  collective,
  dtype,
  group,
  group_about,
  group_ranks,
  in_elements,
  out_elements,
  group_size,
  shapes,
  type,
  values,
  id,
  memory,
  multiprocessors,
  major,
  minor,
  rank,
  world,
  groups,
  ranks
};

struct Word {
  Where where;
  std::string_view text;
  Key key;
};
constexpr Word kWords[] = {
    {Where::root, "traceEvents", Key::events},
    {Where::root, "deviceProperties", Key::devices},
    {Where::root, "distributedInfo", Key::job},
    {Where::root, "baseTimeNanoseconds", Key::base},
    {Where::event, "ph", Key::phase},
    {Where::event, "cat", Key::category},
    {Where::event, "name", Key::name},
    {Where::event, "ts", Key::start},
    {Where::event, "dur", Key::duration},
    {Where::event, "pid", Key::device},  // of what runs on a GPU
    {Where::event, "tid", Key::thread},
    {Where::event, "args", Key::args},
    {Where::args, "External id", Key::external},
    {Where::args, "external id", Key::external},
    {Where::args, "correlation", Key::correlation},
    {Where::args, "device", Key::device},
    {Where::args, "stream", Key::stream},
    {Where::args, "Collective name", Key::collective},
    {Where::args, "dtype", Key::dtype},
    {Where::args, "Process Group Name", Key::group},
    {Where::args, "Process Group Description", Key::group_about},
    {Where::args, "Process Group Ranks", Key::group_ranks},
    {Where::args, "In msg nelems", Key::in_elements},
    {Where::args, "Out msg nelems", Key::out_elements},
    {Where::args, "Group size", Key::group_size},
    {Where::args, "Input Dims", Key::shapes},
    {Where::args, "Input dims", Key::shapes},
    {Where::args, "Input type", Key::type},
    {Where::args, "Concrete Inputs", Key::values},
    {Where::device, "id", Key::id},
    {Where::device, "name", Key::name},
    {Where::device, "totalGlobalMem", Key::memory},
    {Where::device, "numSms", Key::multiprocessors},
    {Where::device, "computeMajor", Key::major},
    {Where::device, "computeMinor", Key::minor},
    {Where::job, "rank", Key::rank},
    {Where::job, "world_size", Key::world},
    {Where::job, "pg_config", Key::groups},
    {Where::group, "pg_name", Key::name},
    {Where::group, "ranks", Key::ranks},
};

Key key_of(Where where, std::string_view text) {
  for (const auto& word : kWords)
    if (word.where == where && word.text.size() == text.size() && word.text == text) return word.key;
  return Key::other;
}

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Puts what the parser says into events and the header. Values that are not what their key promises are left out.
class Handler {
 public:
  Handler(Header& header, Events& to) : header_(header), to_(to) {}

  bool Null() { return true; }
  bool Bool(bool) { return true; }
  // With numbers as text these are never called.
  bool Int(int) { return true; }
  bool Uint(unsigned) { return true; }
  bool Int64(std::int64_t) { return true; }
  bool Uint64(std::uint64_t) { return true; }
  bool Double(double) { return true; }
  bool RawNumber(const char* text, rapidjson::SizeType length, bool) { return scalar({text, length}, true); }
  bool String(const char* text, rapidjson::SizeType length, bool) { return scalar({text, length}, false); }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    const auto where = here();
    const bool named = where <= Where::args || (where >= Where::device && where != Where::ranks);
    key_ = named && where != Where::other ? key_of(where, {text, length}) : Key_::other;
    return true;
  }

  bool StartObject() {
    switch (here()) {
      case Where::events:
        event_ = {};
        return push(Where::event);
      case Where::event:
        return push(key_ == Key_::args ? Where::args : Where::other);
      case Where::root:
        if (path_.empty()) return push(Where::root);
        return push(key_ == Key_::job ? Where::job : Where::other);
      case Where::devices:
        header_.devices.emplace_back();
        return push(Where::device);
      case Where::groups:
        header_.groups.emplace_back();
        return push(Where::group);
      default:
        break;
    }
    return push(Where::other);
  }
  bool EndObject(rapidjson::SizeType) {
    if (here() == Where::event) to_.event(event_), ++count_;
    path_.pop_back();
    return true;
  }
  bool StartArray() {
    switch (here()) {
      case Where::root:
        if (path_.empty() || key_ == Key_::events) {
          seen_ = true;
          return push(Where::events);
        }
        return push(key_ == Key_::devices ? Where::devices : Where::other);
      case Where::args:
        return push(key_ == Key_::shapes   ? Where::shapes
                    : key_ == Key_::type   ? Where::types
                    : key_ == Key_::values ? Where::values
                                           : Where::other);
      case Where::shapes:
        return push(Where::shape);
      case Where::job:
        return push(key_ == Key_::groups ? Where::groups : Where::other);
      case Where::group:
        return push(key_ == Key_::ranks ? Where::ranks : Where::other);
      default:
        return push(Where::other);
    }
  }
  bool EndArray(rapidjson::SizeType) {
    if (here() == Where::shape && event_.shapes.size() < Event::kLongestText) {
      if (event_.shapes.ends_with(',')) event_.shapes.pop_back();
      event_.shapes += ';';
    }
    path_.pop_back();
    return true;
  }

  std::uint64_t count() const { return count_; }
  bool seen() const { return seen_; }
  bool too_deep() const { return too_deep_; }

 private:
  using Key_ = traces::Key;

  Where here() const { return path_.empty() ? Where::root : path_.back(); }
  bool push(Where where) {
    too_deep_ = path_.size() >= kDeepest;
    if (!too_deep_) path_.push_back(where);
    return !too_deep_;
  }

  bool scalar(std::string_view text, bool number) {
    switch (here()) {
      case Where::event:
        of_event(text);
        break;
      case Where::args:
        of_args(text);
        break;
      case Where::shape:
        if (number && event_.shapes.size() < Event::kLongestText) (event_.shapes += text) += ',';
        break;
      case Where::shapes:  // a number, where an input is none: its place counts
        if (event_.shapes.size() < Event::kLongestText) event_.shapes += ';';
        break;
      case Where::values:
        if (event_.values.size() < Event::kLongestText) (event_.values += text) += ';';
        break;
      case Where::types:
        if (event_.type.empty() && !text.empty() && !text.starts_with("Scalar")) keep(event_.type, text);
        break;
      default:
        of_header(text);
    }
    return true;
  }

  static void keep(std::string& to, std::string_view text) { to = text.substr(0, Event::kLongestText); }

  void of_event(std::string_view text) {
    switch (key_) {
      case Key_::phase:
        return keep(event_.phase, text);
      case Key_::category:
        return keep(event_.category, text);
      case Key_::name:
        return keep(event_.name, text);
      case Key_::start:
        event_.start = nanoseconds(text);
        return;
      case Key_::duration:
        event_.duration = nanoseconds(text);
        return;
      case Key_::device:
        event_.device = integer(text).value_or(-1);
        return;
      case Key_::thread:
        event_.thread = integer(text).value_or(-1);
        return;
      default:
        return;
    }
  }

  void of_args(std::string_view text) {
    const auto number = [&](std::int64_t otherwise) { return integer(text).value_or(otherwise); };
    switch (key_) {
      case Key_::external:
        event_.external = std::uint64_t(number(-1));
        return;
      case Key_::correlation:
        event_.correlation = std::uint64_t(number(-1));
        return;
      case Key_::device:
        event_.device = number(-1);
        return;
      case Key_::stream:
        event_.stream = number(-1);
        return;
      case Key_::collective:
        return keep(event_.collective, text);
      case Key_::dtype:
        return keep(event_.dtype, text);
      case Key_::group:
        return keep(event_.group, text);
      case Key_::group_about:
        return keep(event_.group_about, text);
      case Key_::group_ranks:
        return keep(event_.group_ranks, text);
      case Key_::in_elements:
        event_.in_elements = number(-1);
        return;
      case Key_::out_elements:
        event_.out_elements = number(-1);
        return;
      case Key_::group_size:
        event_.group_size = number(0);
        return;
      default:
        return;
    }
  }

  void of_header(std::string_view text) {
    const auto where = here();
    if (where == Where::root && key_ == Key_::base) header_.base = integer(text);
    if (where == Where::job && key_ == Key_::rank) header_.rank = integer(text);
    if (where == Where::job && key_ == Key_::world) header_.world = integer(text);
    if (where == Where::group && key_ == Key_::name) keep(header_.groups.back().name, text);
    if (where == Where::ranks)
      if (const auto rank = integer(text)) header_.groups.back().ranks.push_back(*rank);
    if (where != Where::device) return;
    auto& device = header_.devices.back();
    if (key_ == Key_::id) device.id = integer(text).value_or(-1);
    if (key_ == Key_::name) device.name = readable(text.substr(0, Event::kLongestText));
    if (key_ == Key_::major) device.major = integer(text).value_or(0);
    if (key_ == Key_::minor) device.minor = integer(text).value_or(0);
    if (key_ == Key_::memory) device.memory = integer(text).value_or(0);
    if (key_ == Key_::multiprocessors) device.multiprocessors = integer(text).value_or(0);
  }

  Header& header_;
  Events& to_;
  std::vector<Where> path_;
  Key_ key_ = Key_::other;
  Event event_;
  std::uint64_t count_ = 0;
  bool seen_ = false, too_deep_ = false;
};

}  // namespace

std::optional<std::int64_t> nanoseconds(std::string_view text) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 10;
  std::size_t at = 0;
  const bool negative = text.starts_with('-');
  if (negative) ++at;
  std::int64_t value = 0;
  int behind = -1;  // digits behind the point
  bool any = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && behind < 0) {
      behind = 0;
    } else if (c >= '0' && c <= '9') {
      any = true;
      if (behind == 3) {  // a tenth of a nanosecond rounds, and what follows does not count
        if (c >= '5') ++value;
        behind = 4;
      }
      if (behind > 3) continue;
      if (value > kMost) return std::nullopt;
      value = value * 10 + (c - '0');
      if (behind >= 0) ++behind;
    } else if ((c == 'e' || c == 'E') && any) {
      const double whole = std::strtod(std::string(text).c_str(), nullptr) * 1e3;
      if (!(std::abs(whole) < 9e18)) return std::nullopt;
      return std::llround(whole);
    } else {
      return std::nullopt;
    }
  }
  if (!any) return std::nullopt;
  for (behind = std::max(behind, 0); behind < 3; ++behind) {
    if (value > kMost) return std::nullopt;
    value *= 10;
  }
  return negative ? -value : value;
}

std::string readable(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t j) { return j < text.size() ? static_cast<unsigned char>(text[j]) : 0u; };
    const unsigned first = byte(i);
    const std::size_t length = first < 0x80                    ? 1
                               : first >= 0xc2 && first < 0xe0 ? 2
                               : first >= 0xe0 && first < 0xf0 ? 3
                               : first >= 0xf0 && first < 0xf5 ? 4
                                                               : 0;
    bool good = length > 0;
    for (std::size_t j = 1; j < length; ++j) good = good && (byte(i + j) & 0xc0) == 0x80;
    // No second way to write a character, no halves of pairs, nothing beyond the last plane.
    if (good && length > 2) {
      const unsigned second = byte(i + 1);
      good = !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second >= 0xa0) &&
             !(first == 0xf0 && second < 0x90) && !(first == 0xf4 && second >= 0x90);
    }
    if (!good || first < ' ' || first == 0x7f) {
      result += first < ' ' ? ' ' : '?';
      ++i;
      continue;
    }
    result += text.substr(i, length);
    i += length;
  }
  return result;
}

ReadSoFar read_profiler_json(const std::string& path, Header& header, Events& events,
                             const std::function<void(std::size_t bytes)>& passed) {
  Pieces pieces(path, passed);
  Stream stream(pieces);
  Handler handler(header, events);
  rapidjson::Reader reader;
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseNanAndInfFlag | rapidjson::kParseTrailingCommasFlag |
                              rapidjson::kParseStopWhenDoneFlag;
  const auto parsed = reader.Parse<kFlags>(stream, handler);
  ReadSoFar read{handler.count(), stream.Tell(), pieces.damage()};
  if (stream.ended() && read.bytes == 0 && read.incomplete.empty()) refuse(path, "is empty");
  if (handler.too_deep())
    refuse(path,
           fmt::format("is nested more than {} levels deep at byte {}: no profiler's trace", kDeepest, read.bytes));
  if (parsed.IsError() && read.incomplete.empty()) {
    if (!stream.ended())
      refuse(path,
             fmt::format("is no JSON at byte {}{}; a trace of PyTorch's profiler comes from "
                         "prof.export_chrome_trace or tensorboard_trace_handler",
                         parsed.Offset(), handler.count() ? fmt::format(", after {} events", handler.count()) : ""));
    read.incomplete = "the file ends in the middle";
  }
  if (!handler.seen())
    refuse(path, read.incomplete.empty()
                     ? "has no 'traceEvents': no trace of PyTorch's profiler (prof.export_chrome_trace writes one)"
                     : fmt::format("has no events: {} after {} bytes", read.incomplete, read.bytes));
  return read;
}

}  // namespace rehearsal::traces
