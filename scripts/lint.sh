#!/usr/bin/env bash
# Checks format, house rules, scripts, and the host code of src/ by clang-tidy (each file takes one to two seconds).
#
# usage: scripts/lint.sh [--fast]
#   --fast   without clang-tidy
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tidy=1
for argument in "$@"; do
  case $argument in
    --fast) tidy=0 ;;
    *) die "unknown option '$argument'; usage: scripts/lint.sh [--fast]" ;;
  esac
done
"$ROOT/scripts/setup.sh" --lint
cd "$ROOT"

failed=()
# verdict NAME STATUS [findings]: notes a failure and prints its findings.
verdict() {
  if [[ $2 -eq 0 ]]; then
    printf 'ok      %s\n' "$1"
  else
    printf 'FAILED  %s\n%s\n' "$1" "${3:-}"
    failed+=("$1")
  fi
}
# forbid NAME FINDINGS: fails if there is any finding.
forbid() { verdict "$1" "$([[ -z $2 ]]; echo $?)" "$2"; }

# Every file that git tracks or would; a deleted one is still listed, so only those that are there.
mapfile -t all < <(git ls-files --cached --others --exclude-standard | sort -u | while read -r f; do [[ ! -f $f ]] || echo "$f"; done)
matching() { printf '%s\n' "${all[@]}" | grep -E "$1" || true; }
mapfile -t sources < <(matching '\.(c|h|cpp|hpp|cu|cuh)$')
mapfile -t scripts < <(matching '(\.sh$|^\.ci/)')

say "lint: ${#sources[@]} sources, ${#scripts[@]} scripts"
status=0
findings=$(clang-format --dry-run -Werror "${sources[@]}" 2>&1) || status=$?
verdict "clang-format" "$status" "$(grep -E 'error:' <<<"$findings" | head -n 40)"

status=0
findings=$(shellcheck -x "${scripts[@]}" 2>&1) || status=$?
verdict "shellcheck" "$status" "$findings"

mapfile -t licensed < <(matching '\.(c|h|cpp|hpp|cu|cuh|sh|py)$')
forbid "every source names its licence (SPDX)" "$(grep -L 'SPDX-License-Identifier: Apache-2.0' "${licensed[@]}")"

statement='(^|[^A-Za-z0-9_"])(asm|__asm__|__asm)[[:space:]]*(volatile|__volatile__)?[[:space:]]*\('
forbid "asm stands only in kernels/ptx" \
  "$(printf '%s\n' "${sources[@]}" | grep -v '^kernels/ptx/' | xargs grep -nE "$statement" /dev/null || true)"

forbid "the environment is read only in src/core/environment.cpp" \
  "$(printf '%s\n' "${sources[@]}" | grep -E '^(src|kernels)/' | grep -v '^src/core/environment.cpp$' |
    xargs grep -nE '\b(secure_)?getenv\b' /dev/null || true)"

# kernels/ may include a header of src/ only if the header itself says, in its first lines, that it is plain data.
kernel_includes() {
  local line header
  printf '%s\n' "${sources[@]}" | grep '^kernels/' |
    xargs grep -nE '#include "(src/)?(api|core|ops|host|graph|fusion)/' /dev/null | while read -r line; do
    header=src/$(sed -E 's/.*#include "(src\/)?([^"]*)".*/\2/' <<<"$line")
    head -n 15 "$header" 2>/dev/null | grep -qi 'plain data' || printf '%s\n' "$line"
  done || true
}
forbid "kernels/ includes no header of src/ but plain data" "$(kernel_includes)"

# Kernels that may be part of cuda::launch_together: one that went to the device by itself would overtake the others.
together='^kernels/((conv|fused_ops|ctc)/|tensor/transpose|tile/elementwise|spatial_transformer/(sampler|image_))'
forbid "kernels that are launched together go through tile::launch_kernel" \
  "$(printf '%s\n' "${sources[@]}" | grep -E "$together" |
    xargs grep -nE '<<<|cudaLaunch|cudaMem(cpy|set)' /dev/null || true)"

