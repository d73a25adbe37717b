# What Debian's packages hold besides the installed files: copyright, changelog, and answers to lintian. Run by cpack between
# staging and packaging; it is no part of an installation, nor of the tarball.
# SPDX-License-Identifier: Apache-2.0
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
find_program(GZIP gzip REQUIRED)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, where it is set
# What lintian finds, package by package, and why it stays.
set(answers_libgpudnn1
  "extra-license-file"  # the tarball has the same files
  "package-name-doesnt-match-sonames")
set(answers_libgpudnn-dev "")

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr)
  if(NOT EXISTS ${root})
    message(FATAL_ERROR "cpack staged no ${component} in ${root}")
  endif()
  set(folder ${root}/share/doc/${package})
  file(WRITE ${folder}/copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: libgpudnn

Files: *
Copyright: ${CPACK_PACKAGE_CONTACT}
License: Apache-2.0
 On Debian systems the licence is in /usr/share/common-licenses/Apache-2.0.
")
  file(WRITE ${folder}/changelog
"libgpudnn (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * CHANGELOG.md of libgpudnn-dev says what changed.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
  execute_process(COMMAND ${GZIP} -9nf ${folder}/changelog COMMAND_ERROR_IS_FATAL ANY)
endforeach()
