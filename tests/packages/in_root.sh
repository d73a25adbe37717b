#!/usr/bin/env bash
# What tests/packages/bare_root.sh runs inside the root: one of its parts, by name, in /work.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
TIMEFORMAT='%0R s, of the processor %0U'

# took NAME COMMAND...: its output in NAME.log, its time as a line.
took() {
  local name=$1
  shift
  { time "$@" >"$name.log" 2>&1; } 2>"$name.time" || {
    tail -n 40 "$name.log"
    echo "FAILED  $name: $*"
    exit 1
  }
  printf '%-44s %s\n' "$name" "$(cat "$name.time")"
}
# expect TEXT COMMAND...: it succeeds and prints that.
expect() {
  local text=$1 output
  shift
  output=$("$@" 2>&1) || { echo "FAILED  $*: $output" && exit 1; }
  grep -qF "$text" <<<"$output" || { echo "FAILED  $* printed: $output" && exit 1; }
  echo "ok      $*"
}
refuse() {
  if "$@" >/dev/null 2>&1; then echo "FAILED  $* succeeds" && exit 1; fi
  echo "ok      not: $*"
}
apt() { apt-get -qq -y --no-install-recommends "$@"; }
linked_program() {
  # shellcheck disable=SC2046
  cc /usr/share/gpudnn/samples/00_relu.c $(pkg-config --cflags --libs gpudnn) -o relu
}
install_to_program() {
  apt update &&
    apt install ./libgpudnn1_*.deb ./libgpudnn-dev_*.deb ./libgpudnn-compat_*.deb gcc libc6-dev pkg-config && linked_program
}
by_cmake() {
  cmake -S consumer -B by_cmake "-DEXPECTED_VERSION=$(pkg-config --modversion gpudnn)" && cmake --build by_cmake
}
by_cudnn() {
  cmake -S cudnn_consumer -B by_cudnn && cmake --build by_cudnn
}

packages() {
  local result="relu: 0 0 2 3"
  took "install to linked program" install_to_program
  expect "0 0 0 0 1 2 3 4" ./relu
  readelf -d relu | grep -E 'R(UN)?PATH' && { echo "FAILED  a program in the loader's path has a path of its own" && exit 1; }

  took "cmake and make" apt install cmake make
  took "find_package" by_cmake
  expect "$result" ./by_cmake/consumer
  took "find_package(CUDNN)" by_cudnn
  expect "$result" ./by_cudnn/by_target
  expect "$result" ./by_cudnn/by_variables
  # shellcheck disable=SC2046
  cc cudnn_consumer/consumer.c $(pkg-config --cflags --libs gpudnn-cudnn) -o by_pkg_config
  expect "$result" ./by_pkg_config

  # A program that was linked elsewhere knows the name libcudnn.so.9 and no path.
  cc cudnn_consumer/consumer.c -I/usr/include/gpudnn-compat -L/usr/lib/gpudnn-compat -lcudnn -o elsewhere
  refuse ./elsewhere
  expect "$result" env LD_PRELOAD=/usr/lib/gpudnn-compat/libcudnn.so.9 ./elsewhere
  expect "$result" env LD_LIBRARY_PATH=/usr/lib/gpudnn-compat ./elsewhere

  took "tools" apt install ./gpudnn-tools_*.deb
  expect "1 problems, 0 failed" gpudnn-bench --once "act fwd relu f32 nchw n2c3h4w5"
  expect "host_reference" gpudnn-explain "act fwd relu f32 nchw n2c3h4w5"
  expect "first" gpudnn-tune --min-time 0 "conv fwd f32 nchw n1c2h5w5 k3r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=default"
  for program in bench explain tune; do expect "GPUDNN" zcat "/usr/share/man/man1/gpudnn-$program.1.gz"; done
  expect "cudnnCreate" gpudnn-cudnn-imports --library /usr/lib/libgpudnn.so.1 elsewhere
  took "removal" apt purge libgpudnn1 libgpudnn-dev libgpudnn-compat gpudnn-tools
  local left
  left=$(find /usr /etc /var -name '*gpudnn*' -not -path '/var/cache/*' -not -path '/var/lib/dpkg/*')
  [[ -z $left ]] || { echo "FAILED  left behind: $left" && exit 1; }
  echo "ok      nothing is left behind"
}

demo() {
  took demo libgpudnn/scripts/demo.sh --min-accuracy 90
  grep -h 'accuracy' "demo.log" | tail -n 1
}

tests() {
  took tests libgpudnn/scripts/test.sh -L quick
  tail -n 1 tests.log
}

"$1"
