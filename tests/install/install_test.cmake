# One step of the installation test, run by cmake -P:
#   tree          installs into a fresh prefix, moves it, and looks for the files that belong there
#   find_package  builds and runs the consumer by find_package(gpudnn)
#   pkg_config    builds and runs it by pkg-config
# SPDX-License-Identifier: Apache-2.0
set(PREFIX ${WORK_DIR}/prefix)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("${output}")
  if(NOT result EQUAL 0)
    string(JOIN " " command ${ARGV})
    message(FATAL_ERROR "failed with ${result}: ${command}")
  endif()
  set(run_output "${output}" PARENT_SCOPE)
endfunction()

# The consumer prints what it computed; a program that printed nothing did not run.
function(expect_result output)
  if(NOT output MATCHES "relu: 0 0 2 3")
    message(FATAL_ERROR "the consumer did not print its result")
  endif()
endfunction()

if(STEP STREQUAL "tree")
  file(REMOVE_RECURSE ${WORK_DIR})
  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/staging)
  file(RENAME ${WORK_DIR}/staging ${PREFIX})
  foreach(file ${LIBDIR}/libgpudnn.so ${LIBDIR}/libgpudnn.so.${VERSION} ${LIBDIR}/pkgconfig/gpudnn.pc
      ${LIBDIR}/cmake/gpudnn/gpudnn-config.cmake ${LIBDIR}/cmake/gpudnn/gpudnn-config-version.cmake
      include/gpudnn/gpudnn.h include/gpudnn/version.h include/gpudnn/cuda_types.h)
    if(NOT EXISTS ${PREFIX}/${file})
      message(FATAL_ERROR "${file} was not installed")
    endif()
  endforeach()
  # The version stands in the build and in the header; they must say the same.
  file(READ ${PREFIX}/include/gpudnn/version.h header)
  set(header_version)
  foreach(part MAJOR MINOR PATCH)
    string(REGEX MATCH "GPUDNN_LIBRARY_${part} ([0-9]+)" found "${header}")
    list(APPEND header_version ${CMAKE_MATCH_1})
  endforeach()
  list(JOIN header_version "." header_version)
  if(NOT header_version STREQUAL VERSION)
    message(FATAL_ERROR "version.h says ${header_version}, the build ${VERSION}")
  endif()

elseif(STEP STREQUAL "find_package")
  run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${CONSUMER_DIR} -B ${WORK_DIR}/find_package -DCMAKE_C_COMPILER=${C_COMPILER}
    -DCMAKE_PREFIX_PATH=${PREFIX} -DEXPECTED_VERSION=${VERSION})
  run(${CMAKE_COMMAND} --build ${WORK_DIR}/find_package)
  run(${WORK_DIR}/find_package/consumer)
  expect_result("${run_output}")

elseif(STEP STREQUAL "pkg_config")
  find_program(PKG_CONFIG NAMES pkg-config pkgconf)
  if(NOT PKG_CONFIG)
    message("skipped: there is no pkg-config")
    return()
  endif()
  set(ENV{PKG_CONFIG_PATH} ${PREFIX}/${LIBDIR}/pkgconfig)
  run(${PKG_CONFIG} --exact-version=${VERSION} gpudnn)
  run(${PKG_CONFIG} --cflags --libs gpudnn)
  separate_arguments(flags UNIX_COMMAND "${run_output}")
  run(${C_COMPILER} -std=c99 -o ${WORK_DIR}/by_pkg_config ${CONSUMER_DIR}/consumer.c ${flags})
  set(ENV{LD_LIBRARY_PATH} ${PREFIX}/${LIBDIR})
  run(${WORK_DIR}/by_pkg_config)
  expect_result("${run_output}")

else()
  message(FATAL_ERROR "unknown step '${STEP}'")
endif()
