# REHEARSAL_PORTABLE: programs to be carried to another Linux machine, where no development packages are. libc, libm,
# libstdc++ and libgcc stay shared: an exception must find its handler across the boundary to a module, and those
# libraries are on every machine. The C library there must be as new as here. Packages in C become part of the program and
# of its modules. Debian's archive of a package in C++ (Boost) is for programs alone, a module cannot take it in: it stays
# shared, lies beside the program, and is looked for there first.
#
# Included instead of finding the packages whose CMake configurations know their shared libraries only.
set(Boost_USE_STATIC_LIBS ON)
set(ZLIB_USE_STATIC_LIBS ON)
set(CMAKE_BUILD_RPATH "$ORIGIN")
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN;$ORIGIN/..")  # of bin, lib and lib/rehearsal

function(static_package TARGET ARCHIVE HEADER)
  find_library(${TARGET}_ARCHIVE ${ARCHIVE} REQUIRED)
  find_path(${TARGET}_INCLUDE ${HEADER} REQUIRED)
  add_library(${TARGET} STATIC IMPORTED GLOBAL)
  set_target_properties(${TARGET} PROPERTIES IMPORTED_LOCATION ${${TARGET}_ARCHIVE}
                        INTERFACE_INCLUDE_DIRECTORIES ${${TARGET}_INCLUDE})
endfunction()

function(carried LIBRARY)
  find_library(${LIBRARY}_SHARED ${LIBRARY} REQUIRED)
  file(COPY ${${LIBRARY}_SHARED} DESTINATION ${CMAKE_BINARY_DIR} FOLLOW_SYMLINK_CHAIN)
  # Installed under the one name that programs ask for, and as a file: a wheel has no links.
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${${LIBRARY}_SHARED} OUTPUT_VARIABLE SAYS)
  string(REGEX MATCH "SONAME +([^\n]+)" LINE "${SAYS}")
  file(REAL_PATH ${${LIBRARY}_SHARED} REAL)
  install(FILES ${REAL} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME ${CMAKE_MATCH_1} COMPONENT library)
endfunction()
carried(boost_program_options)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
get_target_property(AS Boost::program_options IMPORTED_CONFIGURATIONS)
set_target_properties(Boost::program_options PROPERTIES IMPORTED_LOCATION_${AS} ${boost_program_options_SHARED})
static_package(SQLite::SQLite3 libsqlite3.a sqlite3.h)
static_package(libyaml libyaml.a yaml.h)

find_path(FMT_INCLUDE fmt/core.h REQUIRED)  # Debian has no libfmt.a
add_library(fmt::fmt INTERFACE IMPORTED GLOBAL)
set_target_properties(fmt::fmt PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${FMT_INCLUDE}
                      INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)

# Carried, so without symbols.
add_link_options(-s)
