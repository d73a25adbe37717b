# Packages, by `cpack` in the build folder: Debian packages by parts, and one tarball of everything.
#   libgpudnn1          the library
#   libgpudnn-dev       headers, CMake package, pkg-config files, samples, documents
#   libgpudnn-compat    libcudnn.so.9 and its parts, in a folder of their own
#   gpudnn-tools        gpudnn-bench, gpudnn-explain, gpudnn-tune, gpudnn-cudnn-imports, case files
# SPDX-License-Identifier: Apache-2.0
set(CPACK_GENERATOR "TGZ")
find_program(GPUDNN_DPKG_DEB dpkg-deb)
if(GPUDNN_DPKG_DEB)
  list(APPEND CPACK_GENERATOR "DEB")
endif()
set(CPACK_PACKAGE_NAME libgpudnn)
set(CPACK_PACKAGE_VENDOR "the libgpudnn project")
set(CPACK_PACKAGE_CONTACT "the libgpudnn project")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
# The tarball can be unpacked anywhere, the packages go where the loader looks.
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_COMPONENTS_ALL gpudnn_runtime gpudnn_development gpudnn_compat gpudnn_tools)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
find_program(GPUDNN_SHLIBDEPS dpkg-shlibdeps)
set(exact "libgpudnn1 (= ${PROJECT_VERSION})")
function(gpudnn_package component name section depends description)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${description}" PARENT_SCOPE)
  # Its own libraries are not of any package yet, so that only the one that needs none of them is looked through.
  if(GPUDNN_SHLIBDEPS AND component STREQUAL "gpudnn_runtime")
    set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON PARENT_SCOPE)
  endif()
endfunction()
gpudnn_package(gpudnn_runtime libgpudnn1 libs "" "The library.")
gpudnn_package(gpudnn_development libgpudnn-dev libdevel "${exact}, libgpudnn-compat (= ${PROJECT_VERSION})"
  "Headers, CMake package, pkg-config files, samples and documents.")
gpudnn_package(gpudnn_compat libgpudnn-compat libs "${exact}" "The library under cuDNN's names, in lib/gpudnn-compat.")
gpudnn_package(gpudnn_tools gpudnn-tools devel "${exact}, python3"
  "gpudnn-bench, gpudnn-explain, gpudnn-tune, and what tells which calls of a program are served.")
# Also where dpkg-shlibdeps is missing.
set(CPACK_DEBIAN_GPUDNN_RUNTIME_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_GPUDNN_RUNTIME_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/triggers")
file(WRITE ${PROJECT_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
include(CPack)
