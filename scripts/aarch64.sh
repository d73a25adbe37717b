#!/usr/bin/env bash
# Builds the host backend for AArch64 by Debian's cross compiler and runs tests of it under qemu-user: those of the
# interface, the descriptors, the fast host engines and the graph. Installs what is missing, by apt.
#
# usage: scripts/aarch64.sh
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(g++-aarch64-linux-gnu qemu-user-static libgtest-dev:arm64)
if ! command -v aarch64-linux-gnu-g++ >/dev/null || ! command -v qemu-aarch64-static >/dev/null ||
  [[ ! -e /usr/lib/aarch64-linux-gnu/libgtest.a ]]; then
  say "installing ${packages[*]}"
  [[ $(id -u) -eq 0 ]] || die "run it as root once, or have these installed: ${packages[*]}"
  dpkg --add-architecture arm64
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${packages[@]}" >/dev/null
fi

configure aarch64 -DGPUDNN_BUILD_SAMPLES=OFF -DGPUDNN_BUILD_BENCHMARKS=OFF
build aarch64 gpudnn unit_test ops_test graph_test hostile_arguments_test

# Slow under emulation: a few random cases of each operation, and no tests of many threads.
export GPUDNN_TEST_CASES=${GPUDNN_TEST_CASES:-4} GPUDNN_HOST_THREADS=2
run() {
  local program=$1
  shift
  say "$program $*"
  (cd "$(folder_of aarch64)/tests" && timeout 600 qemu-aarch64-static -L /usr/aarch64-linux-gnu "./$program" "$@" --gtest_brief=1)
}
run hostile_arguments_test
run unit_test '--gtest_filter=-*Child*:*CallLog*:*Cache*:*Threads*'
run ops_test '--gtest_filter=Conv*:Pooling*:Softmax*:Activation*:Reduce*:Rnn*'
run graph_test '--gtest_filter=*AgreesWithTheInterpreter:*SegmentsAgree*'
