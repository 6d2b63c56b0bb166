# SimGrid (Debian: libsimgrid-dev) is an oracle of the tests and a peer of the benchmarks; nothing else is built with it.
# Its actors switch stacks behind the back of the sanitizers, so those do without.
find_path(SIMGRID_INCLUDE simgrid/s4u.hpp)
find_library(SIMGRID_LIBRARY simgrid)
mark_as_advanced(SIMGRID_INCLUDE SIMGRID_LIBRARY)

# flow_networks: networks of flows, run by sim/fluid and, where there is one, by SimGrid.
add_library(flow_networks STATIC ${CMAKE_SOURCE_DIR}/tests/flows/networks.cpp ${CMAKE_SOURCE_DIR}/tests/flows/simgrid.cpp)
target_include_directories(flow_networks PUBLIC ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(flow_networks PUBLIC fluid)
if(SIMGRID_INCLUDE AND SIMGRID_LIBRARY AND NOT CMAKE_CXX_FLAGS_DEBUG MATCHES "-fsanitize")
  target_compile_definitions(flow_networks PRIVATE HAS_SIMGRID)
  target_include_directories(flow_networks SYSTEM PRIVATE ${SIMGRID_INCLUDE})
  target_link_libraries(flow_networks PRIVATE ${SIMGRID_LIBRARY})
else()
  message(STATUS "Without SimGrid (libsimgrid-dev): its test is skipped, the benchmark of sim/fluid has no peer")
endif()
