// What the tools for a GPU machine report when the GPU, or something it needs, is missing: with only minutes of GPU
// time the user must learn at once which it is.
#include <doctest/doctest.h>

#include "../program.hpp"

namespace fs = std::filesystem;

namespace {

// The environment of a bare machine: only this PATH.
Output gpu_check(const fs::path& build, const Scratch& scratch, const std::string& path) {
  return shell("env -i PATH='" + path + "' python3 '" PROJECT_ROOT "/tools/gpu-check' --build '" + build.string() +
               "' --out '" + (scratch.folder / "out").string() + "' --rows verify 2>&1");
}

}  // namespace

TEST_CASE("gpu-check tells no GPU, a GPU that the program cannot use, and a program that is not there apart") {
  if (fs::exists("/dev/nvidia0")) return;  // it would start
  const Scratch scratch;
  const fs::path build = fs::path(REHEARSE_BINARY).parent_path();
  const auto none = gpu_check(build, scratch, "/usr/bin:/bin");
  CAPTURE(none.out);
  CHECK(none.status == 77);
  CHECK(contains(none.out, "skipped: no GPU: "));

  const auto unusable = gpu_check(build, scratch, PROJECT_ROOT "/tests/standin:/usr/bin:/bin");
  CAPTURE(unusable.out);
  CHECK(unusable.status == 1);
  CHECK(contains(unusable.out, "there is a GPU (Pretend GPU), and the program cannot use it: "));

  const auto missing = gpu_check(scratch.folder, scratch, "/usr/bin:/bin");
  CAPTURE(missing.out);
  CHECK(missing.status == 77);
  CHECK(contains(missing.out, "no program: build the preset"));
  CHECK_FALSE(fs::exists(scratch.folder / "out"));  // nothing was measured, so nothing is written
}

TEST_CASE("gpu-pack names what the build lacks, and gpu-measure that there is no PyTorch or no GPU") {
  const Scratch scratch;
  const auto pack = shell("python3 '" PROJECT_ROOT "/tools/gpu-pack' --build '" + scratch.folder.string() +
                          "' --out '" + (scratch.folder / "pack.tar.gz").string() + "' 2>&1");
  CAPTURE(pack.out);
  CHECK(pack.status == 2);
  CHECK(contains(pack.out, "has no rehearse, librehearsal_cuda.so"));
  if (fs::exists("/dev/nvidia0")) return;
  const auto measure = shell("python3 '" PROJECT_ROOT "/tools/gpu-measure' --out '" +
                             (scratch.folder / "table.csv").string() + "' 2>&1");
  CAPTURE(measure.out);
  CHECK(measure.status == 77);
  CHECK(contains(measure.out, "gpu-measure: no "));
}
