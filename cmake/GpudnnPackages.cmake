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
set(GPUDNN_PACKAGE_CONTACT "libgpudnn maintainers <maintainers@libgpudnn.example>" CACHE STRING
  "Who maintains the packages: a name and an address")
set(CPACK_PACKAGE_NAME libgpudnn)
set(CPACK_PACKAGE_VENDOR "the libgpudnn project")
set(CPACK_PACKAGE_CONTACT ${GPUDNN_PACKAGE_CONTACT})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "deep-learning primitives with the interface of cuDNN")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
# The tarball can be unpacked anywhere, the packages go where the loader looks.
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_COMPONENTS_ALL gpudnn_runtime gpudnn_development gpudnn_tools)
set(exact "libgpudnn1 (= ${PROJECT_VERSION})")
set(development_depends "${exact}")
if(TARGET gpudnn_cudnn)
  list(APPEND CPACK_COMPONENTS_ALL gpudnn_compat)
  string(APPEND development_depends ", libgpudnn-compat (= ${PROJECT_VERSION})")
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
# Of the libraries that the programs link, libgpudnn itself is of no installed package; each package names it.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src)
find_program(GPUDNN_SHLIBDEPS dpkg-shlibdeps)
# gpudnn_package(component name section depends text): the text follows CPACK_PACKAGE_DESCRIPTION_SUMMARY.
function(gpudnn_package component name section depends text)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_STRICT_PERMISSION ON PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "libgpudnn has the functions of cuDNN 9 under gpudnn names, and computes on
CUDA devices with its own kernels, on the CPU where there is none.\n\n${text}" PARENT_SCOPE)
  if(GPUDNN_SHLIBDEPS)
    set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON PARENT_SCOPE)
  endif()
endfunction()
gpudnn_package(gpudnn_runtime libgpudnn1 libs "" "This package has the library.")
gpudnn_package(gpudnn_development libgpudnn-dev libdevel "${development_depends}"
  "This package has the headers, what CMake and pkg-config need, samples and
documents.")
gpudnn_package(gpudnn_compat libgpudnn-compat libs "${exact}"
  "This package has the library under cuDNN's file and function names, in a
folder of its own, to preload or to put into a library path.")
gpudnn_package(gpudnn_tools gpudnn-tools science "${exact}, python3:any"
  "This package has gpudnn-bench and gpudnn-tune, which measure,
gpudnn-explain, which tells what engines would cost, gpudnn-cudnn-imports,
which tells which calls of a program are served, and lists of cases.")
# Programs that are packaged against the library depend on this version or a later one.
file(WRITE ${PROJECT_BINARY_DIR}/shlibs "libgpudnn 1 libgpudnn1 (>= ${PROJECT_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_GPUDNN_RUNTIME_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/triggers" "${PROJECT_BINARY_DIR}/shlibs")
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/GpudnnDebianFiles.cmake)
include(CPack)
