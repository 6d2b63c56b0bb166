#include "gpu/gpu_backend.hpp"

#include "base/error.hpp"
#include "dispatch/zero_buffer.hpp"
#include "gpu/probe.hpp"
#include "gpu/sessions.hpp"
#include "graph/validate.hpp"
#include "launch/rank_environment.hpp"

namespace rehearsal::gpu {
namespace {

using backend::Capability;
using backend::Fidelity;

class GpuBackend : public backend::Backend, public Prober {
 public:
  explicit GpuBackend(Platform platform) : platform_(std::move(platform)) {}
  std::string name() const override { return platform_.name; }
  std::string summary() const override {
    return "Performs the graph on GPUs: a process for each with NCCL between them, or virtual stages that share one.";
  }
  std::vector<Capability> capabilities() const override {
    return {{"compute", Fidelity::exact, "real: fp32 and bf16 kernels for framework 'native', cuBLASLt for products"},
            {"compute", Fidelity::timed, "timed: keeps the stream busy for the predicted time"},
            {"message", Fidelity::exact, "a GPU per process: NCCL, a communicator for each directed channel"},
            {"message", Fidelity::emulated, "virtual stages: copies within the memory of the GPU"},
            {"collective", Fidelity::exact, "a GPU per process: NCCL"},
            {"collective", Fidelity::emulated, "virtual stages: rings of copies and additions"}};
  }
  std::optional<std::string> why_unavailable() const override {
    try {
      platform_.devices();
      return std::nullopt;
    } catch (const MachineError& why) {
      return why.what();
    }
  }
  std::size_t devices() const override { return platform_.devices(); }
  std::unique_ptr<backend::Session> prepare(const graph::TaskGraph& graph) override {
    graph::validate(graph);
    dispatch::check_zero_buffer(graph);
    if (launch::is_rank() || launch::in_job(name())) return one_of_many(graph, platform_);
    return virtual_stages(graph, platform_);
  }
  DeviceFacts gpu_facts() override { return platform_.open(0)->facts(); }
  Probe measure_gpu(const ProbeOptions& options) override { return measure(platform_, options); }
  std::optional<std::string> refuse_two_ranks(Time patience) override {
    return two_ranks_on_one_gpu(platform_, patience);
  }

 private:
  Platform platform_;
};

}  // namespace

std::unique_ptr<backend::Backend> make_backend(Platform platform) {
  return std::make_unique<GpuBackend>(std::move(platform));
}

}  // namespace rehearsal::gpu