# Engines that src/CMakeLists.txt compiles from one PTX (ONE_PTX): what asks for a later architecture there is left out in
# silence. The lines of their kernels, and of all that these include, that ask for Hopper.
asks_for_hopper() {
  python3 - <<'PYTHON'
import glob, re
todo = [f for f in glob.glob("kernels/**/*.cu", recursive=True) if re.search(r"_(simt|sm80)[a-z0-9_]*\.cu$", f)]
seen = set()
while todo:
    path = todo.pop()
    if path in seen:
        continue
    seen.add(path)
    for number, line in enumerate(open(path), 1):
        if re.search(r"__CUDA_ARCH__ *>=? *9", line):
            print(f"{path}:{number}: {line.strip()}")
        if match := re.match(r'#include "(kernels/[^"]+)"', line):
            todo.append(match[1])
PYTHON
}
forbid "engines of one PTX ask for no later architecture" "$(asks_for_hopper)"

# Private words for what the field has a name for (in brackets: what to say).
words=(
  'ways? out'                        # epilogue
  'copy engine|[cC]opy_?[bB]ox'      # TMA, TMA box
  '[bB]locks? of k\b'                # k tiles
  '\bTurn\b|wait_for_turn'           # PipelineState, ping-pong order
  'few_?channels|FewChannels'        # small_c
  'halo_(sm90|filter)'               # direct, direct_wgrad
  'pointwise_planes|PointwisePlanes' # conv1x1_nchw
  'via_nhwc|ViaNhwc'                 # nhwc_transpose
  'patch_rows|PatchRows'             # smem_im2col
  'residue class'                    # stride phase
  'obstacle'                         # unsupported_reason
  'ask_once|ToldDevices'             # cached query, configured devices
  'waits_by_itself|filter_is_late'   # PDL
  'grid_?[sS]lot'                    # inter-CTA mailbox
  'take_help'                        # stream-K fix-up
  '\brectify|\bblend'                # relu, clamp; linear combination
  'kMost[A-Z]|kFewest'               # kMax, kMin
  'backward_(data|filter)\b'         # dgrad, wgrad
  '\brooms\b'                        # layers
)
forbid "the field's words, not private ones" \
  "$(printf '%s\n' "${all[@]}" | grep -E '^(src|kernels|tests|docs|benchmarks/[a-z_]*\.)|^README.md' |
    xargs grep -nE "$(IFS='|'; echo "${words[*]}")" /dev/null || true)"

# includes FROM TO: lines under src/FROM that include a header of a directory that FROM must not know.
includes() {
  printf '%s\n' "${sources[@]}" | grep -E "^src/$1/" | xargs grep -nE "#include \"($2)/" /dev/null || true
}
forbid "no file includes upward" "$(includes core 'api|ops|host|graph|fusion'; includes '(ops|host)' 'api|graph')"

# The header files of the standard library that take the CUDA compiler longer than most kernels do: it parses them three
# or four times for each file. Launchers have kernels/tile/least.hpp; host code of kernels/ may lie in a .cpp file.
forbid "kernels include no large header of the standard library" \
  "$(printf '%s\n' "${sources[@]}" | grep -E '^kernels/.*\.(cu|cuh|hpp)$' |
    xargs grep -nE '#include <(algorithm|atomic|functional|iterator|map|memory|mutex|optional|span|string|tuple|vector)>' \
      /dev/null || true)"

# Only what the host build compiles: clang-tidy would need CUDA's headers for the rest. Without a precompiled header, so
# that a file which lacks an include is found.
run_clang_tidy() {
  local files
  mapfile -t files < <(python3 - <<'PYTHON'
import json, os
files = {os.path.relpath(entry["file"]) for entry in json.load(open("build/lint/compile_commands.json"))}
print("\n".join(sorted(file for file in files if file.startswith("src/"))))
PYTHON
  )
  say "clang-tidy: ${#files[@]} files"
  status=0
  findings=$(printf '%s\n' "${files[@]}" | xargs -P "$JOBS" -n 4 clang-tidy --quiet -p build/lint 2>/dev/null) || status=$?
  verdict "clang-tidy" "$status" "$findings"
}
if ((tidy)); then
  status=0
  findings=$(cmake --preset host -B build/lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON 2>&1) || status=$?
  if [[ $status -eq 0 ]]; then
    run_clang_tidy
  else
    verdict "clang-tidy (the configuration of build/lint)" "$status" "$findings"
  fi
fi

if [[ ${#failed[@]} -gt 0 ]]; then
  printf '\nlint: %d of the checks failed:\n' "${#failed[@]}"
  printf '  %s\n' "${failed[@]}"
  exit 1
fi
printf '\nlint: all checks passed\n'
