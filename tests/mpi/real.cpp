// The same training by MPI ranks and by the threads of loopback: kernels, bytes and sums are real on both sides, and
// neither knows of the other.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "explore/perform.hpp"
#include "explore/rehearse.hpp"
#include "explore/verify.hpp"
#include "launch/launch.hpp"
#include "loopback/loopback.hpp"

namespace rehearsal {
namespace {

constexpr int kSteps = 3;

explore::Performed train(const std::string& file, backend::Backend& backend) {
  const auto what =
      explore::load_performable(PROJECT_ROOT "/scenarios/measure/" + file, {}, backend::Compute::real, backend.name());
  explore::PerformOptions options;
  options.compute = backend::Compute::real;
  options.times_matter = false;
  options.warmup = 0;
  options.iterations = kSteps;
  return explore::perform(what.scenario, explore::prepare(what.scenario), backend, options);
}

void check_same(const std::string& file) {
  CAPTURE(file);
  const auto processes = launch::open("mpi", {file});
  const auto threads = loopback::make_loopback();
  const explore::Performed ours = train(file, *processes), reference = train(file, *threads);
  REQUIRE(ours.trained.loss.size() == kSteps);
  REQUIRE(!ours.trained.tensors.empty());
  const auto same =
      explore::verify(ours.trained, reference.trained, explore::weight_tolerance(models::OptimizerKind::adamw));
  std::string failures;
  for (const std::string& failure : same.failures) failures += failure + "; ";
  CAPTURE(failures);
  CAPTURE(same.max_relative_difference);
  CHECK(same.ok);
  CHECK(ours.trained.loss.back() < ours.trained.loss.front());
  CHECK(ours.timeline.iterations.size() == kSteps);
  CHECK(ours.timeline.peak_bytes == reference.timeline.peak_bytes);
}

}  // namespace

TEST_CASE("a pipeline of matrix products, and a GPT cut all three ways, train as they do in one process") {
  check_same("mlp-gemm-pipeline-2-ranks.yaml");
  check_same("gpt-tiny-pp2-tp2-dp2-this-machine.yaml");
}

}  // namespace rehearsal

int main(int argc, char** argv) {
  using namespace rehearsal;
  setenv("REHEARSAL_MODULES", MODULE_FOLDER, 1);
  if (argc == 2 && launch::is_rank()) {
    try {
      train(argv[1], *launch::open("mpi", {}));
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 3;
    }
  }
  if (const auto why = launch::why_unavailable("mpi")) {
    std::printf("skipped: %s\n", why->c_str());
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
