#!/usr/bin/env bash
# Installs what building and testing libgpudnn needs on Debian or Ubuntu, by apt. Does nothing where all is there.
# CUDA is not touched: nvcc is used if it is found, and a build without it has the host backend.
#
# usage: scripts/setup.sh [--demo] [--lint]
#   --demo   only what the library and the samples need (no GoogleTest)
#   --lint   clang-format, clang-tidy and shellcheck too
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tests=1 lint=0
for argument in "$@"; do
  case $argument in
    --demo) tests=0 ;;
    --lint) lint=1 ;;
    *) die "unknown option '$argument'; usage: scripts/setup.sh [--demo] [--lint]" ;;
  esac
done

has_header() { printf '#include <%s>\n' "$1" | "${CXX:-g++}" -x c++ -std=c++17 -E - >/dev/null 2>&1; }
has_command() { command -v "$1" >/dev/null; }

# The packages that are missing, one a line.
missing_packages() {
  has_command "${CXX:-g++}" || echo g++
  has_command cmake || echo cmake
  has_command ninja || echo ninja-build
  has_command git || echo git
  has_command pkg-config || echo pkg-config
  has_command python3 || echo python3
  has_header zlib.h || echo zlib1g-dev
  has_header png.h || echo libpng-dev
  has_header CLI/CLI.hpp || echo libcli11-dev
  if ((tests)); then
    has_header gtest/gtest.h || echo libgtest-dev
    has_header jpeglib.h || echo libjpeg-dev
  fi
  if ((lint)); then
    has_command clang-format || echo clang-format
    has_command clang-tidy || echo clang-tidy
    has_command shellcheck || echo shellcheck
  fi
}

mapfile -t missing < <(missing_packages)
if [[ ${#missing[@]} -gt 0 ]]; then
  has_command apt-get || die "missing: ${missing[*]} (Debian's names); this system has no apt-get, so install them by hand"
  sudo=()
  if [[ $(id -u) -ne 0 ]]; then
    has_command sudo || die "missing: ${missing[*]}; not root and no sudo: have them installed, then run this again"
    sudo=(sudo)
  fi
  say "installing ${missing[*]}"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq)
  if ! { "${apt[@]}" update &&
    "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    die "apt-get could not install ${missing[*]}"
  fi
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -eq 0 ]] || die "still missing after the installation: ${missing[*]}"
fi

version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
if [[ $(printf '%s\n3.25\n' "$version" | sort -V | head -n 1) != 3.25 ]]; then
  die "CMake is $version, and 3.25 is needed: try 'python3 -m pip install cmake' or a package of cmake.org"
fi
