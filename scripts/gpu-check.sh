#!/usr/bin/env bash
# Everything that needs a GPU, on binaries that were built already: no compiler and no cmake is needed here. Goes on after
# a failure; a table of what passed comes last, and the exit status is 0 only if all of it did.
#
# usage: scripts/gpu-check.sh [--build-dir DIR] [--out DIR] [part...]
#   --build-dir DIR   holds src/libgpudnn.so*, compat/, tests/, samples/, benchmarks/   (default: build/cuda)
#   --out DIR         logs, benchmark tables, pictures                         (default: gpu-check-<date>)
#   parts, all by default, in this order:
#     device        the GPU, and that the library computes on it
#     tests         every test program; a case skipped for want of a GPU is a failure
#     dropin        programs written for cuDNN, of each age and as binaries, through libcudnn.so.9 with LD_BIND_NOW=1
#     samples       the samples on the GPU
#     determinism   two trainings in two processes give the same weights, bit for bit
#     sanitizer     compute-sanitizer (memcheck, racecheck, synccheck) on benchmarks/cases/sanitizer*.txt
#     bench         a table for each other list of benchmarks/cases
#     against       the same next to NVIDIA's libcudnn, where it is found or GPUDNN_PEER_LIB names it
#     matmul        benchmarks/cases/matmul.txt next to cuBLASLt
#   LIMIT=SECONDS     time limit of each program (default 600)
#   JOBS=N            the longest test programs run as N/2 processes each (default: the processors)
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

build_dir=$ROOT/build/cuda
out=gpu-check-$(date +%Y%m%d-%H%M%S)
parts=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --build-dir | --out)
      [[ $# -ge 2 ]] || die "$1 needs a directory"
      if [[ $1 == --out ]]; then out=$2; else build_dir=$2; fi
      shift
      ;;
    device | tests | dropin | samples | determinism | sanitizer | bench | against | matmul) parts+=("$1") ;;
    *) die "unknown argument '$1'; see the top of scripts/gpu-check.sh" ;;
  esac
  shift
