# The code block of CONTRIBUTING.md that begins with "// sim/schedule/all/X.cpp" becomes a source of TARGET. Its
# register_X is renamed: the reader who follows the page puts the same file into the house, and both are linked.
function(contributing_example TARGET)
  set(PAGE ${CMAKE_SOURCE_DIR}/CONTRIBUTING.md)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PAGE})
  file(READ ${PAGE} TEXT)
  string(FIND "${TEXT}" "```cpp\n// sim/schedule/all/" BEGIN)
  if(BEGIN EQUAL -1)
    message(FATAL_ERROR "CONTRIBUTING.md has no code block that begins with // sim/schedule/all/X.cpp")
  endif()
  math(EXPR BEGIN "${BEGIN} + 7")  # after the fence and its newline
  string(SUBSTRING "${TEXT}" ${BEGIN} -1 CODE)
  string(FIND "${CODE}" "\n```" END)
  string(SUBSTRING "${CODE}" 0 ${END} CODE)
  string(REGEX MATCH "sim/schedule/all/([a-z0-9_]+)\\.cpp" FOUND "${CODE}")
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
  set_source_files_properties(${FILE} PROPERTIES COMPILE_DEFINITIONS register_${NAME}=register_contributing_example)
endfunction()
