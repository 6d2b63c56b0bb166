# librehearsal.so.0, the library of include/rehearsal.h: all rooms, with the functions of that header alone to be seen.
# The rooms are position-independent already, for what performs (module.cmake).
position_independent(library)
add_library(rehearsal SHARED $<TARGET_OBJECTS:library>)
target_link_libraries(rehearsal PRIVATE cli)
target_link_options(rehearsal PRIVATE LINKER:-z,defs LINKER:--as-needed
                    LINKER:--version-script,${CMAKE_SOURCE_DIR}/tools/cmake/rehearsal.map)
set_target_properties(rehearsal PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 LINKER_LANGUAGE CXX
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} PUBLIC_HEADER ${CMAKE_SOURCE_DIR}/include/rehearsal.h)
