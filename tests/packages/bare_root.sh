#!/usr/bin/env bash
# The packages, and the two commands of README, in a Debian that has nothing: a root made by debootstrap, entered by chroot
# (as root; takes the network for Debian's packages). Prints how long each step took.
#
# usage: tests/packages/bare_root.sh [--suite NAME] [--root DIR] [part...]
#   --suite NAME   Debian's release (default: bookworm)
#   --root DIR     where the root is or will be made (default: build/roots/NAME); it is kept, and what parts install in it too
#   parts:
#     packages     installs the packages of build/packages, which `cpack` put there, and uses them: find_package, pkg-config, C,
#                  preload, tools; then takes them off again
#     demo         scripts/demo.sh from a fresh clone
#     tests        scripts/test.sh -L quick from a fresh clone
#   PACKAGES=DIR   the packages lie there
#   MIRROR=URL     Debian's packages come from there
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

suite=bookworm root='' parts=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --suite | --root)
      [[ $# -ge 2 ]] || die "$1 needs a value"
      if [[ $1 == --suite ]]; then suite=$2; else root=$2; fi
      shift
      ;;
    packages | demo | tests) parts+=("$1") ;;
    *) die "unknown argument '$1'; see the top of tests/packages/bare_root.sh" ;;
  esac
  shift
done
[[ ${#parts[@]} -gt 0 ]] || parts=(packages demo tests)
[[ $(id -u) -eq 0 ]] || die "chroot needs root"
root=${root:-$ROOT/build/roots/$suite}
packages=${PACKAGES:-$ROOT/build/packages}

if [[ ! -e $root/usr/bin/apt-get ]]; then
  command -v debootstrap >/dev/null || die "there is no debootstrap (a package of that name)"
  say "making $root"
  mkdir -p "$root"
  debootstrap --variant=minbase "$suite" "$root" "${MIRROR:-http://deb.debian.org/debian}" >"$root.log" 2>&1 ||
    die "debootstrap failed, see $root.log"
fi

# inside PART: runs it in the root, with a /proc of its own, which goes with the last process.
inside() {
  install -D -m 755 "$ROOT/tests/packages/in_root.sh" "$root/work/in_root.sh"
  # shellcheck disable=SC2016
  unshare --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" /usr/bin/env -i \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive GPUDNN_CUDA=OFF GPUDNN_BACKEND=host \
    JOBS="$2" /work/in_root.sh "$1"' "$root" "$1" "$JOBS"
}

for part in "${parts[@]}"; do
  say "$part in $suite"
  rm -rf "$root/work"
  mkdir -p "$root/work"
  if [[ $part == packages ]]; then
    compgen -G "$packages/*.deb" >/dev/null || die "there are no packages in $packages: cpack -B $packages in a build folder makes them"
    cp "$packages"/*.deb "$root/work"
    cp -r "$ROOT/tests/install/consumer" "$ROOT/tests/install/cudnn_consumer" "$root/work"
  else
    # A clone of what is committed.
    git clone -q --depth 1 "file://$ROOT" "$root/work/libgpudnn"
  fi
  inside "$part"
done
