#!/usr/bin/env bash
# Builds everything and runs every test. Installs what is missing first.
#
# usage: scripts/test.sh [option of ctest...]
#   for example   scripts/test.sh -R conv
#   GPUDNN_CUDA=OFF   hides CUDA: the host backend alone, in build/host. Otherwise, where an nvcc is found, the CUDA
#                     kernels are built too, in build/cuda; tests that need a GPU are skipped where there is none.
#   JOBS=N            jobs of the build and of ctest
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$ROOT/scripts/setup.sh"

if nvcc=$(find_nvcc); then
  preset=cuda
  say "building the host and the CUDA backend ($nvcc)"
else
  preset=host
  say "building the host backend"
fi
configure "$preset" -DGPUDNN_BUILD_TESTS=ON -DGPUDNN_BUILD_SAMPLES=ON -DGPUDNN_BUILD_BENCHMARKS=ON
build "$preset"

if [[ $preset == host ]]; then
  backend="host backend"
elif have_gpu; then
  backend="host and CUDA backends"
else
  backend="host backend (the CUDA code was built; there is no GPU to run it on)"
fi
say "testing: $backend"
report=$ROOT/build/$preset/tests.xml
closing=$ROOT/build/$preset/tests.txt
rm -f "$report" "$closing"
status=0
# The whole output of each test goes into the report: the closing line is counted from it.
(cd "$ROOT" && ctest --preset "$preset" -j "$JOBS" --output-junit "$report" \
  --test-output-size-passed 1000000 --test-output-size-failed 1000000 "$@") || status=$?

if [[ -e $report ]]; then
  echo
  echo "$backend: $("$ROOT/scripts/test_totals.py" "$report")" | tee "$closing"
fi
exit "$status"
