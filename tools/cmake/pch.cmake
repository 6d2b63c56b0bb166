# REHEARSAL_PCH: what nearly every file includes is compiled once, for all rooms of `sim` and `models` that use fmt; a
# third of a second less for each of their files.
#
# Every file still includes what it uses: presets without this option prove it (dev, strict). ccache has to be told that
# a precompiled header is no surprise.
option(REHEARSAL_PCH "compile common headers once" OFF)

if(REHEARSAL_PCH AND CCACHE)
  add_compile_options("$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>")
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

# The first room makes it and all others reuse it, so they must be compiled with the same options.
function(precompiled ROOM)
  if(NOT REHEARSAL_PCH)
    return()
  endif()
  get_property(FIRST GLOBAL PROPERTY REHEARSAL_PCH_OF)
  if(FIRST)
    target_precompile_headers(${ROOM} REUSE_FROM ${FIRST})
  else()
    set_property(GLOBAL PROPERTY REHEARSAL_PCH_OF ${ROOM})
    target_precompile_headers(${ROOM} PRIVATE <fmt/format.h> <algorithm> <array> <cmath> <cstdint> <functional> <limits>
                              <map> <memory> <numeric> <optional> <ranges> <set> <span> <string> <string_view> <utility>
                              <variant> <vector>)
  endif()
endfunction()
