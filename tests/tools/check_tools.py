"""Runs gpudnn-explain, gpudnn-bench and gpudnn-tune as a user does, on the host backend.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CONV = "conv fwd f32 nchw n1c16h14w14 k16r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=default"
failures = []


def expect(condition, message):
    if not condition:
        failures.append(message)


def run(*command, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env=environment)


def check_explain(explain):
    result = run(explain, "--measure", CONV, "softmax fwd accurate channel f32 nchw n4c10h1w1")
    expect(result.returncode == 0, f"gpudnn-explain failed: {result.stderr}")
    for engine in ("host_gemm", "host_direct", "host_reference"):
        line = next((line for line in result.stdout.splitlines() if engine in line), "")
        measured = re.findall(r"([\d.]+) us", line)
        expect(measured and float(measured[-1]) > 0, f"gpudnn-explain --measure has no time for {engine}: {result.stdout}")
    first = re.search(r"^ +1 +(\S+)", result.stdout, re.MULTILINE)
    expect(first and first[1] == "host_gemm", f"gpudnn-explain ranks {first and first[1]} first")
    pinned = run(explain, CONV, GPUDNN_ENGINES="host_direct").stdout
    expect("host_gemm: GPUDNN_ENGINES pins another one" in pinned, f"no reason of a refusal: {pinned}")
    for wrong in ("conv nonsense", "im2col f32 nchw n1c3h8w9 taps=3x2 p1x0 t1x1 d1x1",
                  "conv fwd f32 nchw n1c16h14w14 k16r99s3 p1x1 t1x1 d1x1 g1"):
        result = run(explain, wrong)
        expect(result.returncode == 2 and result.stderr, f"gpudnn-explain takes '{wrong}'")
    unknown = run(explain, "--device", "abacus", CONV)
    expect(unknown.returncode == 2 and "h200" in unknown.stderr, "an unknown device is not refused with the known ones")


def check_described_device(explain, has_cuda):
    """What an H200 would do, with none at hand."""
    if not has_cuda:
        result = run(explain, "--device", "h200", CONV)
        expect(result.returncode == 2 and "CUDA" in result.stderr, "a build without CUDA explains an H200")
        return
    problems = {
        "conv fwd f16 nhwc n64c256h56w56 k64r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor": "implicit_gemm_sm90",
        "conv wgrad f16 nhwc n64c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor": "sm90",
        "matmul f16 f16->f16 m4096n4096k4096": "gemm_sm90",
        "bn train spatial f16 nhwc n64c256h14w14": "segments",
    }
    for problem, engine in problems.items():
        result = run(explain, "--device", "h200", problem)
        first = re.search(r"^ +1 +(\S+)", result.stdout, re.MULTILINE)
        expect(result.returncode == 0 and first and engine in first[1],
               f"an H200's first choice for '{problem}' is not {engine}: {result.stdout}{result.stderr}")
        expect("floor:" in result.stdout and "NVIDIA H200" in result.stdout, f"no floor: {result.stdout}")
        expect("passed over:" in result.stdout, f"no engine is passed over: {result.stdout}")
        expect("the driver" not in result.stdout, f"a described device was asked: {result.stdout}")
    large = run(explain, "--device", "h200", "conv fwd i8 nhwc n32c512h28w28 k512r3s3 p1x1 t1x1 d1x1 g1 acc=i32 math=fma").stdout
    share = re.search(r"^ +1 .* us +(\d+) %", large, re.MULTILINE)
    expect(share and 20 < int(share[1]) <= 100, f"8-bit integers run at a share of their floor beyond belief: {large}")


def check_help(bench):
    page = (pathlib.Path(__file__).parents[2] / "docs/problem-language.md").read_text(encoding="utf-8")
    for operation in ("conv", "norm", "matmul"):
        row = next(row for row in page.splitlines() if row.startswith("| `") and f"`{operation}`" in row.split("|")[1])
        example = row.split("|")[-2].strip(" `")
        told = run(bench, "--help", operation)
        expect(told.returncode == 0 and example in told.stdout, f"--help {operation} prints no example: {told.stdout}")
    # Every operation that gpudnn-bench takes has its row, and so its help.
    taken = re.search(r"is none of (.*)", run(bench, "nosuch").stderr)
    operations = taken[1].split(", ") if taken else []
    expect(len(operations) > 15, f"gpudnn-bench does not say which operations it takes: {operations}")
    for operation in operations:
        told = run(bench, "--help", operation).stdout
        expect("example:" in told, f"--help {operation}: {told}")
    expect("there are conv," in run(bench, "--help", "nosuch").stdout, "--help takes an unknown operation")
    plain = run(bench, "--help")
    expect(plain.returncode == 0 and "--replay" in plain.stdout, "--help prints no options")


def check_first_calls(bench):
    """What has no choice of engines makes no query, and has no part in the queries' mean."""
    result = run(bench, "--first-call", "--min-time", "0", CONV, "act fwd relu f32 nchw n2c3h4w5")
    closing = [line for line in result.stdout.splitlines() if line.startswith("first ")]
    expect(len(closing) == 2 and not any("nan" in line for line in closing), f"--first-call closes with {closing}")


