# batches_of_plugins(OUT ROOM SHELF FILES...): what to compile in place of these plug-ins. With REHEARSAL_BATCHES
# (batches.cmake) sixteen at a time are one file that includes what they include and then each of them in a namespace of its
# own within that of the room, since all of them say `order` or `path`. It holds namespaces of the same names, which show
# what the real ones have, and what registers a plug-in is called from where it is looked for. So nothing else of a plug-in
# is found by others: what they share stands beside the shelf.
function(batches_of_plugins OUT ROOM SHELF)
  set(PLUGINS ${ARGN})
  if(NOT REHEARSAL_BATCHES)
    set(${OUT} ${PLUGINS} PARENT_SCOPE)
    return()
  endif()
  set(ALL "")
  while(PLUGINS)
    list(SUBLIST PLUGINS 0 ${REHEARSAL_BATCH_SIZE} SOME)
    list(REMOVE_ITEM PLUGINS ${SOME})
    set(HEADERS "#include \"${ROOM}/registry.hpp\"")
    set(BODIES "")
    foreach(PLUGIN ${SOME})
      add_includes_of(${PLUGIN} HEADERS)
      get_filename_component(X ${PLUGIN} NAME_WE)
      string(APPEND BODIES "
namespace rehearsal::${ROOM}::only_${X} {
namespace rehearsal {
using namespace ::rehearsal;
namespace ${ROOM} { using namespace ::rehearsal::${ROOM}; }
}
#include \"${PLUGIN}\"
}
namespace rehearsal::${ROOM} {
void register_${X}(Registry& registry) { only_${X}::rehearsal::${ROOM}::register_${X}(registry); }
}
")
    endforeach()
    list(LENGTH ALL BATCH)
    set(FILE ${CMAKE_BINARY_DIR}/generated/${ROOM}_${SHELF}_${BATCH}.cpp)
    write_batch(${FILE} "${HEADERS}" "${BODIES}")
    list(APPEND ALL ${FILE})
  endwhile()
  set(${OUT} ${ALL} PARENT_SCOPE)
endfunction()
