// Writes TrainingResult weights as a .safetensors file (huggingface.co/docs/safetensors): 8 bytes of header length,
// little endian; a JSON header with name, dtype, shape and offsets of each tensor; then the bytes. Readable by numpy,
// torch and others.
#pragma once
#include <string>

#include "backend/backend.hpp"
#include "report/perfetto.hpp"

namespace rehearsal::report {

// "layers.3.qkv_weight"; tensors outside the layers are named by their kind alone.
std::string weight_name(const backend::TrainedTensor& tensor);
void write_safetensors(const backend::TrainingResult& trained, const Sink& sink);

}  // namespace rehearsal::report