def check_man_page(program, page):
    """The page has the options of --help and no others, exit statuses that are so, variables that exist; troff takes it."""
    text = page.read_text(encoding="utf-8")
    plain = text.replace("\\-", "-")
    told = set(re.findall(r"--[a-z0-9-]+", plain.split(".SH OPTIONS")[1].split(".SH ")[0]))
    shown = set(re.findall(r"--[a-z0-9-]+", run(program, "--help").stdout))
    expect(len(shown) > 4 and told == shown, f"{page.name} and --help differ in {sorted(told ^ shown)}")
    statuses = re.findall(r"^\.B (\d)$", text.split(".SH EXIT STATUS")[1].split(".SH ")[0], re.MULTILINE)
    for arguments, status in ((["--help"], 0), (["--nosuch"], 2), ([], 2)):
        found = run(program, *arguments).returncode
        expect(found == status and str(status) in statuses, f"{program.name} {arguments} exits with {found}; {page.name}: {statuses}")
    known = (pathlib.Path(__file__).parents[2] / "docs/environment.md").read_text(encoding="utf-8")
    for name in set(re.findall(r"GPUDNN_[A-Z_]+", plain)):
        expect(f"`{name}`" in known, f"{page.name} names {name}, which docs/environment.md does not")
    expect("@" not in text, f"{page.name} has a place that was not filled")
    if shutil.which("groff"):
        result = run("groff", "-man", "-Tascii", "-ww", "-z", page)
        expect(result.returncode == 0 and not result.stderr, f"groff on {page.name}: {result.stderr}")


def check_replay(bench, samples, folder):
    log = folder / "calls.log"
    for sample in samples:
        result = run(sample, GPUDNN_LOGLEVEL="3", GPUDNN_LOGDEST=str(log))
        expect(result.returncode == 0, f"{sample} failed: {result.stderr}")
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    executed = [line for line in lines if " | engine=" in line]
    expect(any("gpudnnBackendExecute" in line for line in executed), "the samples executed no graph")
    result = run(bench, "--replay", log)
    summary = re.search(r"^(\d+) calls of \d+ problems run again: .*; (\d+) calls passed over$", result.stdout, re.MULTILINE)
    expect(result.returncode == 0 and summary and int(summary[1]) == len(executed) and summary[2] == "0",
           f"{len(executed)} calls were logged; the replay says {result.stdout}{result.stderr}")
    functions = re.findall(r"^ +\d+ +(gpudnn\w+)", result.stdout, re.MULTILINE)
    logged = [re.search(r"(gpudnn\w+) \|", line)[1] for line in executed]
    expect(functions == logged, "the replay has another order than the log")

    other = folder / "other.txt"
    other.write_text("gpudnn I   0.1 pid=1 tid=1 gpudnnCreate -> SUCCESS in 1 us\n" + "nonsense\n" * 100, encoding="utf-8")
    result = run(bench, "--replay", other)
    told = result.stderr.count("no line of a log")
    expect(result.returncode == 2 and told == 5, f"a file of 100 bad lines: status {result.returncode}, {told} told")

    unknown = folder / "unknown.log"
    unknown.write_text("gpudnn I   0.1 pid=1 tid=1 gpudnnNew | new op | engine=x -> SUCCESS in 1 us\n", encoding="utf-8")
    result = run(bench, "--replay", unknown)
    expect(result.returncode == 0 and "1 calls passed over" in result.stdout and "'new' is none of" in result.stderr,
           f"an unknown call: {result.stdout}{result.stderr}")


