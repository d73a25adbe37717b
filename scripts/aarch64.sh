#!/usr/bin/env bash
# Builds the host backend for AArch64 by Debian's cross compiler and runs a part of its tests under qemu-user, whose programs
# are some ten times slower: the interface, descriptors and log, an operation of each kind, graphs. Installs what is missing,
# by apt; ends with 77 where that cannot be had.
#
# usage: scripts/aarch64.sh
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

skip() {
  echo "skipped: $*"
  exit 77
}

# GoogleTest is compiled for AArch64 from Debian's copy of its sources.
gtest_sources=/usr/src/googletest
has_all() {
  command -v aarch64-linux-gnu-g++ >/dev/null && [[ -e $gtest_sources/CMakeLists.txt ]] &&
    { command -v qemu-aarch64 || command -v qemu-aarch64-static; } >/dev/null
}
if ! has_all; then
  packages=(g++-aarch64-linux-gnu qemu-user googletest)
  command -v apt-get >/dev/null || skip "this system has no apt-get to install ${packages[*]} with"
  [[ $(id -u) -eq 0 ]] || skip "not root: have ${packages[*]} installed, then run this again"
  say "installing ${packages[*]}"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! { apt-get -qq update &&
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 ||
    ! has_all; then
    tail -n 5 "$log" >&2
    skip "apt-get could not install ${packages[*]}"
  fi
fi
emulator=$(command -v qemu-aarch64 || command -v qemu-aarch64-static)

folder=$(folder_of aarch64)
gtest=$folder/gtest
if [[ ! -e $gtest/lib/libgtest.a ]]; then
  say "building GoogleTest for AArch64"
  cmake -G Ninja -S "$gtest_sources" -B "$folder/gtest-build" --toolchain "$ROOT/cmake/aarch64-linux-gnu.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_GMOCK=OFF -DCMAKE_INSTALL_PREFIX="$gtest" -DCMAKE_INSTALL_LIBDIR=lib >/dev/null
  cmake --build "$folder/gtest-build" -j "$JOBS" --target install >/dev/null
fi

say "building the host backend for AArch64"
configure aarch64 -DGTest_DIR="$gtest/lib/cmake/GTest"
build aarch64 gpudnn unit_test ops_test graph_test hostile_arguments_test sample_relu

# Left out: arithmetic of GPU kernels, which the host's tests have too, and tests that start themselves again, as no system
# runs these programs by itself.
export GPUDNN_HOST_THREADS=2
# run PROGRAM [FILTER]
run() {
  say "$1 ${2:-}"
  (cd "$folder/tests" && timeout 300 "$emulator" -L /usr/aarch64-linux-gnu "./$1" --gtest_filter="${2:-*}" --gtest_brief=1)
}
run ../samples/00_relu
run abi/hostile_arguments_test
run unit_test '*-*Sm?0*:SmallC*:*Child*:*CallLog*:*Cache*:*Threads*:Log.Level*'
run graph_test '*AgreesWithTheInterpreter:*SegmentsAgree*'
GPUDNN_TEST_CASES=${GPUDNN_TEST_CASES:-8} run ops_test '*ByHand*:*RandomProblems*:Refusals*:Semantics*'
