# The host backend for AArch64 by Debian's cross compiler, its tests under qemu-user: see scripts/aarch64.sh.
# SPDX-License-Identifier: Apache-2.0
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
find_program(GPUDNN_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(GPUDNN_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${GPUDNN_QEMU};-L;/usr/aarch64-linux-gnu)
endif()
# This machine's own packages are for another processor.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
