#!/usr/bin/env bash
# From a fresh clone to a trained network: installs what is missing, builds the library and the MNIST sample, trains it
# and prints its accuracy. On the GPU where there is one and an nvcc to build for it, else on the CPU.
#
# usage: scripts/demo.sh [option of the sample...]
#   for example   scripts/demo.sh --data DIR --epochs 3 --errors errors.png
#   GPUDNN_DATA=DIR   a directory with MNIST's files, as --data; without either the sample draws its own digits
#   GPUDNN_CUDA=OFF   the host backend alone
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$ROOT/scripts/setup.sh" --demo

# The CUDA kernels take minutes to compile, so only for a GPU that can run them.
if have_gpu && nvcc=$(find_nvcc); then
  preset=cuda
  say "building for the CPU and the GPU ($nvcc)"
else
  preset=host
  say "building for the CPU"
fi
# A folder of its own: the presets' folders keep their options, and build the tests.
BUILD_FOLDER=demo-$preset
configure "$preset" -DGPUDNN_BUILD_TESTS=OFF -DGPUDNN_BUILD_BENCHMARKS=OFF
build "$preset" sample_mnist

# given OPTION: whether the command line has it.
command_line=" $* "
given() { [[ $command_line == *" $1 "* || $command_line == *" $1="* ]]; }
arguments=("$@")
# Of the sample's eight passes a CPU makes one over all 60000 digits, which take it minutes, and three over those that
# the sample draws, which do as well.
passes=
if ! given --data; then
  passes=3
  if [[ -n ${GPUDNN_DATA:-} ]]; then
    arguments=(--data "$GPUDNN_DATA" "$@")
    passes=
    if compgen -G "$GPUDNN_DATA/train-images*" >/dev/null; then passes=1; fi
  fi
fi
if [[ $preset == host && -n $passes ]] && ! given --epochs && ! given --load && ! given --classify; then
  echo "passes over the training digits: $passes; --epochs N makes it more"
  arguments+=(--epochs "$passes")
fi
say "training a network that reads handwritten digits"
exec "$(folder_of "$preset")/samples/02_mnist" "${arguments[@]}"
