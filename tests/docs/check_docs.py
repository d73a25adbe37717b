"""Checks that the documents say what the sources do, that their links lead somewhere, and that the examples of the problem
language run.

usage: check_docs.py SOURCE_FOLDER [GPUDNN_BENCH GPUDNN_TUNE]

SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
PROGRAMS = sys.argv[2:4]
failures = []


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def expect(condition, message):
    if not condition:
        failures.append(message)


def check_links():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("samples/*.md"), *ROOT.glob("benchmarks/*.md")]:
        prose = re.sub(r"```.*?```|^    .*?$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose):
            if not target.startswith("http"):
                expect((page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}, which is not there")


def check_environment():
    read = set(re.findall(r'"(C?G?P?UDNN_[A-Z_]+)"', text("src/core/environment.cpp")))
    told = set(re.findall(r"^\| `([A-Z_]+)` \|", text("docs/environment.md"), re.MULTILINE))
    expect(read == told, f"docs/environment.md and environment.cpp differ in {sorted(read ^ told)}")


def check_engine_order():
    """architecture.md's table of convolution engines has the order of engines.cpp."""
    block = text("src/ops/conv/engines.cpp").split("list[] = {")[1].split("};")[0]
    names = {}
    for path in ROOT.glob("src/ops/conv/**/*.cpp"):
        for variable, name in re.findall(r'ConvEngine (k\w+) = \{\s*\.name = "(\w+)"', path.read_text(encoding="utf-8")):
            names[variable] = name
    listed = [names.get(variable, variable) for variable in re.findall(r"\b(k[A-Z]\w+),", block)]
    page = text("docs/architecture.md").split("## Convolution's engines")[1].split("\n## ")[0]
    told = [name for row in re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    expect(listed == told, f"architecture.md lists the engines as {told}, engines.cpp as {listed}")


def check_additions():
    row = next(line for line in text("README.md").splitlines() if line.startswith("| additions"))
    for function in re.findall(r"GPUDNN_EXPORT [\w ]+\*? ?(gpudnn\w+)\(", text("include/gpudnn/ext.h")):
        expect(function in row, f"README's row of additions lacks {function}")


def check_demo_folder():
    """The demo must leave the presets' folders alone: its options would stay in their caches."""
    presets = {preset["name"] for preset in json.loads(text("CMakePresets.json"))["configurePresets"]}
    folder = re.search(r"^BUILD_FOLDER=(\S+)", text("scripts/demo.sh"), re.MULTILINE)
    expect(folder is not None, "scripts/demo.sh names no BUILD_FOLDER")
    if folder:
        for preset in ("host", "cuda"):
            name = folder[1].replace("$preset", preset)
            expect(name not in presets, f"scripts/demo.sh builds in build/{name}, which is a preset's")


def check_cpp_operations():
    """docs/cpp.md names each operation of the builder."""
    header = text("include/gpudnn/cpp/graph.hpp").rpartition("\n private:")[0]  # the builder's own are the last ones
    page = text("docs/cpp.md")
    names = set(re.findall(r"GPUDNN_CPP_(?:UNARY|BINARY)\((\w+), ", header)) - {"name"}
    names |= set(re.findall(r"^  (?:Tensor|NormResult|NormGradients|AttentionResult|AttentionGradients) (\w+)\(", header,
                            re.MULTILINE)) - {"tensor", "name"}
    for name in sorted(names):
        expect(f"`{name}`" in page or f"`{name}(" in page, f"docs/cpp.md lacks the operation {name}")


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check_examples(bench):
    """Each example of the problem language runs."""
    examples = [row.rstrip(" |").split("|")[-1].strip() for row in text("docs/problem-language.md").splitlines()
                if row.startswith("| `") and row.count("|") >= 5]
    examples = [example.strip("`") for example in examples if example.startswith("`")]
    expect(len(examples) > 10, "docs/problem-language.md has few examples")
    for example in examples:
        result = run([bench, "--once", example])
        expect(result.returncode == 0, f"'{example}' does not run: {result.stdout}{result.stderr}")


def check_log_lines(bench):
    """gpudnn-bench takes the lines of a log, each problem once, and gives up a file that is none."""
    line = "gpudnn I   0.1 pid=1 tid=1 gpudnnActivationForward | {} | alpha=1 beta=0 stream=(nil) | engine=x -> SUCCESS in 1 us\n"
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "calls.log")
        log.write_text(
            "gpudnn I   0.1 pid=1 tid=1 gpudnnCreate | backend=host version=0.2.0 -> SUCCESS in 1 us\n"
            + line.format("act fwd relu f32 nchw n2c3h4w5") * 3
            + line.format("act fwd tanh f32 nchw n2c3h4w5")
            + line.format("tensor 1 f32 4;tensor 2 f32 4;pointwise relu_fwd x=1 y=2"), encoding="utf-8")
        result = run([bench, "--once", "--cases", str(log)])
        expect("2 problems, 0 failed" in result.stdout, f"a log of two problems gave {result.stdout}{result.stderr}")
        other = pathlib.Path(folder, "other.txt")
        other.write_text("nonsense\n" * 100, encoding="utf-8")
        result = run([bench, "--once", "--cases", str(other)])
        told = result.stderr.count("is none of")
        expect(result.returncode == 2 and told == 5, f"a file of 100 bad lines: status {result.returncode}, {told} told")


def check_tune(tune):
    problem = "conv fwd f32 nchw n1c2h5w5 k3r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=default"
    result = run([tune, "--grid", "--min-time", "0", problem])
    expect(result.returncode == 0, f"gpudnn-tune takes no problem: {result.stderr}")
    expect("split=" not in result.stdout, "gpudnn-tune --grid tells of splits that the host's engines do not have")
    expect("expected=-" not in result.stdout, "gpudnn-tune prints an expected time below 0")
    expect(run([tune]).returncode == 2, "gpudnn-tune without an argument does not return 2")
    expect(run([tune, "conv nonsense"]).returncode == 2, "gpudnn-tune takes nonsense")


for check in (check_links, check_environment, check_engine_order, check_additions, check_demo_folder,
              check_cpp_operations):
    check()
if len(PROGRAMS) == 2:
    check_examples(PROGRAMS[0])
    check_log_lines(PROGRAMS[0])
    check_tune(PROGRAMS[1])
for failure in failures:
    print(failure)
print(f"{len(failures)} disagreements")
sys.exit(1 if failures else 0)
