# Installation: the library, its headers, tools, samples and documents, the CMake package and the pkg-config file.
# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

install(TARGETS gpudnn EXPORT gpudnn-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT gpudnn_runtime NAMELINK_COMPONENT gpudnn_development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/gpudnn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT gpudnn_development FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT gpudnn_runtime)

# Tools, programs to read, and what the documents refer to.
if(TARGET gpudnn-bench)
  install(TARGETS gpudnn-bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT gpudnn_tools)
  foreach(link gpudnn-explain gpudnn-tune)
    install(PROGRAMS $<TARGET_FILE_DIR:gpudnn-bench>/${link} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT gpudnn_tools)
  endforeach()
endif()
if(GPUDNN_MAN_PAGES)
  install(FILES ${GPUDNN_MAN_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT gpudnn_tools)
endif()
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/cudnn_imports.py DESTINATION ${CMAKE_INSTALL_BINDIR}
  RENAME gpudnn-cudnn-imports COMPONENT gpudnn_tools)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/benchmarks/cases DESTINATION ${CMAKE_INSTALL_DATADIR}/gpudnn
  COMPONENT gpudnn_tools FILES_MATCHING PATTERN "*.txt")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/samples DESTINATION ${CMAKE_INSTALL_DATADIR}/gpudnn
  COMPONENT gpudnn_development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT gpudnn_development
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN site EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT gpudnn_development)

# find_package(gpudnn), which defines gpudnn::gpudnn. The same minor version is asked for until 1.0: the interface of the
# library's own additions may still move.
set(GPUDNN_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/gpudnn)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/gpudnn-config.cmake.in ${PROJECT_BINARY_DIR}/gpudnn-config.cmake
  INSTALL_DESTINATION ${GPUDNN_PACKAGE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gpudnn-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT gpudnn-targets NAMESPACE gpudnn:: DESTINATION ${GPUDNN_PACKAGE_DIR} COMPONENT gpudnn_development)
install(FILES ${PROJECT_BINARY_DIR}/gpudnn-config.cmake ${PROJECT_BINARY_DIR}/gpudnn-config-version.cmake
  DESTINATION ${GPUDNN_PACKAGE_DIR} COMPONENT gpudnn_development)

# pkg-config --cflags --libs gpudnn. Relative to the file itself, so that an installed tree can be moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(GPUDNN_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  set(GPUDNN_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
  set(GPUDNN_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH GPUDNN_PC_UP /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" GPUDNN_PC_UP "${GPUDNN_PC_UP}")
  set(GPUDNN_PC_PREFIX "\${pcfiledir}/${GPUDNN_PC_UP}")
  set(GPUDNN_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(GPUDNN_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
# Programs find the library where they were linked with it, unless LD_LIBRARY_PATH says otherwise. A package that installs
# into the loader's own folders turns this off. Under cuDNN's names even LD_LIBRARY_PATH must not win: another cuDNN in it
# would be taken in silence, so the path is an RPATH.
option(GPUDNN_PC_RPATH "The pkg-config files give programs the library's path" ON)
set(GPUDNN_PC_RPATH_FLAG "")
if(GPUDNN_PC_RPATH)
  set(GPUDNN_PC_RPATH_FLAG " -Wl,-rpath,\${libdir}")
endif()
set(GPUDNN_PC_CUDNN_RPATH_FLAG " -Wl,--disable-new-dtags,-rpath,\${libdir}/gpudnn-compat,-rpath,\${libdir}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/gpudnn.pc.in ${PROJECT_BINARY_DIR}/gpudnn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gpudnn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT gpudnn_development)

# pkg-config --cflags --libs gpudnn-cudnn: cuDNN's headers and library names.
if(TARGET gpudnn_cudnn)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/gpudnn-cudnn.pc.in ${PROJECT_BINARY_DIR}/gpudnn-cudnn.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/gpudnn-cudnn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT gpudnn_development)
endif()
