# gpudnn_embed_text(target file namespace symbol): compiles the text of `file` into `target` as the zero-terminated
# `const char symbol[]` of a C++ namespace. Included, it defines the function; run as a script, it writes the source.
# SPDX-License-Identifier: Apache-2.0
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${INPUT} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(0x0a,)" "\\1\n" bytes "${bytes}")  # a line of the text is a line of the source
  file(WRITE ${OUTPUT} "// Made from ${INPUT} by the build.\nnamespace ${NAMESPACE} {\n"
    "extern const char ${SYMBOL}[];\nconst char ${SYMBOL}[] = {\n${bytes}0};\n}\n")
  return()
endif()

set(GPUDNN_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(gpudnn_embed_text target file namespace symbol)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded/${symbol}.cpp)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${file} -DOUTPUT=${source} -DNAMESPACE=${namespace} -DSYMBOL=${symbol}
      -P ${GPUDNN_EMBED_SCRIPT}
    DEPENDS ${file} ${GPUDNN_EMBED_SCRIPT} COMMENT "Embedding ${file}" VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
