# shellcheck shell=bash
# What the scripts share: finding nvcc and a GPU, configuring and building. Sourced, not run.
# SPDX-License-Identifier: Apache-2.0

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOBS=${JOBS:-$(nproc 2>/dev/null || echo 2)}

say() { printf '\n== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Prints the CUDA compiler: CUDACXX, else nvcc of the PATH, else of /usr/local/cuda. Fails where there is none, or where
# GPUDNN_CUDA=OFF hides it.
find_nvcc() {
  [[ ${GPUDNN_CUDA:-AUTO} != OFF ]] || return 1
  if [[ -n ${CUDACXX:-} ]]; then
    command -v "$CUDACXX" || die "CUDACXX is '$CUDACXX', which cannot be run"
  elif command -v nvcc; then
    :
  elif [[ -x /usr/local/cuda/bin/nvcc ]]; then
    echo /usr/local/cuda/bin/nvcc
  else
    return 1
  fi
}

# Whether a CUDA device is there.
have_gpu() {
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi -L 2>/dev/null | grep -q '^GPU '
  else
    [[ -e /dev/nvidiactl && -e /dev/nvidia0 ]]
  fi
}

# The build folder of a preset; BUILD_FOLDER, where it is set, stands for it.
folder_of() { echo "$ROOT/build/${BUILD_FOLDER:-$1}"; }

# configure PRESET [cmake option...]: into its folder. Says nothing but warnings and what failed.
configure() {
  local preset=$1
  shift
  local options=("$@")
  if [[ $preset != host ]] && command -v ccache >/dev/null; then
    # It knows a compilation by all of its text, which a precompiled header hides. The host preset is small enough to be
    # built as a user without ccache builds it, so that what compiles only without the precompiled headers is found.
    options+=(-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON)
    options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    [[ $preset != cuda ]] || options+=(-DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  if [[ $preset == cuda ]]; then
    local nvcc
    nvcc=$(find_nvcc) || die "no nvcc was found; put it on the PATH or set CUDACXX"
    export CUDACXX=$nvcc  # read by the first configuration of a build directory
  fi
  local log
  if ! log=$(cd "$ROOT" && cmake --preset "$preset" -B "$(folder_of "$preset")" "${options[@]}"); then
    printf '%s\n' "$log" >&2
    die "the configuration of $(folder_of "$preset") failed (cmake --preset $preset)"
  fi
  grep -E 'gpudnn:|not built' <<<"$log" || true
}

# build PRESET [target...]: with JOBS jobs and ninja's progress line.
build() {
  local preset=$1
  shift
  local targets=()
  [[ $# -eq 0 ]] || targets=(--target "$@")
  (cd "$ROOT" && NINJA_STATUS='[%f/%t, %es] ' cmake --build "$(folder_of "$preset")" -j "$JOBS" "${targets[@]}") ||
    die "the build of $(folder_of "$preset") failed"
}
