# `cmake --build <folder> --target wheel`: a Python wheel of the libraries, in <folder>/wheel. Its name says of which CUDA the kernels
# are (libgpudnn-cu13), or that there are none (libgpudnn-cpu). The target is there where a Python has the package `wheel`.
# SPDX-License-Identifier: Apache-2.0
set(GPUDNN_WHEEL_PLATFORM linux_${CMAKE_SYSTEM_PROCESSOR} CACHE STRING "The platform tag of the wheel")
foreach(candidate ${Python3_EXECUTABLE} /usr/bin/python3)
  if(NOT GPUDNN_WHEEL_PYTHON)
    execute_process(COMMAND ${candidate} -c "import wheel, venv, ensurepip" RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
    if(missing EQUAL 0)
      set(GPUDNN_WHEEL_PYTHON ${candidate} CACHE FILEPATH "A Python that has the packages wheel and venv")
    endif()
  endif()
endforeach()
if(NOT GPUDNN_WHEEL_PYTHON OR NOT TARGET gpudnn_cudnn)
  return()
endif()

set(GPUDNN_WHEEL_NAME libgpudnn-cpu)
if(GPUDNN_WITH_CUDA)
  string(REGEX MATCH "^[0-9]+" cuda_major ${CMAKE_CUDA_COMPILER_VERSION})
  set(GPUDNN_WHEEL_NAME libgpudnn-cu${cuda_major})
endif()
set(source ${PROJECT_SOURCE_DIR}/scripts/wheel)
string(REPLACE "-" "_" dist_info ${GPUDNN_WHEEL_NAME})
set(dist_info ${PROJECT_BINARY_DIR}/wheel-files/${dist_info}-${PROJECT_VERSION}.dist-info)
configure_file(${source}/METADATA.in ${dist_info}/METADATA @ONLY)
configure_file(${source}/WHEEL.in ${dist_info}/WHEEL @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/LICENSE ${dist_info}/LICENSE COPYONLY)
set(GPUDNN_WHEEL_COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${PROJECT_BINARY_DIR} -DSOURCE_DIR=${source} -DDIST_INFO=${dist_info}
  -DPYTHON=${GPUDNN_WHEEL_PYTHON})
add_custom_target(wheel
  COMMAND ${GPUDNN_WHEEL_COMMAND} -DWORK_DIR=${PROJECT_BINARY_DIR}/wheel-files/work -DOUTPUT_DIR=${PROJECT_BINARY_DIR}/wheel
    -P ${source}/wheel.cmake
  COMMENT "Writing the wheel to ${PROJECT_BINARY_DIR}/wheel" VERBATIM)
get_property(compat_libraries DIRECTORY ${PROJECT_SOURCE_DIR}/compat PROPERTY BUILDSYSTEM_TARGETS)
add_dependencies(wheel gpudnn ${compat_libraries})
