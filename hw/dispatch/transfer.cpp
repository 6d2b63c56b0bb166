// RankResult as bytes: every field as little-endian integers, each list preceded by its length.
#include <bit>
#include <type_traits>

#include "base/error.hpp"
#include "dispatch/results.hpp"

namespace rehearsal::dispatch {
namespace {

class Writer {
 public:
  void operator()(std::uint64_t value) {
    for (int i = 0; i < 8; ++i, value >>= 8) bytes.push_back(static_cast<char>(value & 0xff));
  }
  void operator()(std::int64_t value) { (*this)(static_cast<std::uint64_t>(value)); }
  void operator()(bool value) { (*this)(std::uint64_t{value}); }
  void operator()(double value) { (*this)(std::bit_cast<std::uint64_t>(value)); }
  void operator()(float value) {
    auto bits = std::bit_cast<std::uint32_t>(value);
    for (int i = 0; i < 4; ++i, bits >>= 8) bytes.push_back(static_cast<char>(bits & 0xff));
  }
  template <class Tag>
  void operator()(const Quantity<Tag>& value) {
    (*this)(value.count());
  }
  template <class T>
  void operator()(const std::vector<T>& list) {
    (*this)(std::uint64_t{list.size()});
    for (const T& value : list) (*this)(value);
  }
  void operator()(const std::string& text) { (*this)(std::uint64_t{text.size()}), bytes += text; }
  void operator()(const timeline::Spans& spans) { (*this)(spans.start), (*this)(spans.end); }
  void operator()(const timeline::DeviceReport& device) {
    (*this)(device.kernels), (*this)(device.copies), (*this)(device.kernel_time), (*this)(device.copy_time);
    (*this)(device.unavailable), (*this)(device.taken);
  }

  std::string bytes;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  void operator()(std::uint64_t& value) { value = integer(8); }
  void operator()(std::int64_t& value) { value = static_cast<std::int64_t>(integer(8)); }
  void operator()(bool& value) { value = integer(8) != 0; }
  void operator()(double& value) { value = std::bit_cast<double>(integer(8)); }
  void operator()(float& value) { value = std::bit_cast<float>(static_cast<std::uint32_t>(integer(4))); }
  template <class Tag>
  void operator()(Quantity<Tag>& value) {
    std::int64_t count = 0;
    (*this)(count);
    value = Quantity<Tag>(count);
  }
  template <class T>
  void operator()(std::vector<T>& list) {
    const std::uint64_t size = integer(8);
    // Every element takes at least 4 bytes; this keeps a corrupt length from allocating all memory.
    if (size > left_.size() / 4) cut();
    list.resize(size);
    for (T& value : list) (*this)(value);
  }
  void operator()(std::string& text) {
    const std::uint64_t size = integer(8);
    if (size > left_.size()) cut();
    text = left_.substr(0, size);
    left_.remove_prefix(size);
  }
  void operator()(timeline::Spans& spans) { (*this)(spans.start), (*this)(spans.end); }
  void operator()(timeline::DeviceReport& device) {
    (*this)(device.kernels), (*this)(device.copies), (*this)(device.kernel_time), (*this)(device.copy_time);
    (*this)(device.unavailable), (*this)(device.taken);
  }

  void finish() const {
    if (!left_.empty()) throw MachineError("the results of a rank are longer than they should be");
  }

 private:
  [[noreturn]] static void cut() { throw MachineError("the results of a rank were cut short on their way"); }
  std::uint64_t integer(std::size_t size) {
    if (left_.size() < size) cut();
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(left_[i]);
    left_.remove_prefix(size);
    return value;
  }
  std::string_view left_;
};

// The only list of fields, used for reading and writing.
template <class Archive, class Result>
void all_fields(Archive& archive, Result& result) {
  archive(result.iterations);
  archive(result.learned.loss);
  archive(result.learned.squared_gradients);
  archive(result.learned.parameters);
  archive(result.learned.masters);
  archive(result.learned.gathered);
  archive(result.learned.responses);
  archive(result.learned.peak);
  archive(result.learned.allocator_peak);
  archive(result.learned.allocator_allowance);
  archive(result.learned.devices);
  archive(result.learned.beyond);
  archive(result.learned.disk.means);
  archive(result.learned.disk.length);
  archive(result.learned.disk.cached);
  archive(result.used.own);
  archive(result.used.machine);
  archive(result.used.stolen);
  archive(result.used.waited);
  archive(result.raised_priority);
  archive(result.clock_error);
}

}  // namespace

std::string write(const RankResult& result) {
  Writer writer;
  all_fields(writer, result);
  return std::move(writer.bytes);
}

RankResult read(std::string_view bytes) {
  Reader reader(bytes);
  RankResult result;
  all_fields(reader, result);
  reader.finish();
  return result;
}

}  // namespace rehearsal::dispatch
