# The preset `web`: the program as WebAssembly for a page (web/). Emscripten's own folders are all that its compiler looks
# into, so packages are headers of this machine that are linked into a folder of ours, and sources of Debian that tools/web
# fetches into build/web/packages. What a browser has not is left out here and nowhere else.
#
# Included instead of finding packages.

# Rooms and files that need more than a page has: SQLite and processes that share a file, shared objects, threads that
# perform. web/core says in their place what is missing. Rooms of hw/ stay on the list of rooms, and nothing builds them.
set(REHEARSAL_LEFT_OUT
  sim/store sim/traces hw/modules
  sim/report/trace_answer.cpp sim/report/trace_page.cpp sim/report/trace_report.cpp sim/cli/validate_traces.cpp
  sim/explore/sweep.cpp sim/explore/perform.cpp sim/explore/verify.cpp
  sim/published/against.cpp sim/published/mapping.cpp sim/published/page.cpp sim/published/row_scenario.cpp
  sim/published/run.cpp
  sim/cli/compare_store.cpp sim/cli/stored_rows.cpp sim/cli/performer.cpp sim/cli/performing.cpp
  sim/cli/launched.cpp sim/cli/logged.cpp sim/cli/calibrate_from.cpp sim/cli/validate_against.cpp
  sim/cli/validate_log.cpp sim/cli/cmd_sweep.cpp sim/cli/cmd_calibrate.cpp sim/cli/cmd_measure.cpp
  sim/cli/cmd_validate.cpp sim/cli/cmd_hosts.cpp sim/cli/cmd_completion.cpp sim/cli/completion_scripts.cpp)

enable_language(C)  # of zlib
set(SHIM ${CMAKE_SOURCE_DIR}/web/shim)
set(PACKAGES ${CMAKE_BINARY_DIR}/packages CACHE PATH "sources of packages")
add_compile_options(-fwasm-exceptions "$<$<COMPILE_LANGUAGE:CXX>:-I${SHIM};SHELL:-include ${SHIM}/prelude.hpp>")
add_link_options(-fwasm-exceptions)

# Header-only as far as they are used here.
set(HEADERS ${CMAKE_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${HEADERS})
foreach(FOLDER boost nlohmann toml++)
  if(NOT IS_DIRECTORY /usr/include/${FOLDER})
    message(FATAL_ERROR "/usr/include/${FOLDER} is missing; tools/web installs it")
  endif()
  file(CREATE_LINK /usr/include/${FOLDER} ${HEADERS}/${FOLDER} SYMBOLIC)
endforeach()
foreach(PACKAGE Boost::graph Boost::headers nlohmann_json::nlohmann_json tomlplusplus Threads::Threads)
  add_library(${PACKAGE} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${PACKAGE} SYSTEM INTERFACE ${HEADERS})
endforeach()

# compiled(TARGET PATTERN INCLUDE [flags...]): a package from its sources, whose warnings are its own.
function(compiled TARGET PATTERN INCLUDE)
  file(GLOB SOURCES ${PACKAGES}/${PATTERN})
  if(NOT SOURCES)
    message(FATAL_ERROR "no ${PACKAGES}/${PATTERN}; tools/web fetches the sources of packages")
  endif()
  string(MAKE_C_IDENTIFIER ${TARGET} NAME)
  add_library(${NAME} STATIC ${SOURCES})
  target_include_directories(${NAME} SYSTEM PUBLIC ${INCLUDE})
  target_compile_options(${NAME} PRIVATE -w ${ARGN})
  if(NOT TARGET ${TARGET})
    add_library(${TARGET} ALIAS ${NAME})
  endif()
endfunction()
compiled(fmt::fmt fmtlib/src/format.cc ${PACKAGES}/fmtlib/include)
compiled(libyaml libyaml/src/*.c ${PACKAGES}/libyaml/include -DYAML_VERSION_MAJOR=0 -DYAML_VERSION_MINOR=2
         -DYAML_VERSION_PATCH=5 -DYAML_VERSION_STRING="0.2.5" -DYAML_DECLARE_STATIC)
compiled(Boost::program_options boost/libs/program_options/src/*.cpp ${HEADERS})
compiled(ZLIB::ZLIB zlib/*.c ${PACKAGES}/zlib -DHAVE_UNISTD_H)
