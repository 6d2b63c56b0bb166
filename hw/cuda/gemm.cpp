#include "cuda/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "cuda/capture.hpp"
#include "cuda/check.hpp"
#include "gpu/gemm_layout.hpp"

namespace rehearsal::cuda {
namespace {

// NVIDIA's recommendation for cuBLAS (cublasSetWorkspace in its manual): 32 MiB from Hopper on, 4 MiB before. With
// less, the heuristic excludes algorithms that split the inner dimension.
constexpr std::size_t workspace_for(int capability) { return std::size_t(capability >= 90 ? 32 : 4) << 20; }

struct Types {
  cublasComputeType_t compute;
  cudaDataType_t inputs;
};

Types types_of(const Kernel& kernel, int capability) {
  switch (kernel.precision) {
    case Precision::fp32:
      return {CUBLAS_COMPUTE_32F, CUDA_R_32F};
    case Precision::tf32:
      return {CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F};
    case Precision::bf16:
      return {CUBLAS_COMPUTE_32F, CUDA_R_16BF};
    case Precision::fp8: {
      const std::int64_t t = kernel.dims[0], n = kernel.dims[1], k = kernel.dims[2];
      if (capability < 89)
        throw MachineError(
            fmt::format("this GPU (compute capability {}.{}) has no fp8 matrix products; they take 8.9 "
                        "or newer",
                        capability / 10, capability % 10));
      if (kernel.kind != KernelKind::linear)
        throw MachineError(fmt::format("there is no {} in fp8 here; only linear", name(kernel.kind)));
      if (t % 16 != 0 || n % 16 != 0 || k % 16 != 0)
        throw MachineError(fmt::format("an fp8 matrix product needs multiples of 16, not {} x {} x {}", t, n, k));
      return {CUBLAS_COMPUTE_32F, CUDA_R_8F_E4M3};
    }
    case Precision::fp16:
    case Precision::fp4:
      break;
  }
  throw MachineError(fmt::format("there is no {} in {} here", name(kernel.kind), name(kernel.precision)));
}

// fp32 inputs and gradients of weights give fp32, all others bf16.
cudaDataType_t output_of(const Kernel& kernel, const Types& types) {
  return types.inputs == CUDA_R_32F || kernel.kind == KernelKind::linear_weight_gradient ? CUDA_R_32F : CUDA_R_16BF;
}

constexpr std::uintptr_t kAlignment = 256;  // assumed by the heuristic

// The largest power of two, up to kAlignment, that divides the address.
std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | kAlignment;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

template <class Value>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

}  // namespace

struct Gemms::Plan {
  gpu::BlasProduct product;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    for (auto layout : {a, b, c})
      if (layout) cublasLtMatrixLayoutDestroy(layout);
    if (description) cublasLtMatmulDescDestroy(description);
  }
};

Gemms::Gemms(int capability) : capability_(capability), workspace_bytes_(workspace_for(capability)) {
  check(cublasLtCreate(&library_), "cublasLtCreate");
}

Gemms::~Gemms() {
  plans_.clear();
  for (const auto& [stream, memory] : workspaces_) cudaFree(memory);
  cudaFree(one_);
  cublasLtDestroy(library_);
}

Bytes Gemms::workspace() const { return Bytes(static_cast<std::int64_t>(workspaces_.size() * workspace_bytes_)); }

void Gemms::perform(const kernels::Call& call, cudaStream_t stream, int multiprocessors) {
  const Plan& chosen = plan(call, multiprocessors);
  const gpu::BlasProduct& p = chosen.product;
  void* const c = call.operands[p.c.operand];
  const float alpha = 1, beta = p.accumulate ? 1.f : 0.f;
  check(cublasLtMatmul(library_, chosen.description, &alpha, call.operands[p.a.operand], chosen.a,
                       call.operands[p.b.operand], chosen.b, &beta, c, chosen.c, c, chosen.c, &chosen.algorithm,
                       workspace_of(stream), workspace_bytes_, stream),
        "cublasLtMatmul");
}

