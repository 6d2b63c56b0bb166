// What fits where: model states by ZeRO stage, and the largest model by the tier of its states.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

// The largest model in billions of parameters: layers are added until the step no longer fits on GPU, host and disks
// (to within a thirty-second).
double largest(const Sets& sets) {
  const auto fits = [&](std::int64_t layers) {
    return predicted_file("gpt-10b-offload-1xv100.yaml", with(sets, {fmt::format("model.layers={}", layers)}))
               .summary.fits == true;
  };
  std::int64_t low = 1, high = 2;
  while (high < 20'000 && fits(high)) low = high, high *= 2;
  while (high - low > 1 + low / 32) (fits((low + high) / 2) ? low : high) = (low + high) / 2;
  const auto model = predicted_file("gpt-10b-offload-1xv100.yaml", with(sets, {fmt::format("model.layers={}", low)}));
  return models::parameters(model.lowered->scenario.concrete->model) * 1e-9;
}

}  // namespace

TEST_CASE("model states of 7.5 B parameters on 64 GPUs: 120, 31.4, 16.6 and 1.9 GB") {
  const double published[] = {120, 31.4, 16.6, 1.88};
  for (int zero = 0; zero <= 3; ++zero) {
    const auto p = predicted_file("gpt-7.5b-zero-64xv100.yaml",
                                  {fmt::format("parallelism.zero={}", zero), "framework.flat_gradient_bytes=0"});
    using graph::MemoryCategory;
    double states = 0;
    for (const auto& buffer : p.graph().programs().front().resident())
      if (buffer.category <= MemoryCategory::optimizer) states += double(buffer.size.count());
    const double psi = models::parameters(p.lowered->scenario.concrete->model);
    CHECK(states * 7.5e9 / psi * 1e-9 == doctest::Approx(published[zero]).epsilon(.005));
  }
}

TEST_CASE("the farther states go, the larger the model that fits") {
  const Sets one{"batch={global: 1, micro: 1}"};
  const auto of = [&](const char* states) { return largest(with(one, {std::string("training.offload=") + states})); };
  std::map<std::string, double> billions;
  for (const char* states :
       {"{}", "{optimizer: host}", "{optimizer: host, gradients: host}",
        "{optimizer: host, gradients: host, activations: host}", "{optimizer: host, gradients: host, parameters: host}",
        "{optimizer: nvme, gradients: host, parameters: host}",
        "{optimizer: nvme, gradients: nvme, parameters: nvme}"}) {
    billions[states] = of(states);
    MESSAGE(fmt::format("{:<62} {:8.1f} B", states, billions[states]));
  }
  const auto b = [&](const char* states) { return billions.at(states); };
  CHECK(b("{}") < b("{optimizer: host}"));
  CHECK(b("{optimizer: host}") < b("{optimizer: host, gradients: host}"));
  CHECK(b("{optimizer: host, gradients: host}") < b("{optimizer: host, gradients: host, activations: host}"));
  CHECK(b("{optimizer: host, gradients: host}") < b("{optimizer: host, gradients: host, parameters: host}"));
  CHECK(b("{optimizer: host, gradients: host, parameters: host}") <
        b("{optimizer: nvme, gradients: host, parameters: host}"));
  CHECK(b("{optimizer: nvme, gradients: host, parameters: host}") <
        b("{optimizer: nvme, gradients: nvme, parameters: nvme}"));
  // The device holds everything: 16 bytes per parameter, of 32 GB.
  CHECK(b("{}") * 16 < 34.1);
}
