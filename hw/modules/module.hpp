// Backends that need packages of their own (MPI, CUDA) are modules: shared objects beside the program, loaded on
// demand, so that one binary starts everywhere. All code that performs (sim/perform) is a module too, so that a program
// that only predicts can be built without it.
//
// A module's entries, extern "C", return objects made by the same compiler from the same headers: the build id proves
// that, and a module with another one is refused first of all. An entry does not throw. Modules stay loaded until the
// process ends (MPI cannot be started twice), so their objects may live that long.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.hpp"

namespace rehearsal::modules {

using backend::Backend;

struct ModuleError {
  char message[512];
};
// Returns 0 and a backend that the caller owns, or another number and a message.
using ModuleEntry = int (*)(const char* build_id, Backend** out, ModuleError* error);
inline constexpr const char* kModuleEntry = "rehearsal_backend";

// Build id of this copy of the room: equal if compiler, flags and the headers across the boundary are equal.
const char* build_id();

// `name`: "mpi". Looks for librehearsal_<name>.so in the folders of $REHEARSAL_MODULES (separated by colons), then
// beside this library and the running program and, where those were installed, in lib/rehearsal. Throws MachineError
// "backend mpi unavailable: ...", also for what this machine lacks.
std::unique_ptr<Backend> load_backend(const std::string& name);
std::unique_ptr<Backend> load_module(const std::string& name, const std::filesystem::path& file);

// The error of load_backend without "backend mpi unavailable: "; nothing when it would load.
std::optional<std::string> why_unavailable(const std::string& name);

// Loads a module whose entry is not that of a backend, from the same folders: returns the object of `entry`, which the
// caller owns. Throws MachineError with the bare reason.
void* open_module(const std::string& name, const char* entry);

// Implements a module's entry: refuses another build, makes the object, and turns exceptions into a message.
int enter_module(const char* host_build_id, std::unique_ptr<Backend> (*make)(), Backend** out,
                 ModuleError* error) noexcept;
int enter_module(const char* host_build_id, void* (*make)(), void** out, ModuleError* error) noexcept;

}  // namespace rehearsal::modules
