# Packages of this machine: what the program needs, and what modules take where it is there.
if(REHEARSAL_PORTABLE)
  include(portable)
else()
  find_library(YAML_LIBRARY yaml REQUIRED)
  find_path(YAML_INCLUDE yaml.h REQUIRED)
  add_library(libyaml INTERFACE)  # Debian's package tells CMake nothing
  target_link_libraries(libyaml INTERFACE ${YAML_LIBRARY})
  target_include_directories(libyaml SYSTEM INTERFACE ${YAML_INCLUDE})
  find_package(fmt REQUIRED)
  find_package(SQLite3 REQUIRED)
endif()
find_package(Boost 1.74 REQUIRED COMPONENTS graph program_options)
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
add_library(tomlplusplus INTERFACE)  # header-only, as we use it: Debian's package names none for CMake
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
target_include_directories(tomlplusplus SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE})
add_library(rapidjson INTERFACE)  # header-only; what Debian's package tells CMake has no target in every version
find_path(RAPIDJSON_INCLUDE rapidjson/reader.h REQUIRED)
target_include_directories(rapidjson SYSTEM INTERFACE ${RAPIDJSON_INCLUDE})
set(MPI_CXX_SKIP_MPICXX ON)  # the C interface is all we use
find_package(MPI COMPONENTS CXX)

include(cuda)
include(uring)
