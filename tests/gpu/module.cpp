// librehearsal_cuda.so on a machine without a visible GPU: it loads, refuses another build, and the program reports
// what is missing and continues.
#define DOCTEST_CONFIG_IMPLEMENT
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "../program.hpp"
#include "base/error.hpp"
#include "modules/module.hpp"

namespace rehearsal {
namespace {

const std::filesystem::path kModule = MODULE_FOLDER "/librehearsal_cuda.so";
const std::string kMeasure = "measure scenarios/teaching-1f1b-8-stages.yaml --backend cuda 2>&1";

Output rehearse(const std::string& arguments, const std::string& environment = "") {
  return shell("cd '" PROJECT_ROOT "' && " + environment + " '" REHEARSE_BINARY "' " + arguments);
}

nlohmann::json cuda_in(const Output& list) {
  REQUIRE(list.status == 0);
  for (const auto& backend : nlohmann::json::parse(list.out))
    if (backend["name"] == "cuda") return backend;
  return {};
}

}  // namespace

TEST_CASE("the entry takes its own build only, and needs no GPU") {
  void* const module = dlopen(kModule.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  REQUIRE_MESSAGE(module, dlerror());
  const auto entry = reinterpret_cast<modules::ModuleEntry>(dlsym(module, modules::kModuleEntry));
  REQUIRE((entry != nullptr));

  backend::Backend* made = nullptr;
  modules::ModuleError error{};
  CHECK(entry("another build", &made, &error) != 0);
  CHECK(made == nullptr);
  CHECK(contains(error.message, "different builds"));

  REQUIRE(entry(modules::build_id(), &made, &error) == 0);
  const std::unique_ptr<backend::Backend> cuda(made);
  REQUIRE(cuda);
  CHECK(cuda->name() == "cuda");
  CHECK_FALSE(cuda->capabilities().empty());
  REQUIRE(cuda->why_unavailable());
  CHECK(contains(*cuda->why_unavailable(), "no CUDA device: "));
}

TEST_CASE("the loader hands over no backend that this machine cannot use") {
  std::string why;
  try {
    modules::load_module("cuda", kModule);
  } catch (const MachineError& error) {
    why = error.what();
  }
  CHECK(contains(why, "backend cuda unavailable: no CUDA device: "));
}

TEST_CASE("the program names what is missing and ends with 3") {
  const auto measured = rehearse(kMeasure);
  CHECK(measured.status == 3);
  CHECK_MESSAGE(contains(measured.out, "backend cuda unavailable: no CUDA device: "), measured.out);
  const auto listed = cuda_in(rehearse("list backends --format json"));
  CHECK(listed["available"] == false);
  CHECK(contains(listed["summary"], "Unavailable: no CUDA device: "));
}

TEST_CASE("a library of CUDA that does not load takes the backend away and nothing else") {
  // LD_LIBRARY_PATH comes before the module's own search path.
  const Scratch scratch;
  for (const char* library : {"libcudart.so.13", "libcublasLt.so.13", "libnccl.so.2"})
    std::ofstream(scratch.folder / library) << "no library";
  const std::string broken = "LD_LIBRARY_PATH='" + scratch.folder.string() + "'";
  const auto measured = rehearse(kMeasure, broken);
  CHECK(measured.status == 3);
  CHECK_MESSAGE(contains(measured.out, "backend cuda unavailable: " + scratch.folder.string()), measured.out);
  CHECK(cuda_in(rehearse("list backends --format json", broken))["available"] == false);
  CHECK(rehearse("run scenarios/teaching-1f1b-8-stages.yaml > /dev/null", broken).status == 0);
}

}  // namespace rehearsal

int main(int argc, char** argv) {
  if (!std::filesystem::exists(rehearsal::kModule)) {
    std::printf("skipped: %s was not built\n", rehearsal::kModule.c_str());
    return 77;
  }
  setenv("CUDA_VISIBLE_DEVICES", "", 1);  // also where there is a GPU
  return doctest::Context(argc, argv).run();
}
