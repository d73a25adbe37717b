# Installation: the library, its headers, the CMake package and the pkg-config file.
# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

install(TARGETS gpudnn EXPORT gpudnn-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT gpudnn_runtime NAMELINK_COMPONENT gpudnn_development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/gpudnn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT gpudnn_development FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT gpudnn_runtime)

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
configure_file(${CMAKE_CURRENT_LIST_DIR}/gpudnn.pc.in ${PROJECT_BINARY_DIR}/gpudnn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gpudnn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT gpudnn_development)

# pkg-config --cflags --libs gpudnn-cudnn: cuDNN's headers and library names.
if(TARGET gpudnn_cudnn)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/gpudnn-cudnn.pc.in ${PROJECT_BINARY_DIR}/gpudnn-cudnn.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/gpudnn-cudnn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT gpudnn_development)
endif()
