# REHEARSAL_PCH: what nearly every file includes is compiled once, for all rooms of `sim` and `models` that use fmt (a
# third of a second less for each of their files), and for all tests (a second less).
#
# Every file still includes what it uses: presets without this option prove it (dev, strict). ccache has to be told that
# a precompiled header is no surprise.
option(REHEARSAL_PCH "compile common headers once" OFF)

if(REHEARSAL_PCH AND CCACHE)
  add_compile_options("$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>")
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

# precompiled(KIND TARGET): the first target of a kind makes it and all others reuse it, so they must be compiled with the
# same options. Rooms share one; tests, which include far more, another.
set(COMMON_HEADERS <fmt/format.h> <algorithm> <array> <cmath> <cstdint> <functional> <limits> <map> <memory> <numeric>
                   <optional> <ranges> <set> <span> <string> <string_view> <utility> <variant> <vector>)
set(rooms_HEADERS ${COMMON_HEADERS})
set(cold_HEADERS ${COMMON_HEADERS})
set(tests_HEADERS ${COMMON_HEADERS} <doctest/doctest.h> <nlohmann/json.hpp> <filesystem> <fstream> <random> <sstream>)

function(precompiled KIND TARGET)
  if(NOT REHEARSAL_PCH)
    return()
  endif()
  get_property(FIRST GLOBAL PROPERTY REHEARSAL_PCH_OF_${KIND})
  if(FIRST)
    target_precompile_headers(${TARGET} REUSE_FROM ${FIRST})
  else()
    set_property(GLOBAL PROPERTY REHEARSAL_PCH_OF_${KIND} ${TARGET})
    target_precompile_headers(${TARGET} PRIVATE ${${KIND}_HEADERS})
  endif()
endfunction()
