# `cmake --build <folder> --target docs`: the documents and the public headers as a site in <folder>/site/html. Doxygen makes it,
# without the network; the target is there where doxygen is.
# SPDX-License-Identifier: Apache-2.0
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_program(GPUDNN_DOXYGEN doxygen DOC "Doxygen, for the target docs")
set(GPUDNN_SITE_FOLDER ${PROJECT_BINARY_DIR}/site)
configure_file(${PROJECT_SOURCE_DIR}/docs/site/Doxyfile.in ${GPUDNN_SITE_FOLDER}/Doxyfile @ONLY)
if(GPUDNN_DOXYGEN)
  add_custom_target(docs COMMAND ${GPUDNN_DOXYGEN} ${GPUDNN_SITE_FOLDER}/Doxyfile
    COMMENT "Writing ${GPUDNN_SITE_FOLDER}/html/index.html" VERBATIM)
endif()
