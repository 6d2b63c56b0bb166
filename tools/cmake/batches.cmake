# REHEARSAL_BATCHES: the files of a room are compiled sixteen at a time, as one file that includes them. What they share
# (headers, and what the compiler makes of templates) is compiled once and not sixteen times: half the time of the whole.
#
# So names in unnamed namespaces are a room's, not a file's; only plug-ins (shelf_batches.cmake) and tests
# (test_batches.cmake) have theirs for themselves. Presets without this option prove that every file compiles alone (dev,
# strict).
option(REHEARSAL_BATCHES "compile the files of a room in batches" OFF)
set(REHEARSAL_BATCH_SIZE 16)

# APART: sources of the target that are compiled one by one.
function(batched TARGET APART)
  if(REHEARSAL_BATCHES)
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${REHEARSAL_BATCH_SIZE})
    set_source_files_properties(${APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# Adds what a file includes to a list of lines. What lies beside it is named in full, since the batch lies elsewhere.
function(add_includes_of SOURCE TO)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SOURCE})
  get_filename_component(FOLDER ${SOURCE} DIRECTORY)
  file(STRINGS ${SOURCE} INCLUDES REGEX "^#include ")
  set(LINES ${${TO}})
  foreach(INCLUDE ${INCLUDES})
    string(REGEX REPLACE "^#include \"(.*)\".*" "\\1" BESIDE "${INCLUDE}")
    if(EXISTS ${FOLDER}/${BESIDE})
      set(INCLUDE "#include \"${FOLDER}/${BESIDE}\"")
    endif()
    list(APPEND LINES "${INCLUDE}")
  endforeach()
  set(${TO} "${LINES}" PARENT_SCOPE)
endfunction()

# A file that includes what several files include, and then each of them in a namespace of its own (BODIES).
function(write_batch FILE HEADERS BODIES)
  list(REMOVE_DUPLICATES HEADERS)
  list(JOIN HEADERS "\n" HEADERS)
  set(CONTENT "${HEADERS}\n\n${BODIES}")
  file(CONFIGURE OUTPUT ${FILE} CONTENT "@CONTENT@" @ONLY)  # an unchanged one is not compiled again
endfunction()
