#include "report/safetensors.hpp"

#include <fmt/format.h>

#include <bit>

#include "base/json.hpp"

namespace rehearsal::report {

static_assert(std::endian::native == std::endian::little, "the format is little endian, and so are the bytes here");

std::string weight_name(const backend::TrainedTensor& tensor) {
  return is_of_layer(tensor.kind) ? fmt::format("layers.{}.{}", tensor.layer, name(tensor.kind)) : name(tensor.kind);
}

void write_safetensors(const backend::TrainingResult& trained, const Sink& sink) {
  Json header;
  std::size_t offset = 0;
  for (const auto& tensor : trained.tensors) {
    const std::size_t size = tensor.values.size() * sizeof(float);
    header[weight_name(tensor)] = {
        {"dtype", "F32"}, {"shape", {tensor.values.size()}}, {"data_offsets", {offset, offset + size}}};
    offset += size;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the floats are aligned
  const std::uint64_t length = text.size();
  sink({reinterpret_cast<const char*>(&length), sizeof length});
  sink(text);
  for (const auto& tensor : trained.tensors)
    sink({reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float)});
}

}  // namespace rehearsal::report