done
[[ ${#parts[@]} -gt 0 ]] || parts=(device tests dropin samples determinism sanitizer bench against matmul)
[[ -d $build_dir ]] || die "there is no build directory '$build_dir'; build the preset 'cuda' first or name it by --build-dir"
build_dir=$(cd "$build_dir" && pwd)
mkdir -p "$out" && out=$(cd "$out" && pwd)
export LD_LIBRARY_PATH=$build_dir/src${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export GPUDNN_TEST_CASES_DIR=$ROOT/tests/cases  # the tree may lie elsewhere than where it was built
unset GPUDNN_BACKEND
limit=${LIMIT:-600}
bench=$build_dir/benchmarks/gpudnn-bench
cases=$ROOT/benchmarks/cases

rows=()
failures=0
# note VERDICT NAME DETAIL: a row of the table; the verdicts are ok, FAILED and not run.
note() {
  rows+=("$(printf '%-8s %-34s %s' "$1" "$2" "$3")")
  printf '%-8s %-34s %s\n' "$1" "$2" "$3"
  [[ $1 != FAILED ]] || failures=$((failures + 1))
}
# logged NAME COMMAND...: runs it with its output in OUT/NAME.log and its seconds in `seconds`.
logged() {
  local name=$1 begin=$SECONDS status=0
  shift
  timeout "$limit" "$@" >"$out/$name.log" 2>&1 || status=$?
  seconds=$((SECONDS - begin))
  [[ $status -eq 0 ]] || tail -n 30 "$out/$name.log"
  return "$status"
}
# check NAME COMMAND...: the same, as a row.
check() {
  local name=$1 status=0
  logged "$@" || status=$?
  if [[ $status -eq 0 ]]; then
    note ok "$name" "${seconds} s"
  elif [[ $status -eq 124 ]]; then
    note FAILED "$name" "not done after $limit s"
  else
    note FAILED "$name" "exit status $status, see $name.log"
  fi
  return "$status"
}

part_device() {
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1 | tee "$out/device.txt"
  check device "$build_dir/samples/01_convolution" --batch 2
}

# One program as several processes at a time, each with its share of the tests and of the host's threads. Logs are
# OUT/NAME.SHARD.log; the statuses that are not 0 are in OUT/NAME.failed.
run_shards() {
  local program=$1 name=$2 shards=1 shard
  case $name in  # those that take minutes; some of the others count what all of their tests did
    graph_test | kernels_test | ops_test) shards=$(((JOBS + 1) / 2)) ;;
  esac
  rm -f "$out/$name.failed"
  for ((shard = 0; shard < shards; ++shard)); do
    (
      [[ $shards -eq 1 ]] || export GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard GPUDNN_HOST_THREADS=2
      timeout "$limit" "$program" >"$out/$name.$shard.log" 2>&1 || echo "$? in $name.$shard.log" >>"$out/$name.failed"
    ) &
  done
  wait
}

# total PATTERN FILE...: the sum of the numbers that the pattern's group finds.
total() {
  local pattern=$1
  shift
  sed -n "$pattern" "$@" | awk '{ sum += $1 } END { print sum + 0 }'
}

part_tests() {
  local program name begin passed skipped
  local -a programs logs
  # Not those of the C++ header and of the samples' files, which work on the host, and of the stand-in for the runtime.
  mapfile -t programs < <(find "$build_dir/tests" -type f -name '*_test' ! -path '*/cpp/*' ! -path '*/samples/*' \
    ! -name standin_test ! -name samples_files_test -perm -u+x | sort)
  [[ ${#programs[@]} -gt 0 ]] || note FAILED tests "there are no test programs in $build_dir/tests"
  for program in "${programs[@]}"; do
    name=$(basename "$program")
    begin=$SECONDS
    run_shards "$program" "$name"
    logs=("$out/$name".*.log)
    passed=$(total 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "${logs[@]}")
    skipped=$(total 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "${logs[@]}")
    if [[ -s $out/$name.failed ]]; then
      note FAILED "$name" "exit status $(paste -sd, "$out/$name.failed")"
      grep -h -A 30 -m 1 'Failure$' "${logs[@]}" | head -n 60
    elif [[ $passed -eq 0 ]]; then
      note FAILED "$name" "no closing line of GoogleTest"
    elif grep -q '^backend: host' "${logs[@]}"; then
      note FAILED "$name" "it ran on the host backend"
    elif grep -qE '^[1-9][0-9]* cases skipped for want of a GPU' "${logs[@]}"; then
      note FAILED "$name" "cases were skipped for want of a GPU, though there is one"
    else
      note ok "$name" "$passed passed, $skipped skipped, $((SECONDS - begin)) s"
    fi
  done
}

part_dropin() {
  local program
  for program in "$build_dir"/tests/compat/compat_{age,binary}_*; do
    check "$(basename "$program")" env GPUDNN_BACKEND=cuda LD_BIND_NOW=1 \
      "LD_LIBRARY_PATH=$build_dir/compat:$LD_LIBRARY_PATH" "$program"
  done
}

part_samples() {
  local math data=()
  [[ -z ${GPUDNN_DATA:-} ]] || data=(--data "$GPUDNN_DATA")
  for math in default tensor half; do
    check "sample_convolution_$math" "$build_dir/samples/01_convolution" --math "$math"
    check "sample_mnist_$math" "$build_dir/samples/02_mnist" --device gpu --min-accuracy 98 --math "$math" \
      --errors "$out/mnist_errors_$math.png" "${data[@]}"
    grep -h 'test accuracy' "$out/sample_mnist_$math.log"
  done
  # Where there is NCCL, on one GPU and on all of them.
  [[ -x $build_dir/samples/07_data_parallel ]] || return 0
  local gpus
  for gpus in $( (echo 1; nvidia-smi --list-gpus 2>/dev/null | wc -l) | sort -nu); do
    check "sample_data_parallel_$gpus" "$build_dir/samples/07_data_parallel" --gpus "$gpus" --min-accuracy 98 "${data[@]}"
    grep -h 'images/s on\|test accuracy' "$out/sample_data_parallel_$gpus.log"
  done
}

part_determinism() {
  local run
  for run in 1 2; do
    logged "determinism_$run" "$build_dir/samples/02_mnist" --device gpu --train 4000 --test 500 --epochs 2 \
      --save "$out/determinism_$run.weights" || {
      note FAILED determinism "training $run failed, see determinism_$run.log"
      return
    }
  done
  check determinism cmp "$out/determinism_1.weights" "$out/determinism_2.weights"
}

part_sanitizer() {
  local sanitizer tool list
  sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer) || {
    note FAILED sanitizer "compute-sanitizer is neither on the PATH nor in /usr/local/cuda/bin"
    return
  }
  for list in "$cases"/sanitizer*.txt; do
    for tool in memcheck racecheck synccheck; do
      # Kernels of cuBLASLt have hazards that are not this library's.
      check "$(basename "$list" .txt)_$tool" env GPUDNN_CUBLAS=0 "$sanitizer" --tool "$tool" --error-exitcode 1 \
        "$bench" --once --cases "$list"
    done
  done
}

# tables NAME [option of the bench...]: one table for each list of cases that the public interface runs.
tables() {
  local what=$1 list name
  local -a lists
  shift
  mapfile -t lists < <(find "$cases" -name '*.txt' ! -name 'sanitizer*.txt' ! -name matmul.txt ! -name layer_norm.txt \
    ! -name pointwise.txt | sort)
  [[ ${#lists[@]} -gt 0 ]] || note FAILED "$what" "there are no lists in $cases"
  for list in "${lists[@]}"; do
    name=${what}_$(basename "$list" .txt)
    check "$name" "$bench" --cases "$list" --csv "$out/$name.csv" "$@" && tail -n 6 "$out/$name.log"
  done
}

part_bench() {
  tables bench
  check bench_layer_norm "$bench" --cases "$cases/layer_norm.txt" --csv "$out/layer_norm.csv" &&
    tail -n 8 "$out/bench_layer_norm.log"
}

# Matrix products next to cuBLASLt's best in the same process.
part_matmul() {
  check matmul "$bench" --cases "$cases/matmul.txt" --against-cublaslt --csv "$out/matmul.csv" && tail -n 8 "$out/matmul.log"
}

# NVIDIA's library: the one named, the one that the dynamic linker knows, or the Python package's.
find_peer() {
  if [[ -n ${GPUDNN_PEER_LIB:-} ]]; then
    echo "$GPUDNN_PEER_LIB"
  else
    {
      ldconfig -p 2>/dev/null | sed -n 's/.*libcudnn\.so\.9 .*=> //p'
      python3 -c 'import nvidia.cudnn as c; print(list(c.__path__)[0] + "/lib/libcudnn.so.9")' 2>/dev/null
    } | while read -r library; do [[ ! -e $library ]] || echo "$library"; done | head -n 1 | grep .
  fi
}

part_against() {
  local peer
  peer=$(find_peer) || {
    note "not run" against "no libcudnn.so.9 was found; GPUDNN_PEER_LIB=FILE names one"
    return
  }
  LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$(dirname "$peer") tables against --against "$peer"
}

for part in "${parts[@]}"; do
  say "$part"
  if [[ $part == tests ]]; then
    part_tests  # which make a host handle too, and say what they ran on
  else
    GPUDNN_BACKEND=cuda "part_$part"  # which fails instead of falling back to the CPU
  fi
done

say "summary (logs in $out)"
printf '%s\n' "${rows[@]}" | tee "$out/summary.txt"
if [[ $failures -gt 0 ]]; then
  printf '%d of %d failed\n' "$failures" "${#rows[@]}" | tee -a "$out/summary.txt"
  exit 1
fi
printf 'all %d passed or had nothing to run\n' "${#rows[@]}" | tee -a "$out/summary.txt"
