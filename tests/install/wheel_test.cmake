# The wheel in a fresh virtual environment, beside a stand-in for NVIDIA's package: a C program for cuDNN, a Python program that loads
# it by name, and the search for nvidia/cudnn/lib run on libgpudnn; without `python -m gpudnn run` they do not.
# SPDX-License-Identifier: Apache-2.0
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("${output}")
  set(run_output "${output}" PARENT_SCOPE)
  set(run_result "${result}" PARENT_SCOPE)
endfunction()
function(expect text)
  run(${ARGN})
  if(NOT run_result EQUAL 0 OR NOT run_output MATCHES "${text}")
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "status ${run_result}, and not '${text}', from: ${command}")
  endif()
  set(run_output "${run_output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
expect("" ${WHEEL_COMMAND} -DWORK_DIR=${WORK_DIR}/files -DOUTPUT_DIR=${WORK_DIR} -P ${SOURCE_DIR}/scripts/wheel/wheel.cmake)
file(GLOB wheel ${WORK_DIR}/*.whl)
expect("" ${PYTHON} -m venv ${WORK_DIR}/environment)
set(python ${WORK_DIR}/environment/bin/python)
expect("Successfully installed" ${python} -m pip install --no-index --no-deps --disable-pip-version-check ${wheel})

# NVIDIA's package has these files; libgpudnn's must leave them alone.
execute_process(COMMAND ${python} -c "import sysconfig; print(sysconfig.get_path('purelib'))" OUTPUT_VARIABLE packages
  OUTPUT_STRIP_TRAILING_WHITESPACE)
foreach(folder nvidia nvidia/cudnn)
  file(WRITE ${packages}/${folder}/__init__.py "")
endforeach()
file(REMOVE ${packages}/nvidia/__init__.py)
file(WRITE ${packages}/nvidia/cudnn/lib/libcudnn.so.9 "not a library")

# A program that was linked with another libcudnn.so.9, which is not here any more.
set(program ${WORK_DIR}/program)
expect("" ${python} -m gpudnn path)
string(STRIP "${run_output}" libraries)
expect("" ${C_COMPILER} -std=c99 -DGPUDNN_NO_CUDA_HEADERS -I${HEADERS} -I${SOURCE_DIR}/include ${CONSUMER_DIR}/consumer.c -o ${program}
  ${libraries}/libcudnn.so.9 -Wl,--allow-shlib-undefined)
set(ENV{LD_LIBRARY_PATH})
run(${program})
if(run_result EQUAL 0)
  message(FATAL_ERROR "the program finds a libcudnn.so.9 by itself")
endif()
expect("relu: 0 0 2 3" ${python} -m gpudnn run ${program})

file(WRITE ${WORK_DIR}/search.py "
import ctypes, glob, os, sys
import nvidia.cudnn
found = [hit for path in sys.path for hit in glob.glob(os.path.join(path, 'nvidia', 'cudnn', 'lib', 'libcudnn.so.*[0-9]'))]
print('first', found[0])
print('imported', nvidia.cudnn.__path__[0])
print('version', ctypes.CDLL('libcudnn.so.9').cudnnGetVersion(), 'arguments', sys.argv[1:])
# The process has one library by this name, and it is libgpudnn's.
print('mapped', *{line.split()[-1] for line in open('/proc/self/maps') if 'libcudnn.so' in line or 'libgpudnn.so' in line})
")
expect("first ${libraries}/libcudnn.so.9" ${python} -m gpudnn run ${python} ${WORK_DIR}/search.py one "two three")
foreach(text "imported ${packages}/gpudnn/site/nvidia/cudnn\n" "version 91900 arguments \\['one', 'two three'\\]"
    "${libraries}/libcudnn.so.9" "${libraries}/libgpudnn.so.1")
  if(NOT run_output MATCHES "${text}")
    message(FATAL_ERROR "not '${text}'")
  endif()
endforeach()
run(${python} -m gpudnn run ${WORK_DIR}/nothing)
if(NOT run_result EQUAL 127 OR NOT run_output MATCHES "nothing: No such file")
  message(FATAL_ERROR "a program that does not exist gave ${run_result}")
endif()
run(${python} -m gpudnn walk ${program})
if(NOT run_result EQUAL 2 OR NOT run_output MATCHES "usage:")
  message(FATAL_ERROR "an unknown command gave ${run_result}")
endif()
expect("Successfully uninstalled" ${python} -m pip uninstall --yes libgpudnn-cpu libgpudnn-cu13 libgpudnn-cu12)
file(READ ${packages}/nvidia/cudnn/lib/libcudnn.so.9 left)
if(NOT left STREQUAL "not a library" OR EXISTS ${packages}/gpudnn/site)
  message(FATAL_ERROR "the wheel took or left more than its own files")
endif()
