# Debian packages: `cpack` in a build folder. Four, since a shared library has a package that is named after its version
# (Debian policy, 8.1): rehearsal (program, modules, data), librehearsal0, librehearsal-dev and python3-rehearsal. The
# library needs the data and so the package rehearsal; the program needs no library of ours.
set(REHEARSAL_MAINTAINER "Rehearsal developers <rehearsal@example.org>" CACHE STRING "of Debian packages")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME rehearsal)
set(CPACK_PACKAGE_VENDOR Rehearsal)
set(CPACK_PACKAGE_CONTACT "${REHEARSAL_MAINTAINER}")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program library dev python)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

set(CPACK_THREADS 0)

set(ABOUT "Rehearsal predicts how long a training step of a language model takes on a GPU
cluster, and whether it fits in memory: from a model, a cluster and a parallel
layout it derives iteration time, throughput, memory of every rank, traffic and
a timeline.
.")
function(package COMPONENT NAME SECTION SHORT LONG)
  string(TOUPPER ${COMPONENT} UPPER)
  set(CPACK_DEBIAN_${UPPER}_PACKAGE_NAME ${NAME} PARENT_SCOPE)
  set(CPACK_DEBIAN_${UPPER}_PACKAGE_SECTION ${SECTION} PARENT_SCOPE)
  set(CPACK_DEBIAN_${UPPER}_DESCRIPTION "${SHORT}\n${ABOUT}\n${LONG}" PARENT_SCOPE)
  install(FILES ${CMAKE_SOURCE_DIR}/tools/deb/copyright ${CMAKE_BINARY_DIR}/changelog.gz DESTINATION share/doc/${NAME}
          COMPONENT ${COMPONENT} EXCLUDE_FROM_ALL)
endfunction()
package(program rehearsal science "training runs of language models, predicted"
        "This package has the program, its models, clusters and example scenarios.")
package(library librehearsal0 libs "training runs of language models, predicted - library"
        "This package has the shared library.")
package(dev librehearsal-dev libdevel "training runs of language models, predicted - development"
        "This package has the C header, and files for CMake and pkg-config.")
package(python python3-rehearsal python "training runs of language models, predicted - Python"
        "This package has the module of Python 3.")

# pkg-config of another architecture looks into that architecture's folder alone.
set(ABOVE ../../..)
configure_file(tools/cmake/rehearsal.pc.in deb/rehearsal.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/deb/rehearsal.pc DESTINATION lib/${CMAKE_LIBRARY_ARCHITECTURE}/pkgconfig COMPONENT dev
        EXCLUDE_FROM_ALL)

set(OURS "(= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "rehearsal ${OURS}")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "librehearsal0 ${OURS}")
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3:any (>= 3.9), librehearsal0 ${OURS}")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-numpy, python3-pandas")
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/tools/deb/shlibs ${CMAKE_SOURCE_DIR}/tools/deb/triggers)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/tools/deb/postinst ${CMAKE_SOURCE_DIR}/tools/deb/prerm)

# What needs which packages: found by dpkg-shlibdeps when packages are made (deb_depends.cmake).
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/tools/cmake/deb_depends.cmake)
set(CPACK_REHEARSAL_BUILD ${CMAKE_BINARY_DIR})
set(CPACK_REHEARSAL_PROGRAM rehearse librehearsal_perform.so)
set(CPACK_REHEARSAL_MODULES "")
set(CPACK_REHEARSAL_SUGGESTS iproute2)  # of `rehearse hosts`
if(TARGET mpi)
  list(APPEND CPACK_REHEARSAL_MODULES librehearsal_mpi.so)
  list(APPEND CPACK_REHEARSAL_SUGGESTS openmpi-bin)
endif()
if(TARGET cuda)  # of NVIDIA's archive; Debian has no CUDA of this version
  list(APPEND CPACK_REHEARSAL_SUGGESTS "cuda-libraries-${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR}" libnccl2)
  install(FILES ${CMAKE_SOURCE_DIR}/tools/deb/overrides DESTINATION share/lintian/overrides RENAME rehearsal
          COMPONENT program EXCLUDE_FROM_ALL)
endif()

string(TIMESTAMP TODAY "%a, %d %b %Y 00:00:00 +0000" UTC)
file(CONFIGURE OUTPUT changelog CONTENT "rehearsal (${PROJECT_VERSION}) unstable; urgency=medium

  * Release ${PROJECT_VERSION}.

 -- ${REHEARSAL_MAINTAINER}  ${TODAY}
" @ONLY)
execute_process(COMMAND gzip -9nc ${CMAKE_BINARY_DIR}/changelog OUTPUT_FILE ${CMAKE_BINARY_DIR}/changelog.gz)

include(CPack)
