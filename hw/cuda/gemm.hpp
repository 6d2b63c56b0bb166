// Matrix products of linear layers, by cuBLASLt. The algorithm for a shape is the first choice of the library's
// heuristic, decided once, so repeated runs use the same one.
//
// fp32; tf32 (stored as fp32); bf16 (sums in fp32); fp8 (e4m3 times e4m3 gives bf16; only `linear`, from compute
// capability 8.9 on, all dimensions multiples of 16). Gradients of weights are fp32 and accumulate in place.
#pragma once
#include <cublasLt.h>

#include <map>
#include <memory>
#include <string>

#include "base/units.hpp"
#include "kernels/call.hpp"

namespace rehearsal::cuda {

class Gemms {
 public:
  // For the current device. `capability`: 90 for 9.0.
  explicit Gemms(int capability);
  ~Gemms();
  Gemms(const Gemms&) = delete;
  Gemms& operator=(const Gemms&) = delete;

  // `multiprocessors`: available to the stream; 0 = all. Throws MachineError for a product that this GPU does not
  // support.
  void perform(const kernels::Call& call, cudaStream_t stream, int multiprocessors);
  // Selects the algorithm and loads its code; only the operands' alignment matters.
  void load(const kernels::Call& call, cudaStream_t stream, int multiprocessors);

  Bytes workspace() const;  // allocated for the library, over all streams

 private:
  struct Key {
    KernelKind kind{};
    std::array<std::int64_t, 3> dims{};
    Precision precision{};
    int multiprocessors = 0;
    std::array<std::uint32_t, 3> alignment{};  // of the operands, in bytes
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Plan;

  const Plan& plan(const kernels::Call& call, int multiprocessors);
  std::unique_ptr<Plan> make_plan(const Key& key, const Kernel& kernel);
  void* workspace_of(cudaStream_t stream);
  const float* one();

  const int capability_;
  const std::size_t workspace_bytes_;
  cublasLtHandle_t library_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  std::map<cudaStream_t, void*> workspaces_;
  float* one_ = nullptr;  // on the device
};

}  // namespace rehearsal::cuda
