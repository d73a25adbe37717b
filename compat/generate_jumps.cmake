# Writes the source of a libcudnn*.so.9: for each function of some public headers a jump from its name in cuDNN to its name
# in libgpudnn, and the linker's map with cuDNN's symbol version. Run by cmake -P.
#   cmake -DHEADERS=a.h,b.h -DNODE=libcudnn.so.9 -DNAMES=names,defined,elsewhere -DSOURCE=x.S -DMAP=x.map -P generate_jumps.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

string(REPLACE "," ";" headers "${HEADERS}")
string(REPLACE "," ";" names "${NAMES}")
set(jumps "")
foreach(header ${headers})
  file(READ ${header} text)
  # "GPUDNN_EXPORT type gpudnnName(" is how a declaration begins; comments name functions without the mark.
  string(REGEX MATCHALL "GPUDNN_EXPORT [A-Za-z0-9_ *\n]+[ *\n]gpudnn[A-Z][A-Za-z0-9_]*\\(" declarations "${text}")
  foreach(declaration ${declarations})
    string(REGEX REPLACE ".*[ *\n]gpu(dnn[A-Za-z0-9_]*)\\(" "\\1" stem "${declaration}")
    if(cu${stem} IN_LIST names)
      continue()
    endif()
    list(APPEND names cu${stem})
    string(APPEND jumps "JUMP(cu${stem}, gpu${stem})\n")
  endforeach()
endforeach()

set(exported "")
foreach(name ${names})
  string(APPEND exported "    ${name};\n")
endforeach()
# The loader ends a program that asks for a version that the library does not have, so the node carries cuDNN's name.
if(exported)
  set(exported "  global:\n${exported}")
endif()
file(WRITE ${MAP} "${NODE} {\n${exported}  local: *;\n};\n")

# Jumps, and no indirect functions (IFUNC), which would cost nothing: the loader binds a library that uses the names without
# depending on this one before this one, and gives up at their resolvers. See docs/perf-notes.md, Host cost.
file(WRITE ${SOURCE} "/* Made by the build: a jump for each function. */
#if defined(__x86_64__)
#define LANDING endbr64
#define GO(target) jmp *target@GOTPCREL(%rip)
#elif defined(__aarch64__)
#define LANDING hint 34 /* bti c */
#define GO(target) adrp x16, :got:target; ldr x16, [x16, :got_lo12:target]; br x16
#else
#error \"the jumps of libcudnn.so.9 are written for x86-64 and AArch64\"
#endif

#define JUMP(name, target) .globl name; .type name, %function; .p2align 4; name: .cfi_startproc; LANDING; GO(target); \\
  .cfi_endproc; .size name, . - name

.text
${jumps}
/* The landing pads above keep the library fit for processes that guard their indirect branches. */
.section .note.gnu.property, \"a\"
.p2align 3
.long 4, 16, 5
.asciz \"GNU\"
#if defined(__x86_64__)
.long 0xc0000002, 4, 3, 0
#else
.long 0xc0000000, 4, 1, 0
#endif
.section .note.GNU-stack, \"\", %progbits
")
