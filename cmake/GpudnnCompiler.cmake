# Settings of the C and C++ compilers for every target of this project.
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Type of build" FORCE)
endif()

# Carried by each target of ours, and by nothing that uses the library.
add_library(gpudnn_warnings INTERFACE)
target_compile_options(gpudnn_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow -Wno-unused-parameter>
  # GCC 12 sees overlapping copies in std::string where there are none (its bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter>)

# Of programs whose time goes into the library: 40 % of the compiler's is saved.
set(GPUDNN_PROGRAM_OPTIMIZATION $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:C,CXX>>:-O1>)

# gpudnn_precompile(target header): what the C++ files of a target include most, parsed once for all of them, which
# takes half of the compiler's time. gpudnn_precompile(target REUSE_FROM other): what was parsed for another target.
function(gpudnn_precompile target header)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()  # or a target would still wait for the one whose header it shares
  endif()
  if(header STREQUAL REUSE_FROM)
    target_precompile_headers(${target} REUSE_FROM ${ARGN})
  else()
    target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${header}>)
  endif()
  # The same bug, which GCC is silent about in the standard library's own headers, but not where they are precompiled.
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow;-Wno-array-bounds>")
endfunction()

if(GPUDNN_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${GPUDNN_SANITIZE}>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${GPUDNN_SANITIZE})
endif()
option(GPUDNN_FUZZ "Build for libFuzzer: instrument all code and link the fuzz targets with it (clang)" OFF)
if(GPUDNN_FUZZ)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=fuzzer-no-link>)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
