# embed(TARGET HEADER NAME FILE [NAME FILE]...): texts that a library carries, so that a program finds them wherever it
# is. HEADER (in the library's include folder) declares `extern const std::string_view NAME` for each, in the namespace
# of the room.
function(embed TARGET HEADER)
  set(TEXT "// Generated from files of ${TARGET}.\n#include \"${HEADER}\"\nnamespace rehearsal::${TARGET} {\n")
  while(ARGN)
    list(POP_FRONT ARGN NAME FILE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${FILE})
    file(READ ${FILE} CONTENT)
    string(APPEND TEXT "const std::string_view ${NAME} = R\"embedded(${CONTENT})embedded\";\n")
  endwhile()
  string(APPEND TEXT "}  // namespace rehearsal::${TARGET}\n")
  set(OUT ${CMAKE_BINARY_DIR}/generated/${TARGET}_embedded.cpp)
  file(CONFIGURE OUTPUT ${OUT} CONTENT "${TEXT}" @ONLY)
  target_sources(${TARGET} PRIVATE ${OUT})
endfunction()
