#include "modules/module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>
#include <vector>

#include "base/error.hpp"
#include "base/own_folders.hpp"

namespace rehearsal::modules {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders() {
  std::vector<fs::path> all;
  if (const char* given = std::getenv("REHEARSAL_MODULES")) {
    std::istringstream list(given);
    for (std::string folder; std::getline(list, folder, ':');)
      if (!folder.empty()) all.emplace_back(folder);
  }
  for (auto& folder : own_folders()) {
    // Where it was installed: modules are of one build, so no folder of the system's libraries holds them.
    const fs::path installed[] = {folder / "rehearsal", folder.parent_path() / REHEARSAL_LIBDIR / "rehearsal"};
    all.push_back(std::move(folder));
    std::error_code unreadable;
    for (const auto& modules : installed)
      if (fs::is_directory(modules, unreadable)) all.push_back(modules);
  }
  return all;
}

// The result of a module's entry function. Throws MachineError with the bare reason.
template <class T>
T* enter(const fs::path& file, const char* symbol) {
  // RTLD_LOCAL: two modules may contain the same rooms and different packages. RTLD_NODELETE: see the header.
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (module == nullptr) throw MachineError(dlerror());
  const auto entry = reinterpret_cast<int (*)(const char*, T**, ModuleError*)>(dlsym(module, symbol));
  if (entry == nullptr) throw MachineError(fmt::format("{} is no module of this program", file.string()));
  T* made = nullptr;
  ModuleError error{};
  const int status = entry(build_id(), &made, &error);
  error.message[sizeof error.message - 1] = '\0';
  if (status != 0 || made == nullptr) throw MachineError(fmt::format("{}: {}", file.string(), error.message));
  return made;
}

std::unique_ptr<Backend> open(const fs::path& file) {
  std::unique_ptr<Backend> backend(enter<Backend>(file, kModuleEntry));
  if (const auto why = backend->why_unavailable()) throw MachineError(*why);
  return backend;
}

fs::path find(const std::string& name) {
  const std::string file = "librehearsal_" + name + ".so";
  std::string looked;
  for (const fs::path& folder : folders()) {
    std::error_code unreadable;
    if (fs::exists(folder / file, unreadable)) return folder / file;
    looked += (looked.empty() ? "" : ", ") + folder.string();
  }
  throw MachineError(fmt::format("{} was not built: it is not in {}", file, looked));
}

// The common format of refusals of a module.
[[noreturn]] void refuse(const std::string& name, const MachineError& why) {
  throw MachineError(fmt::format("backend {} unavailable: {}", name, why.what()));
}

void copy(const std::string& text, ModuleError* error) {
  const std::size_t length = std::min(text.size(), sizeof error->message - 1);
  std::memcpy(error->message, text.data(), length);
  error->message[length] = '\0';
}

template <class Make>
int hand_over(const char* host_build_id, const Make& make, ModuleError* error) noexcept {
  try {
    if (std::strcmp(host_build_id, build_id()) != 0) {
      copy("the module and the program are of different builds; build both again", error);
      return 1;
    }
    make();
    return 0;
  } catch (const std::exception& what) {
    try {
      copy(what.what(), error);
    } catch (...) {  // out of memory for the message
      error->message[0] = '\0';
    }
  } catch (...) {
    error->message[0] = '\0';
  }
  return 1;
}

}  // namespace

std::unique_ptr<Backend> load_backend(const std::string& name) {
  try {
    return open(find(name));
  } catch (const MachineError& why) {
    refuse(name, why);
  }
}

std::unique_ptr<Backend> load_module(const std::string& name, const fs::path& file) {
  try {
    return open(file);
  } catch (const MachineError& why) {
    refuse(name, why);
  }
}

std::optional<std::string> why_unavailable(const std::string& name) {
  try {
    open(find(name));
    return std::nullopt;
  } catch (const MachineError& why) {
    return why.what();
  }
}

void* open_module(const std::string& name, const char* entry) { return enter<void>(find(name), entry); }

int enter_module(const char* host_build_id, std::unique_ptr<Backend> (*make)(), Backend** out,
                 ModuleError* error) noexcept {
  return hand_over(
      host_build_id, [&] { *out = make().release(); }, error);
}

int enter_module(const char* host_build_id, void* (*make)(), void** out, ModuleError* error) noexcept {
  return hand_over(
      host_build_id, [&] { *out = make(); }, error);
}

}  // namespace rehearsal::modules
