# Makes the wheel of a build, run by cmake -P with BUILD_DIR, SOURCE_DIR, WORK_DIR, OUTPUT_DIR and PYTHON.
# SPDX-License-Identifier: Apache-2.0
set(installed ${WORK_DIR}/installed)
set(tree ${WORK_DIR}/tree)
set(libraries ${tree}/gpudnn/site/nvidia/cudnn/lib)
file(REMOVE_RECURSE ${WORK_DIR})
foreach(component gpudnn_runtime gpudnn_compat)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD_DIR} --strip --prefix ${installed} --component ${component}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(COPY ${SOURCE_DIR}/gpudnn DESTINATION ${tree} FILES_MATCHING PATTERN "*.py")
file(COPY ${DIST_INFO} DESTINATION ${tree})
file(WRITE ${tree}/gpudnn/site/nvidia/cudnn/__init__.py "")  # else NVIDIA's, which has one, comes first in Python's search
# A wheel has no links: each library by the one name that the loader asks for.
file(GLOB_RECURSE files ${installed}/*.so.[0-9])
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  file(REAL_PATH ${file} real)
  file(MAKE_DIRECTORY ${libraries})
  file(COPY_FILE ${real} ${libraries}/${name})
endforeach()
file(MAKE_DIRECTORY ${OUTPUT_DIR})
execute_process(COMMAND ${PYTHON} -m wheel pack ${tree} --dest-dir ${OUTPUT_DIR} COMMAND_ERROR_IS_FATAL ANY)
