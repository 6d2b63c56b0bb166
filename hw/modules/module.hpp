// Backends that need packages of their own (MPI, CUDA) are modules: shared objects beside the program, loaded when they
// are asked for, so that one binary starts everywhere. So is all that performs (sim/perform), so that a program that
// only predicts is built without it.
//
// A module has one entry, extern "C", which hands over an object made by the same compiler from the same headers: the
// build id says so, and another one is refused before anything else happens. The entry throws nothing. Modules stay
// loaded until the process ends (MPI cannot be started twice), so what they handed over may outlive anything.
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

// Of this copy of the room: equal where compiler, flags and the headers that cross the boundary are equal.
const char* build_id();

// `name`: "mpi". Looks for librehearsal_<name>.so in the folders of $REHEARSAL_MODULES (separated by colons), then
// beside the running program. Throws MachineError "backend mpi unavailable: ...", also for what this machine lacks.
std::unique_ptr<Backend> load_backend(const std::string& name);
std::unique_ptr<Backend> load_module(const std::string& name, const std::filesystem::path& file);

// What load_backend would throw, without "backend mpi unavailable: "; nothing when it would load.
std::optional<std::string> why_unavailable(const std::string& name);

// A module with another entry than that of a backend, found in the same folders: what `entry` hands over, which the
// caller owns. Throws MachineError with the bare reason.
void* open_module(const std::string& name, const char* entry);

// What a module's entry does: refuses another build, makes what it hands over, turns what is thrown into a message.
int enter_module(const char* host_build_id, std::unique_ptr<Backend> (*make)(), Backend** out,
                 ModuleError* error) noexcept;
int enter_module(const char* host_build_id, void* (*make)(), void** out, ModuleError* error) noexcept;

}  // namespace rehearsal::modules
