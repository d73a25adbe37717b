#!/usr/bin/env bash
# Runs the fuzz targets of tests/fuzz under AddressSanitizer, until so many inputs ran or so much time passed: as libFuzzer
# programs where there is a clang++ that has it, else by the driver that the tests have. Makes a folder of seeds for each target.
# Prints a line for each, and what crashes it as a file's path; fails where one crashed or ran nothing.
#
# usage: scripts/fuzz.sh [--runs N] [--seconds S] [--jobs J] [--at-once T] [target...]
#   --runs N      inputs of each target (default: 10000000)
#   --seconds S   at most so long for each target (default: 3600)
#   --jobs J      processes of a target, which share the inputs (default: 1)
#   --at-once T   targets that run beside each other (default: 1)
#   FUZZ_BINARIES=DIR   the programs lie there already; nothing is built
#   FUZZ_WORK=DIR       corpora, logs and the table go there (default: build/fuzz/work)
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

all=(problem_text graph_text tuning_file plan_json backend_attributes classic_calls sample_files)
runs=10000000 seconds=3600 jobs=1 at_once=1 targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --runs | --seconds | --jobs | --at-once)
      [[ $# -ge 2 ]] || die "$1 needs a value"
      name=${1#--}
      printf -v "${name//-/_}" %s "$2"
      shift
      ;;
    -*) die "unknown option '$1'; see the top of scripts/fuzz.sh" ;;
    *) targets+=("$1") ;;
  esac
  shift
done
[[ ${#targets[@]} -gt 0 ]] || targets=("${all[@]}")
work=$(realpath -m "${FUZZ_WORK:-$ROOT/build/fuzz/work}")

has_libfuzzer() {
  command -v clang++ >/dev/null &&
    clang++ -fsanitize=fuzzer,address -x c++ -o /dev/null - 2>/dev/null \
      <<<'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
}

binaries=${FUZZ_BINARIES:-}
if [[ -z $binaries ]]; then
  if has_libfuzzer; then
    BUILD_FOLDER=fuzz
    options=(-DGPUDNN_FUZZ=ON -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
  else
    say "no clang++ with libFuzzer (Debian's package clang): the driver of the tests runs the targets"
    BUILD_FOLDER=fuzz-driver
    options=()
  fi
  configure asan -DGPUDNN_BUILD_BENCHMARKS=OFF "${options[@]}"
  build asan "${targets[@]/#/fuzz_}"
  binaries=$(folder_of asan)/tests/fuzz
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
[[ ! -w /dev/shm ]] || export TMPDIR=/dev/shm  # sample_files writes a file for each input
# One process of a target; its own corpus and log.
fuzz() {
  local target=$1 folder=$work/$1/$2
  mkdir -p "$folder"
  seeds "$target" "$folder/corpus" >"$folder/log.txt" 2>&1 || return 1
  (cd "$folder" && timeout $((seconds + 600)) "$binaries/fuzz_$target" -runs=$((runs / jobs)) -max_total_time="$seconds" -max_len=4096 \
    -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$folder/" corpus >log.txt 2>&1)
}
# All processes of a target, and its line.
fuzz_target() {
  local target=$1 begin=$SECONDS pids=() result=ok log=$work/$1
  for ((job = 0; job < jobs; ++job)); do
    fuzz "$target" "$job" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || result=FAILED; done
  local ran covered
  ran=$(awk '/^stat::number_of_executed_units:/ { sum += $2 } END { print sum + 0 }' "$log"/*/log.txt)
  covered=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log"/*/log.txt | sort -n | tail -n 1)
  [[ $ran -gt 0 ]] || result=FAILED
  printf '%-20s %12s %8s %9s %s\n' "$target" "$ran" $((SECONDS - begin)) "${covered:--}" "$result" | tee -a "$work/table.txt"
  [[ $result == FAILED ]] || return 0
  printf '  see %s\n' "$log"/*/log.txt
  sed -n 's/.*Test unit written to /  input: /p' "$log"/*/log.txt
  return 1
}
mkdir -p "$work"
printf '%-20s %12s %8s %9s %s\n' target inputs seconds covered result | tee "$work/table.txt"
failed=0 running=0
for target in "${targets[@]}"; do
  if ((running == at_once)); then
    wait -n || failed=1
    ((--running)) || true
  fi
  fuzz_target "$target" &
  ((++running))
done
for ((; running > 0; --running)); do wait -n || failed=1; done
exit "$failed"
