# What Debian's packages hold besides the installed files (copyright, changelog, answers to lintian), and what they hold otherwise
# (pkg-config's file). Run by cpack between staging and packaging; it is no part of an installation, nor of the tarball.
# SPDX-License-Identifier: Apache-2.0
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
find_program(GZIP gzip REQUIRED)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, where it is set
string(TIMESTAMP year "%Y" UTC)
set(changelog "libgpudnn (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * CHANGELOG.md of libgpudnn-dev says what changed.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
set(copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: libgpudnn

Files: *
Copyright: ${year}, the authors of libgpudnn
License: Apache-2.0
 On Debian systems the licence is in /usr/share/common-licenses/Apache-2.0.
")
# What lintian finds and why it stays.
set(answers_libgpudnn1 "# cpack's own postinst and postrm, besides the trigger\nlibgpudnn1: maintscript-calls-ldconfig *\n")
string(REPLACE "libgpudnn1" "libgpudnn-compat" answers_libgpudnn-compat "${answers_libgpudnn1}")
set(answers_libgpudnn-dev "# one folder for every Debian, as the tarball has it\n\
libgpudnn-dev: pkg-config-unavailable-for-cross-compilation *\n")

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr)
  if(NOT EXISTS ${root})
    message(FATAL_ERROR "cpack staged no ${component} in ${root}")
  endif()
  set(folder ${root}/share/doc/${package})
  file(WRITE ${folder}/copyright "${copyright}")
  file(WRITE ${folder}/changelog "${changelog}")
  execute_process(COMMAND ${GZIP} -9nf ${folder}/changelog COMMAND_ERROR_IS_FATAL ANY)
  if(answers_${package})
    file(WRITE ${root}/share/lintian/overrides/${package} "${answers_${package}}")
  endif()
  file(GLOB pages ${root}/share/man/man1/*.1)
  if(pages)
    execute_process(COMMAND ${GZIP} -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
  endif()
  # The library lies where the loader looks, so programs need no path to it.
  file(GLOB_RECURSE files ${root}/*/gpudnn.pc)
  foreach(file IN LISTS files)
    file(READ ${file} text)
    string(REPLACE " -Wl,-rpath,\${libdir}" "" text "${text}")
    file(WRITE ${file} "${text}")
  endforeach()
endforeach()
