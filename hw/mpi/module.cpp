// The entry point of librehearsal_mpi.so.
#include "modules/module.hpp"

#include "mpi/mpi_backend.hpp"

extern "C" [[gnu::visibility("default")]] int rehearsal_backend(const char* build_id, rehearsal::backend::Backend** out,
                                                                rehearsal::modules::ModuleError* error) {
  return rehearsal::modules::enter_module(build_id, rehearsal::mpi::make_mpi, out, error);
}
