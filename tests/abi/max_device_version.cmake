# What gpudnnGetMaxDeviceVersion tells follows from the architectures built. Run by cmake -P.
#   cmake -DROOT=source folder -P max_device_version.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)
set(GPUDNN_CUDA OFF)  # the functions are wanted alone, no compiler
include(${ROOT}/cmake/GpudnnCuda.cmake)

set(CMAKE_CUDA_ARCHITECTURES_NATIVE 89-real)
function(expect architectures version)
  gpudnn_max_device_version(found "${architectures}")
  if(NOT found EQUAL version)
    message(SEND_ERROR "'${architectures}' gives ${found}, not ${version}")
  endif()
endfunction()
expect("75;90a-real" 90)
expect("100f-real;80" 100)
expect("75;86" 86)
expect("90a-real;120-virtual" 90)
expect("native" 89)
expect("75-virtual" 0)