// The library loads code only by launching it: so this launches the same product, with the same alignment, on scratch
// memory.
void Gemms::load(const kernels::Call& call, cudaStream_t stream, int multiprocessors) {
  const std::size_t known = plans_.size();
  const gpu::BlasProduct product = plan(call, multiprocessors).product;
  if (plans_.size() == known) return;
  kernels::Call here = call;
  std::array<void*, 3> blocks{};
  for (const gpu::StoredMatrix& matrix : {product.a, product.b, product.c}) {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(call.operands[matrix.operand]) % kAlignment;
    const auto elements = static_cast<std::size_t>(matrix.rows * matrix.columns);
    void*& block = blocks[matrix.operand];
    check(cudaMallocAsync(&block, offset + elements * sizeof(float), stream), "cudaMallocAsync");
    here.operands[matrix.operand] = static_cast<std::byte*>(block) + offset;
  }
  perform(here, stream, multiprocessors);
  for (void* block : blocks) check(cudaFreeAsync(block, stream), "cudaFreeAsync");
}

const Gemms::Plan& Gemms::plan(const kernels::Call& call, int multiprocessors) {
  const Kernel& kernel = call.kernel;
  Key key{.kind = kernel.kind,
          .dims = {kernel.dims[0], kernel.dims[1], kernel.dims[2]},
          .precision = kernel.precision,
          .multiprocessors = multiprocessors};
  for (std::size_t i = 0; i < 3; ++i) key.alignment[i] = alignment_of(call.operands[i]);
  auto& known = plans_[key];
  if (!known) known = make_plan(key, kernel);
  return *known;
}

std::unique_ptr<Gemms::Plan> Gemms::make_plan(const Key& key, const Kernel& kernel) {
  const Types types = types_of(kernel, capability_);
  const cudaDataType_t output = output_of(kernel, types);
  auto made = std::make_unique<Plan>();
  made->product = gpu::blas_product(kernel);
  const gpu::BlasProduct& p = made->product;

  check(cublasLtMatmulDescCreate(&made->description, types.compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const auto operation = [](const gpu::StoredMatrix& m) { return m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(made->description, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.a));
  set(made->description, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.b));
  if (key.multiprocessors > 0)
    set(made->description, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, std::int32_t(key.multiprocessors));
  if (kernel.precision == Precision::fp8) {
    // Calls have no scales. Sums have the precision of the tensor cores, as frameworks train forward passes
    // (Transformer Engine: use_split_accumulator is off there).
    set(made->description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, one());
    set(made->description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, one());
    set(made->description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t(1));
  }
  const auto layout = [](cublasLtMatrixLayout_t& made_layout, cudaDataType_t type, const gpu::StoredMatrix& m) {
    check(cublasLtMatrixLayoutCreate(&made_layout, type, std::uint64_t(m.rows), std::uint64_t(m.columns), m.rows),
          "cublasLtMatrixLayoutCreate");
  };
  layout(made->a, types.inputs, p.a), layout(made->b, types.inputs, p.b), layout(made->c, output, p.c);

  cublasLtMatmulPreference_t created = nullptr;
  check(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
  const auto destroy = [](cublasLtMatmulPreference_t it) { cublasLtMatmulPreferenceDestroy(it); };
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, decltype(destroy)> preference(created,
                                                                                                         destroy);
  set(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes_);
  set(created, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignment[p.a.operand]);
  set(created, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignment[p.b.operand]);
  set(created, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignment[p.c.operand]);
  set(created, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignment[p.c.operand]);
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(library_, made->description, made->a, made->b, made->c,
                                                               made->c, created, 1, &best, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0 || best.state != CUBLAS_STATUS_SUCCESS)
    throw MachineError(fmt::format("cuBLASLt has no algorithm for {} {} x {} x {} in {}: {}", name(kernel.kind),
                                   kernel.dims[0], kernel.dims[1], kernel.dims[2], name(kernel.precision),
                                   cublasLtGetStatusString(status != CUBLAS_STATUS_SUCCESS ? status : best.state)));
  made->algorithm = best.algo;
  return made;
}

// One per stream: concurrent products of two streams must not share it.
void* Gemms::workspace_of(cudaStream_t stream) {
  void*& memory = workspaces_[stream];
  if (memory == nullptr) {
    const AnyCallAllowed while_recording;
    check(cudaMalloc(&memory, workspace_bytes_), "cudaMalloc of a workspace");
  }
  return memory;
}

const float* Gemms::one() {
  if (one_ == nullptr) {
    const AnyCallAllowed while_recording;
    constexpr float kOne = 1;
    check(cudaMalloc(reinterpret_cast<void**>(&one_), sizeof kOne), "cudaMalloc");
    check(cudaMemcpy(one_, &kOne, sizeof kOne, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  return one_;
}

}  // namespace rehearsal::cuda
