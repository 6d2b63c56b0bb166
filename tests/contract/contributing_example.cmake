# The code blocks of CONTRIBUTING.md that begin with "// FOLDER/X.cpp", for the folders of plug-ins, become sources of
# TARGET. Their register_X are renamed to register_contributing_example and, of an optimizer, register_example_optimizer:
# the reader who follows the page puts the same file into the house, and both are linked.
function(contributing_block TARGET FOLDER AS)
  set(PAGE ${CMAKE_SOURCE_DIR}/CONTRIBUTING.md)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PAGE})
  file(READ ${PAGE} TEXT)
  string(FIND "${TEXT}" "```cpp\n// ${FOLDER}/" BEGIN)
  if(BEGIN EQUAL -1)
    message(FATAL_ERROR "CONTRIBUTING.md has no code block that begins with // ${FOLDER}/X.cpp")
  endif()
  math(EXPR BEGIN "${BEGIN} + 7")  # after the fence and its newline
  string(SUBSTRING "${TEXT}" ${BEGIN} -1 CODE)
  string(FIND "${CODE}" "\n```" END)
  string(SUBSTRING "${CODE}" 0 ${END} CODE)
  string(REGEX MATCH "${FOLDER}/([a-z0-9_]+)\\.cpp" FOUND "${CODE}")
  set(NAME ${CMAKE_MATCH_1})

  set(FILE ${CMAKE_BINARY_DIR}/generated/contributing_example/${NAME}.cpp)
  set(OLD "")
  if(EXISTS ${FILE})
    file(READ ${FILE} OLD)
  endif()
  if(NOT "${OLD}" STREQUAL "${CODE}\n")  # an unchanged block is not compiled again
    file(WRITE ${FILE} "${CODE}\n")
  endif()
  target_sources(${TARGET} PRIVATE ${FILE})
  set_source_files_properties(${FILE} PROPERTIES COMPILE_DEFINITIONS register_${NAME}=${AS})
endfunction()

# The block that begins with "// in sim/report/" becomes figure_example.inc, which the test includes.
function(contributing_figure TARGET)
  file(READ ${CMAKE_SOURCE_DIR}/CONTRIBUTING.md TEXT)
  if(NOT TEXT MATCHES "```cpp\n// in sim/report/[^\n]*\n([^`]*)```")
    message(FATAL_ERROR "CONTRIBUTING.md has no code block that begins with // in sim/report/")
  endif()
  set(CODE "${CMAKE_MATCH_1}")
  set(FOLDER ${CMAKE_BINARY_DIR}/generated/contributing_example)
  file(CONFIGURE OUTPUT ${FOLDER}/figure_example.inc CONTENT "@CODE@" @ONLY)
  target_include_directories(${TARGET} PRIVATE ${FOLDER})
endfunction()

function(contributing_example TARGET)
  contributing_figure(${TARGET})
  contributing_block(${TARGET} sim/schedule/all register_contributing_example)
  contributing_block(${TARGET} models/optimizers register_example_optimizer)
endfunction()
