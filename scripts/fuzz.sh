#!/usr/bin/env bash
# Runs the libFuzzer targets of tests/fuzz: builds them with clang under AddressSanitizer, makes a folder of seeds for each, and
# fuzzes until so many inputs ran or so much time passed. Prints a line for each target; what crashes it lies in its folder.
#
# usage: scripts/fuzz.sh [--runs N] [--seconds S] [--jobs J] [target...]
#   --runs N      inputs of each target (default: 10000000)
#   --seconds S   at most so long for each target (default: 3600)
#   --jobs J      processes of a target, which share the inputs (default: 1)
#   FUZZ_BINARIES=DIR   the programs lie there already; nothing is built
#   FUZZ_WORK=DIR       corpora and logs go there (default: build/fuzz/work)
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

all=(problem_text graph_text tuning_file plan_json backend_attributes classic_calls sample_files)
runs=10000000 seconds=3600 jobs=1 targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --runs | --seconds | --jobs)
      [[ $# -ge 2 ]] || die "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift
      ;;
    -*) die "unknown option '$1'; see the top of scripts/fuzz.sh" ;;
    *) targets+=("$1") ;;
  esac
  shift
done
[[ ${#targets[@]} -gt 0 ]] || targets=("${all[@]}")
work=${FUZZ_WORK:-$ROOT/build/fuzz/work}

binaries=${FUZZ_BINARIES:-}
if [[ -z $binaries ]]; then
  command -v clang++ >/dev/null || die "there is no clang++ (Debian's package clang)"
  cmake -S "$ROOT" --preset asan -B "$ROOT/build/fuzz" -DGPUDNN_FUZZ=ON -DGPUDNN_BUILD_BENCHMARKS=OFF \
    -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ >/dev/null
  cmake --build "$ROOT/build/fuzz" -j "$JOBS" --target "${targets[@]/#/fuzz_}"
  binaries=$ROOT/build/fuzz/tests/fuzz
fi

# The seeds of a target: its files' lines, blocks between lines that begin with "==", or lines of hexadecimal digits.
seeds() {
  python3 - "$ROOT" "$1" "$2" <<'PYTHON'
import hashlib, pathlib, sys
root, target, folder = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
cases, corpus = root / "tests/cases", root / "tests/fuzz/corpus"
lines = lambda files: [line for file in files for line in file.read_text().splitlines() if line and line[0] != "#"]
blocks = lambda files: [block.split("\n", 1)[-1] for file in files for block in ("\n" + file.read_text()).split("\n==")[1:]]
if target == "problem_text":
    found = lines([*(f for f in cases.glob("*/*.txt") if f.parent.name != "graph"), corpus / "problems.txt"])
elif target == "graph_text":
    found = blocks([*cases.glob("graph/*.txt"), corpus / "graphs.txt"])
elif target == "tuning_file":
    found = blocks([corpus / "tuning.txt"]) or [(corpus / "tuning.txt").read_text()]
elif target == "plan_json":
    found = lines([corpus / "plans.txt"])
else:
    found = [bytes.fromhex(line) for line in lines([corpus / f"{target}.hex"])]
folder.mkdir(parents=True, exist_ok=True)
for seed in found:
    data = seed if isinstance(seed, bytes) else seed.encode()
    (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)
PYTHON
}

export GPUDNN_BACKEND=host GPUDNN_HOST_THREADS=1
# One process of a target; its own corpus and log.
fuzz() {
  local target=$1 folder=$work/$1/$2
  seeds "$target" "$folder/corpus"
  (cd "$folder" && timeout $((seconds + 600)) "$binaries/fuzz_$target" -runs=$((runs / jobs)) -max_total_time="$seconds" -max_len=4096 \
    -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 corpus >log.txt 2>&1)
}
failed=0
printf '%-20s %12s %8s %9s %s\n' target inputs seconds covered result
for target in "${targets[@]}"; do
  begin=$SECONDS pids=() result=ok
  for ((job = 0; job < jobs; ++job)); do
    mkdir -p "$work/$target/$job"
    fuzz "$target" "$job" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || result="FAILED, see $work/$target/*/log.txt"; done
  [[ $result == ok ]] || failed=1
  ran=$(awk '/^stat::number_of_executed_units:/ { sum += $2 } END { print sum }' "$work/$target"/*/log.txt)
  covered=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$work/$target"/*/log.txt | sort -n | tail -n 1)
  printf '%-20s %12s %8s %9s %s\n' "$target" "${ran:-?}" $((SECONDS - begin)) "${covered:-?}" "$result"
done
exit "$failed"
