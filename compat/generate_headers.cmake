# Writes the headers under cuDNN's names, each a public header of libgpudnn with the names changed. Run by cmake -P.
#   cmake -DINPUT=include/gpudnn -DOUTPUT=folder -DTEMPLATES=compat -DDEVICE_VERSION=90 -P generate_headers.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

# Changes the names of the text in a variable, in place. What is libgpudnn's own keeps its name: the library, the mark of exported
# functions, and environment variables. @@ hides those from the renaming.
function(rename_to_cudnn variable)
  set(s "${${variable}}")
  string(REGEX REPLACE "libgpudnn" "lib@@udnn" s "${s}")
  string(REGEX REPLACE "GPUDNN_(EXPORT|BACKEND=|LOG[A-Z]+)" "@@UDNN_\\1" s "${s}")
  string(REGEX REPLACE "\"gpudnn/cuda_types\\.h\"" "\"@@udnn_cuda_types.h\"" s "${s}")
  string(REGEX REPLACE "\"gpudnn/([a-z]+)\\.h\"" "\"cudnn_\\1.h\"" s "${s}")
  string(REPLACE "gpudnn" "cudnn" s "${s}")
  string(REPLACE "GPUDNN" "CUDNN" s "${s}")
  string(REPLACE "@@udnn" "gpudnn" s "${s}")
  string(REPLACE "@@UDNN" "GPUDNN" s "${s}")
  set(${variable} "${s}" PARENT_SCOPE)
endfunction()

# A header that is only another name of one.
function(write_alias name target)
  file(WRITE ${OUTPUT}/${name} "/* Another name of ${target}.\n * SPDX-License-Identifier: Apache-2.0 */\n"
    "#include \"${target}\"\n")
endfunction()

file(READ ${INPUT}/version.h version)
foreach(part MAJOR MINOR PATCHLEVEL)
  string(REGEX MATCH "#define GPUDNN_${part} ([0-9]+)" found "${version}")
  set(CUDNN_${part} ${CMAKE_MATCH_1})
endforeach()
math(EXPR CUDNN_MAX_SM_MAJOR "${DEVICE_VERSION} / 10")
math(EXPR CUDNN_MAX_SM_MINOR "${DEVICE_VERSION} % 10")
configure_file(${TEMPLATES}/cudnn_version.h.in ${OUTPUT}/cudnn_version.h @ONLY)
write_alias(cudnn_version_v9.h cudnn_version.h)

foreach(part graph ops cnn adv)
  file(READ ${INPUT}/${part}.h text)
  rename_to_cudnn(text)
  # Parts of cuDNN carry version numbers of their own, which programs compare with the whole's.
  string(TOUPPER ${part} PART)
  set(numbers "")
  foreach(number MAJOR MINOR)
    string(APPEND numbers "#define CUDNN_${PART}_${number} ${CUDNN_${number}}\n")
  endforeach()
  string(APPEND numbers "#define CUDNN_${PART}_PATCH ${CUDNN_PATCHLEVEL}\n")
  string(REGEX REPLACE "(#define CUDNN_${PART}_H_\n)" "\\1\n${numbers}" text "${text}")
  file(WRITE ${OUTPUT}/cudnn_${part}.h "/* Made by the build from gpudnn/${part}.h. */\n${text}")
  write_alias(cudnn_${part}_v9.h cudnn_${part}.h)
endforeach()

configure_file(${TEMPLATES}/cudnn.h.in ${OUTPUT}/cudnn.h COPYONLY)
configure_file(${INPUT}/cuda_types.h ${OUTPUT}/gpudnn_cuda_types.h COPYONLY)
write_alias(cudnn_v9.h cudnn.h)
write_alias(cudnn_backend.h cudnn_graph.h)
write_alias(cudnn_backend_v9.h cudnn_graph.h)
# The parts of version 8. They are all of cudnn.h, so that what was dropped since comes with them.
foreach(part ops cnn adv)
  write_alias(cudnn_${part}_infer.h cudnn.h)
  write_alias(cudnn_${part}_train.h cudnn.h)
endforeach()
file(GLOB legacy ${TEMPLATES}/legacy/*.h)
foreach(header ${legacy})
  get_filename_component(name ${header} NAME)
  configure_file(${header} ${OUTPUT}/gpudnn_legacy/${name} COPYONLY)
endforeach()
file(WRITE ${STAMP} "")
