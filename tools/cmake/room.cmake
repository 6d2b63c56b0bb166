# REHEARSAL_COLD: how a release compiles what runs once for an answer, beyond its own flags.
set(REHEARSAL_COLD "")
if(CMAKE_BUILD_TYPE STREQUAL Release)
  set(REHEARSAL_COLD -O1)
  if(EMSCRIPTEN)
    set(REHEARSAL_COLD -Os)
  endif()
endif()

# room(DIR [USES room...] [WITH package...] [APART file...] [COLD])
#
# One room of the house = one static library named after its folder. Each room gets an include folder of its own that
# holds one symbolic link to its sources, and passes it on to the rooms that use it: an include of a room that is not
# in USES (or below one that is) does not compile. A folder below holds more of a room's sources, such as `search/`; but
# `all/`, `topology/`, `planners/` and `optimizers/` hold plug-ins: every file X.cpp there defines register_X(Registry&),
# and a generated file calls them in sorted order (no static initialisers, which a linker drops). APART: files that share
# names with others of the room, so that they are not compiled in one batch with them (batches.cmake). COLD: runs once
# for an answer, so a release compiles it with -O1, which takes a third less time, and a page, which travels, with -Os.
#
# REHEARSAL_LEFT_OUT: rooms and files that this build does without (browser.cmake).
function(room DIR)
  if(DIR IN_LIST REHEARSAL_LEFT_OUT)
    return()
  endif()
  cmake_parse_arguments(R "COLD" "" "USES;WITH;APART" ${ARGN})
  foreach(OUT ${REHEARSAL_LEFT_OUT})
    get_filename_component(OUT ${OUT} NAME)
    list(REMOVE_ITEM R_USES ${OUT})
  endforeach()
  get_filename_component(NAME ${DIR} NAME)
  set(SRC ${CMAKE_SOURCE_DIR}/${DIR})
  set(SHELVES all topology planners optimizers)
  file(GLOB SOURCES CONFIGURE_DEPENDS ${SRC}/*.cpp ${SRC}/*/*.cpp)
  foreach(SHELF ${SHELVES})
    list(FILTER SOURCES EXCLUDE REGEX "/${SHELF}/[^/]*$")
  endforeach()
  list(FILTER SOURCES EXCLUDE REGEX "/main\\.cpp$")
  if(REHEARSAL_LEFT_OUT)
    list(TRANSFORM REHEARSAL_LEFT_OUT PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE OUT)
    list(REMOVE_ITEM SOURCES ${OUT})
  endif()
  list(TRANSFORM R_APART PREPEND ${SRC}/)
  foreach(SHELF ${SHELVES})
    if(IS_DIRECTORY ${SRC}/${SHELF})
      file(GLOB PLUGINS CONFIGURE_DEPENDS ${SRC}/${SHELF}/*.cpp)
      list(SORT PLUGINS)
      room_registration(${NAME} ${SHELF} "${PLUGINS}" GENERATED)
      batches_of_plugins(PLUGINS ${NAME} ${SHELF} ${PLUGINS})
      list(APPEND SOURCES ${PLUGINS} ${GENERATED})
      list(APPEND R_APART ${PLUGINS})
    endif()
  endforeach()

  set(INC ${CMAKE_BINARY_DIR}/include/${NAME})
  file(MAKE_DIRECTORY ${INC})
  file(CREATE_LINK ${SRC} ${INC}/${NAME} SYMBOLIC)

  if(SOURCES)
    add_library(${NAME} STATIC ${SOURCES})
    target_include_directories(${NAME} PUBLIC ${INC})
    target_link_libraries(${NAME} PUBLIC ${R_USES} PRIVATE ${R_WITH})
    batched(${NAME} "${R_APART}")
    set(KIND rooms)
    if(R_COLD AND REHEARSAL_COLD)
      target_compile_options(${NAME} PRIVATE ${REHEARSAL_COLD})
      set(KIND cold)
    endif()
    if(fmt::fmt IN_LIST R_WITH AND NOT DIR MATCHES "^hw/")
      precompiled(${KIND} ${NAME})
    endif()
  else()
    add_library(${NAME} INTERFACE)
    target_include_directories(${NAME} INTERFACE ${INC})
    target_link_libraries(${NAME} INTERFACE ${R_USES})
  endif()
  if(REHEARSAL_STRICT)
    room_headers_alone(${NAME} ${SRC} ${NAME})
  endif()
endfunction()

# Writes the file that registers every plug-in of a shelf; the room declares `void register_all(Registry&)`-like
# functions by including its own header "<room>/registry.hpp".
function(room_registration NAME SHELF PLUGINS OUT)
  set(DECLS "")
  set(CALLS "")
  foreach(P ${PLUGINS})
    get_filename_component(X ${P} NAME_WE)
    string(APPEND DECLS "void register_${X}(Registry& registry);\n")
    string(APPEND CALLS "  register_${X}(registry);\n")
  endforeach()
  set(FILE ${CMAKE_BINARY_DIR}/generated/${NAME}_${SHELF}.cpp)
  file(GENERATE OUTPUT ${FILE} CONTENT
"// Generated from the file names of ${NAME}/${SHELF}.
#include \"${NAME}/registry.hpp\"
namespace rehearsal::${NAME} {
${DECLS}
void register_${SHELF}(Registry& registry) {
${CALLS}}
}  // namespace rehearsal::${NAME}
")
  set(${OUT} ${FILE} PARENT_SCOPE)
endfunction()

# Every header must compile alone, with what SEES shows it (strict preset).
function(room_headers_alone NAME SRC SEES)
  file(GLOB HEADERS RELATIVE ${SRC} CONFIGURE_DEPENDS ${SRC}/*.hpp ${SRC}/*/*.hpp)
  set(TUS "")
  foreach(H ${HEADERS})
    string(REGEX REPLACE "[/.]" "_" X ${H})
    set(TU ${CMAKE_BINARY_DIR}/generated/alone_${NAME}_${X}.cpp)
    file(GENERATE OUTPUT ${TU} CONTENT "#include \"${NAME}/${H}\"\n#include \"${NAME}/${H}\"\n")
    list(APPEND TUS ${TU})
  endforeach()
  if(TUS)
    add_library(alone_${NAME} OBJECT ${TUS})
    target_link_libraries(alone_${NAME} PRIVATE ${SEES})
  endif()
endfunction()
