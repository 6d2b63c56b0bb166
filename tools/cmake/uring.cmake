# liburing (Debian: liburing-dev), for the files of hw/tiers; without it they are read and written by pread and pwrite. It is
# 19 kB and linked statically where it can be: a module that is carried to another machine asks for nothing there.
find_path(URING_INCLUDE liburing.h)
find_library(URING_LIBRARY NAMES liburing.a uring)
mark_as_advanced(URING_INCLUDE URING_LIBRARY)
add_library(uring INTERFACE)
if(URING_INCLUDE AND URING_LIBRARY)
  target_include_directories(uring SYSTEM INTERFACE ${URING_INCLUDE})
  target_link_libraries(uring INTERFACE ${URING_LIBRARY})
  target_compile_definitions(uring INTERFACE REHEARSAL_URING)
else()
  message(STATUS "Without liburing (liburing-dev): files of the tier nvme are read and written by pread and pwrite")
endif()
