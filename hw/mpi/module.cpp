// The entries of librehearsal_mpi.so: the backend, and how ranks of other backends tell each other what they must.
#include "modules/module.hpp"

#include "mpi/environment.hpp"
#include "mpi/mpi_backend.hpp"

extern "C" [[gnu::visibility("default")]] int rehearsal_backend(const char* build_id, rehearsal::backend::Backend** out,
                                                                rehearsal::modules::ModuleError* error) {
  return rehearsal::modules::enter_module(build_id, rehearsal::mpi::make_mpi, out, error);
}

extern "C" [[gnu::visibility("default")]] int rehearsal_bootstrap(const char* build_id, void** out,
                                                                  rehearsal::modules::ModuleError* error) {
  const auto make = []() -> void* { return rehearsal::mpi::open_bootstrap().release(); };
  return rehearsal::modules::enter_module(build_id, make, out, error);
}
