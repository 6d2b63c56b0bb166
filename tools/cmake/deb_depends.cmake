# Run by cpack: what each package needs, by dpkg-shlibdeps. Who only predicts needs no MPI: what the program and what
# performs need it depends on, what other modules need it suggests.
if(NOT CPACK_GENERATOR STREQUAL DEB)
  return()
endif()
# dpkg-shlibdeps wants a source package around it.
set(FOLDER ${CPACK_REHEARSAL_BUILD}/shlibdeps)
file(WRITE ${FOLDER}/debian/control "Source: rehearsal\n\nPackage: rehearsal\nArchitecture: any\n")

# shlibs(NAME WORDS...): NAME_Depends and NAME_Suggests.
function(shlibs NAME)
  execute_process(COMMAND dpkg-shlibdeps -O ${ARGN} WORKING_DIRECTORY ${FOLDER} OUTPUT_VARIABLE FOUND
                  ERROR_VARIABLE SAID RESULT_VARIABLE STATUS)
  if(STATUS)
    message(FATAL_ERROR "dpkg-shlibdeps: ${SAID}")
  endif()
  foreach(FIELD Depends Suggests)
    string(REGEX MATCH "shlibs:${FIELD}=([^\n]*)" LINE "${FOUND}")
    set(${NAME}_${FIELD} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  endforeach()
endfunction()

list(TRANSFORM CPACK_REHEARSAL_PROGRAM PREPEND ${CPACK_REHEARSAL_BUILD}/)
list(TRANSFORM CPACK_REHEARSAL_MODULES PREPEND ${CPACK_REHEARSAL_BUILD}/)
shlibs(program -dDepends ${CPACK_REHEARSAL_PROGRAM} -dSuggests ${CPACK_REHEARSAL_MODULES})
shlibs(library -dDepends ${CPACK_REHEARSAL_BUILD}/librehearsal.so.0)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "${program_Depends}")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "${CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS}, ${library_Depends}")
list(PREPEND CPACK_REHEARSAL_SUGGESTS ${program_Suggests})
list(JOIN CPACK_REHEARSAL_SUGGESTS ", " CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS)
