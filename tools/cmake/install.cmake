# What `cmake --install` puts where. A component is a Debian package (deb.cmake): the program with its modules and data,
# the library, what is needed to compile with it, and Python; `elsewhere` is what no package has. All parts find each
# other by where they lie, so that the whole can be anywhere: data in ../share/rehearsal, modules in lib/rehearsal.

# What the program says of itself, made by the built program: manual pages, completions, the schema.
set(MADE ${CMAKE_BINARY_DIR}/made)
file(GLOB_RECURSE TOLD CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/configs/*.yaml ${CMAKE_SOURCE_DIR}/models/zoo/*.yaml)
add_custom_command(OUTPUT ${MADE}/scenario.schema.json
                   COMMAND ${CMAKE_SOURCE_DIR}/tools/cmake/made.sh $<TARGET_FILE:rehearse> ${MADE}
                   DEPENDS rehearse ${CMAKE_SOURCE_DIR}/tools/cmake/made.sh ${CMAKE_SOURCE_DIR}/tools/man ${TOLD}
                   VERBATIM)
add_custom_target(made ALL DEPENDS ${MADE}/scenario.schema.json)

set(MODULES perform)
foreach(MODULE mpi cuda)
  if(TARGET ${MODULE})
    list(APPEND MODULES ${MODULE})
  endif()
endforeach()
set(DATA ${CMAKE_INSTALL_DATADIR}/rehearsal)
set(CONFIG ${CMAKE_INSTALL_LIBDIR}/cmake/rehearsal)

foreach(TARGET rehearse rehearsal ${MODULES})  # as Debian builds: nothing of a table of addresses can be written to
  target_link_options(${TARGET} PRIVATE LINKER:-z,relro LINKER:-z,now)
endforeach()

install(TARGETS rehearse RUNTIME COMPONENT program)
install(TARGETS ${MODULES} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/rehearsal COMPONENT program)
install(DIRECTORY configs scenarios DESTINATION ${DATA} COMPONENT program)
install(DIRECTORY models/zoo DESTINATION ${DATA}/models COMPONENT program)
install(FILES ${MADE}/scenario.schema.json DESTINATION ${DATA} COMPONENT program)
install(DIRECTORY ${MADE}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${MADE}/rehearse.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME rehearse
        COMPONENT program)
install(FILES ${MADE}/_rehearse DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT program)
install(FILES ${MADE}/rehearse.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT program
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN gallery EXCLUDE)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT elsewhere)  # a package has its file copyright

target_include_directories(rehearsal INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                                               $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS rehearsal EXPORT rehearsal LIBRARY COMPONENT library NAMELINK_COMPONENT dev PUBLIC_HEADER COMPONENT dev)
install(EXPORT rehearsal NAMESPACE rehearsal:: FILE rehearsalConfig.cmake DESTINATION ${CONFIG} COMPONENT dev)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(rehearsalConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rehearsalConfigVersion.cmake DESTINATION ${CONFIG} COMPONENT dev)
file(RELATIVE_PATH ABOVE /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" ABOVE "${ABOVE}")
configure_file(tools/cmake/rehearsal.pc.in rehearsal.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rehearsal.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT elsewhere)

# Debian's folder for every version of Python 3: the package is Python alone.
install(DIRECTORY python/rehearsal DESTINATION lib/python3/dist-packages COMPONENT python FILES_MATCHING PATTERN "*.py"
        PATTERN __pycache__ EXCLUDE)

include(deb)
