# REHEARSAL_PORTABLE: programs to be carried to another Linux machine, where no development packages are. The packages
# become part of the program; libc, libm, libstdc++ and libgcc stay shared: an exception must find its handler across
# the boundary to a module, and those libraries are on every machine. The C library there must be as new as here.
#
# Included instead of finding the packages whose CMake configurations know their shared libraries only.
set(Boost_USE_STATIC_LIBS ON)
set(ZLIB_USE_STATIC_LIBS ON)

function(static_package TARGET ARCHIVE HEADER)
  find_library(${TARGET}_ARCHIVE ${ARCHIVE} REQUIRED)
  find_path(${TARGET}_INCLUDE ${HEADER} REQUIRED)
  add_library(${TARGET} STATIC IMPORTED GLOBAL)
  set_target_properties(${TARGET} PROPERTIES IMPORTED_LOCATION ${${TARGET}_ARCHIVE}
                        INTERFACE_INCLUDE_DIRECTORIES ${${TARGET}_INCLUDE})
endfunction()
static_package(yaml-cpp libyaml-cpp.a yaml-cpp/yaml.h)
static_package(SQLite::SQLite3 libsqlite3.a sqlite3.h)

find_path(FMT_INCLUDE fmt/core.h REQUIRED)  # Debian has no libfmt.a
add_library(fmt::fmt INTERFACE IMPORTED GLOBAL)
set_target_properties(fmt::fmt PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${FMT_INCLUDE}
                      INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)

# Carried, so without symbols.
add_link_options(-s)
