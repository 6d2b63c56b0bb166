#include "scenario/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "base/spelling.hpp"
#include "scenario/diagnostics.hpp"

namespace rehearsal::scenario {
namespace {

constexpr std::size_t kLargest = std::size_t{64} << 20;

[[noreturn]] void wrong(const std::string& path, const std::string& message) {
  throw UserError({{{path, 0, 0}, printable(message)}});
}

// The text behind 'key': in the header, which is a dictionary of Python.
std::string_view behind(std::string_view header, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const auto name = fmt::format("{0}{1}{0}", quote, key);
    const auto at = header.find(name);
    if (at == header.npos) continue;
    auto rest = header.substr(at + name.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" :"), rest.size()));
    return rest;
  }
  return {};
}

struct Array {
  std::string type;  // "<f4": byte order, kind, bytes
  bool columns = false;
  std::vector<std::size_t> shape;
  std::string_view data;
};

Array array_of(std::string_view bytes, const std::string& path) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (!bytes.starts_with(kMagic) || bytes.size() < 12)
    wrong(path,
          "not a NumPy array; write one with numpy.save(file, array) (for a .pt file of torch, save "
          "tensor.cpu().numpy())");
  const auto byte = [bytes](std::size_t i) { return std::size_t(static_cast<unsigned char>(bytes[i])); };
  const auto version = byte(6);
  if (version < 1 || version > 3)
    wrong(path, fmt::format("NPY format {}.{} is not supported; 1.0 to 3.0 are", version, byte(7)));
  const std::size_t lengths = version == 1 ? 2 : 4, begin = 8 + lengths;
  std::size_t length = 0;
  for (std::size_t i = lengths; i-- > 0;) length = length << 8 | byte(8 + i);
  if (length > bytes.size() - begin) wrong(path, "the header is cut off");
  const auto header = bytes.substr(begin, length);
  Array array;
  array.data = bytes.substr(begin + length);
  const auto type = behind(header, "descr"), shape = behind(header, "shape");
  if (type.size() < 3 || !shape.starts_with('(')) wrong(path, "a header without 'descr' and 'shape'");
  array.type =
      type[0] == '\'' || type[0] == '"' ? std::string(type.substr(1, type.find(type[0], 1) - 1)) : "structured";
  array.columns = behind(header, "fortran_order").starts_with("True");
  std::size_t number = 0;
  bool digits = false;
  for (const char c : shape.substr(1)) {
    if (std::isdigit(static_cast<unsigned char>(c))) {
      number = number * 10 + std::size_t(c - '0'), digits = true;
      if (number > kLargest) wrong(path, "a dimension is larger than a file may be");
      continue;
    }
    if (digits) array.shape.push_back(number);
    number = 0, digits = false;
    if (c == ')') break;
  }
  return array;
}

template <class T>
double one(const char* at, bool swapped) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, at, sizeof(T));
  if (swapped) std::reverse(bytes, bytes + sizeof(T));
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return double(value);
}

using Read = double (*)(const char*, bool);
struct Type {
  std::string_view name;  // without the order of bytes
  std::size_t size;
  Read read;
};
constexpr Type kTypes[] = {{"f4", 4, one<float>},        {"f8", 8, one<double>},        {"i1", 1, one<std::int8_t>},
                           {"i2", 2, one<std::int16_t>}, {"i4", 4, one<std::int32_t>},  {"i8", 8, one<std::int64_t>},
                           {"u1", 1, one<std::uint8_t>}, {"u2", 2, one<std::uint16_t>}, {"u4", 4, one<std::uint32_t>},
                           {"u8", 8, one<std::uint64_t>}};

}  // namespace

std::vector<std::vector<double>> read_npy_rows(const std::string& path, const Files& files) {
  const auto bytes = files.read(path, kLargest);
  const auto array = array_of(bytes, path);
  const Type* type = nullptr;
  for (const auto& known : kTypes)
    if (std::string_view(array.type).substr(1) == known.name) type = &known;
  if (!type)
    wrong(path, fmt::format("values of type {} are not supported, only integers and 32- or 64-bit floating-point "
                            "numbers; save array.astype('float32')",
                            in_quotes(array.type)));
  if (array.shape.size() != 2)
    wrong(path,
          fmt::format("an array of {} dimension{}; it must have two, layers x experts{}", array.shape.size(),
                      array.shape.size() == 1 ? "" : "s",
                      array.shape.size() == 3 ? ": save each step by itself, and list the files in 'trace'" : ""));
  const auto rows = array.shape[0], columns = array.shape[1];
  if (rows == 0 || columns == 0) wrong(path, fmt::format("an array of {} x {} is empty", rows, columns));
  if (columns > kLargest / rows || array.data.size() != rows * columns * type->size)
    wrong(path, fmt::format("{} x {} values of {} bytes are expected, but only {} bytes are there", rows, columns,
                            type->size, array.data.size()));
  const bool swapped = array.type[0] == '>';
  std::vector<std::vector<double>> all(rows, std::vector<double>(columns));
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) {
      all[r][c] =
          type->read(array.data.data() + type->size * (array.columns ? c * rows + r : r * columns + c), swapped);
      if (!std::isfinite(all[r][c])) wrong(path, fmt::format("the value at [{}, {}] is not a finite number", r, c));
    }
  return all;
}

}  // namespace rehearsal::scenario
