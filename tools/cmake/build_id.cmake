# Run while building: writes OUT, a source file with the digest of SALT and HEADERS.
set(ALL "${SALT}")
foreach(HEADER ${HEADERS})
  file(SHA256 ${HEADER} DIGEST)
  get_filename_component(NAME ${HEADER} NAME)
  string(APPEND ALL "\n${NAME} ${DIGEST}")
endforeach()
string(SHA256 ID "${ALL}")
file(WRITE ${OUT} "// Generated: see tools/cmake/module.cmake.
#include \"modules/module.hpp\"
namespace rehearsal::modules {
const char* build_id() { return \"${ID}\"; }
}  // namespace rehearsal::modules
")
