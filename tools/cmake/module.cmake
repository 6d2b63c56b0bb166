# module(DIR [USES room...] [WITH package...])
#
# A backend, or all that performs, as a shared object librehearsal_<name>.so beside the program, loaded at run time (hw/modules/module.hpp).
# It holds its own copy of the rooms it uses and shows its entries alone, so that modules and program do not
# mix. The rooms it uses are compiled as position-independent code.
function(module DIR)
  cmake_parse_arguments(M "" "" "USES;WITH" ${ARGN})
  get_filename_component(NAME ${DIR} NAME)
  set(SRC ${CMAKE_SOURCE_DIR}/${DIR})
  file(GLOB SOURCES CONFIGURE_DEPENDS ${SRC}/*.cpp ${SRC}/*.cu)
  set(INC ${CMAKE_BINARY_DIR}/include/${NAME})
  file(MAKE_DIRECTORY ${INC})
  file(CREATE_LINK ${SRC} ${INC}/${NAME} SYMBOLIC)

  # What its sources see: nothing can be linked with a module itself.
  add_library(${NAME}_sees INTERFACE)
  target_include_directories(${NAME}_sees INTERFACE ${INC})
  target_link_libraries(${NAME}_sees INTERFACE ${M_USES} ${M_WITH})
  add_library(${NAME} MODULE ${SOURCES})
  target_link_libraries(${NAME} PRIVATE ${NAME}_sees)
  target_link_options(${NAME} PRIVATE LINKER:--exclude-libs,ALL LINKER:-z,defs LINKER:--as-needed)
  set_target_properties(${NAME} PROPERTIES OUTPUT_NAME rehearsal_${NAME} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
                        CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  add_dependencies(all_modules ${NAME})
  foreach(ROOM ${M_USES})
    position_independent(${ROOM})
  endforeach()
  if(REHEARSAL_STRICT)
    room_headers_alone(${NAME} ${SRC} ${NAME}_sees)
  endif()
endfunction()

# A room and all rooms below it. Nobody replaces their functions at load time, so calls inside them stay direct.
function(position_independent ROOM)
  get_target_property(TYPE ${ROOM} TYPE)
  if(TYPE STREQUAL STATIC_LIBRARY)
    set_target_properties(${ROOM} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_options(${ROOM} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>)
  endif()
  get_target_property(BELOW ${ROOM} INTERFACE_LINK_LIBRARIES)
  foreach(OTHER ${BELOW})
    if(TARGET ${OTHER} AND NOT OTHER MATCHES "::")
      position_independent(${OTHER})
    endif()
  endforeach()
endfunction()

# The build id of hw/modules/module.hpp: a digest of compiler, flags and every header whose types cross the boundary.
function(module_build_id ROOM)
  if(NOT TARGET ${ROOM})
    return()  # left out
  endif()
  foreach(DIR ${ARGN})
    file(GLOB SOME CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${DIR}/*.hpp)
    list(APPEND HEADERS ${SOME})
  endforeach()
  list(SORT HEADERS)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" TYPE)
  set(SALT "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${TYPE}}")
  set(OUT ${CMAKE_BINARY_DIR}/generated/${ROOM}_build_id.cpp)
  add_custom_command(OUTPUT ${OUT} DEPENDS ${HEADERS} ${CMAKE_SOURCE_DIR}/tools/cmake/build_id.cmake
                     COMMAND ${CMAKE_COMMAND} "-DOUT=${OUT}" "-DSALT=${SALT}" "-DHEADERS=${HEADERS}"
                             -P ${CMAKE_SOURCE_DIR}/tools/cmake/build_id.cmake
                     VERBATIM)
  target_sources(${ROOM} PRIVATE ${OUT})
endfunction()