def check_results_are_checked(bench, wrong_library):
    problem = "act fwd relu f32 nchw n2c8h9w7"
    right = run(bench, "--min-time", "0", problem, CONV)
    checked = re.findall(r"e[+-]\d+ reference$", right.stdout, re.MULTILINE)
    expect(right.returncode == 0 and len(checked) == 2 and "MISMATCH" not in right.stdout,
           f"right results: {right.stdout}{right.stderr}")
    wrong = run(bench, "--min-time", "0", "--lib", wrong_library, problem)
    expect(wrong.returncode == 1 and "MISMATCH" in wrong.stdout, f"wrong results pass: {wrong.stdout}{wrong.stderr}")
    unchecked = run(bench, "--min-time", "0", "--no-check", "--lib", wrong_library, problem)
    expect(unchecked.returncode == 0, f"--no-check checks: {unchecked.stdout}")
    large = run(bench, "--min-time", "0", "act fwd relu f32 nchw n16c16h256w256")
    expect("NaN only: large" in large.stdout, f"a large problem: {large.stdout}")


def check_cache(tune, bench, explain, folder):
    cache = folder / "cache.txt"
    result = run(tune, "--min-time", "0", "--write-cache", cache, CONV)
    expect(result.returncode == 0 and cache.exists() and CONV.split(" math=")[0] in cache.read_text(encoding="utf-8"),
           f"gpudnn-tune wrote no cache: {result.stdout}{result.stderr}")
    result = run(bench, "--once", CONV, GPUDNN_TUNING_CACHE=str(cache), GPUDNN_LOGLEVEL="3")
    expect("source=tuning_cache" in result.stderr, f"a later process does not go by the cache: {result.stderr}")
    result = run(explain, CONV, GPUDNN_TUNING_CACHE=str(cache))
    expect("tuning_cache" in result.stdout, f"gpudnn-explain does not see the cache: {result.stdout}")
    by_variable = folder / "by_variable.txt"
    run(tune, "--min-time", "0", CONV, GPUDNN_TUNING_CACHE=str(by_variable))
    expect(by_variable.exists(), "gpudnn-tune does not write the file that GPUDNN_TUNING_CACHE names")


def check_grid(tune):
    """Each row that --grid prints is a config that ran, with what the model expects of it."""
    result = run(tune, "--grid", "--min-time", "0", CONV)
    rows = re.findall(r"^ +config +(\S+) us .*expected=(\S+) us", result.stdout, re.MULTILINE)
    expect(result.returncode == 0 and rows and all(float(number) > 0 for row in rows for number in row),
           f"gpudnn-tune --grid: {result.stdout}{result.stderr}")


def check_missing_arguments(programs):
    for program in programs:
        for arguments in ([], ["--nosuch"]):
            code = run(program, *arguments).returncode
            expect(code == 2, f"{program.name} {' '.join(arguments)} returns {code}, not 2")


def check_profiler(sample, profiler):
    result = run(sample, NVTX_INJECTION64_PATH=str(profiler))
    ranges = re.findall(r"^begin 0 (gpudnn\w+) \| (\w+) ", result.stdout, re.MULTILINE)
    expect(("gpudnnConvolutionForward", "conv") in ranges, f"a profiler sees {ranges}: {result.stdout}{result.stderr}")
    depth = [len(re.findall(rf"^{word} \d", result.stdout, re.MULTILINE)) for word in ("begin", "end")]
    expect(depth[0] == depth[1], f"{depth[0]} ranges begin, {depth[1]} end")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--man-pages", type=pathlib.Path)
    parser.add_argument("--wrong-library", type=pathlib.Path)
    parser.add_argument("--profiler", type=pathlib.Path)
    parser.add_argument("--samples", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    bench, explain, tune = (arguments.programs / name for name in ("gpudnn-bench", "gpudnn-explain", "gpudnn-tune"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_explain(explain)
        check_described_device(explain, arguments.profiler is not None)
        check_help(bench)
        check_first_calls(bench)
        if arguments.man_pages:
            for program in (bench, explain, tune):
                check_man_page(program, arguments.man_pages / f"{program.name}.1")
        check_replay(bench, arguments.samples, folder)
        check_results_are_checked(bench, arguments.wrong_library)
        check_cache(tune, bench, explain, folder)
        check_grid(tune)
        check_missing_arguments([bench, explain, tune])
        if arguments.profiler:
            check_profiler(arguments.samples[1], arguments.profiler)
    for failure in failures:
        print(failure)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
