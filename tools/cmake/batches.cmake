# REHEARSAL_BATCHES: the files of a room are compiled sixteen at a time, as one file that includes them. What they share
# (headers, and what the compiler makes of templates) is compiled once and not sixteen times: half the time of the whole.
#
# So names in unnamed namespaces are a room's, not a file's. Plug-ins are compiled one by one: all of them say `order` or
# `path`. Presets without this option prove that every file compiles alone (dev, strict).
option(REHEARSAL_BATCHES "compile the files of a room in batches" OFF)

# APART: sources of the target that are compiled one by one.
function(batched TARGET APART)
  if(REHEARSAL_BATCHES)
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    set_source_files_properties(${APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
