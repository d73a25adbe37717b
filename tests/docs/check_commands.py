"""Runs every command and code block of the documents, in the order printed and then in reverse, in a folder that looks like
the repository with an installed library. What a block needs that is not there stands in RULES: names that are
put in the place of others, or who else runs it. A block that no rule knows is a failure.

usage: check_commands.py SOURCE_FOLDER BUILD_FOLDER

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
PAGES = ["README.md", "CONTRIBUTING.md", "samples/README.md", "benchmarks/README.md",
         *sorted(f"docs/{page.name}" for page in ROOT.glob("docs/*.md"))]
NOT_READ = {"docs/perf-notes.md"}  # notes on kernels, with no command to type
SMALL = "conv fwd f16 nhwc n1c16h6w6 k16r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor"

RUN = "run"          # as shell commands
PROBLEM = "problem"  # lines of the problem language: gpudnn-explain reads them
LOG = "log"          # lines of a log: gpudnn-bench --replay reads them
GRAPH = "graph"      # a graph's text: gpudnn-bench --replay runs it
CACHE = "cache"      # a tuning cache: read without a warning
SHOWN = "shown"      # nothing to run: a picture, a formula, a sketch of a change
# Page, how the block begins, what is done with it. The first that fits counts. A text in the place of a kind: who runs it.
RULES = [
    ("README.md", "scripts/demo.sh", "CI: both are its steps"),
    ("README.md", "gpudnnHandle_t handle", "c"),
    ("README.md", "cc samples/00_relu.c", RUN),
    ("README.md", "cmake --preset host", RUN),
    ("README.md", "find_package", "install.find_package"),
    ("CONTRIBUTING.md", "scripts/setup.sh", "CI: its steps; gpu-check.sh on a machine with a GPU"),
    ("CONTRIBUTING.md", "gpudnn I ", LOG),
    ("samples/README.md", "cmake -S samples", "install.samples, on the installed ones"),
    ("samples/README.md", "01_convolution", RUN),
    ("samples/README.md", "02_mnist", RUN),
    ("samples/README.md", "", RUN),
    ("benchmarks/README.md", "gpudnn-bench", RUN),
    ("docs/adding-an-engine.md", "gpudnn-bench", RUN),
    ("docs/adding-an-engine.md", "", SHOWN),
    ("docs/architecture.md", "conv fwd", PROBLEM),
    ("docs/architecture.md", "pointwise ", PROBLEM),
    ("docs/architecture.md", "gpudnnConvolutionForward(handle", SHOWN),
    ("docs/attention.md", "mha ", "tests/ops/multi_head_attn_test.cpp reads such lines; no program takes them"),
    ("docs/attention.md", "", SHOWN),
    ("docs/cpp.md", "gpudnn::Handle", "cpp"),
    ("docs/environment.md", "gpudnn ", LOG),
    ("docs/environment.md", "GPUDNN_VERIFY", RUN),
    ("docs/measurements.md", "python3 -m venv", "docs.pictures, where the packages are installed"),
    ("docs/graph.md", "tensor 1", GRAPH),
    ("docs/graph.md", "descriptors ", SHOWN),
    ("docs/porting.md", "find_package", "install.find_package and install.cudnn"),
    ("docs/porting.md", "", RUN),
    ("docs/problem-language.md", "conv fwd", PROBLEM),
    ("docs/problem-language.md", "GPUDNN_LOGLEVEL", RUN),
    ("docs/tuning.md", "gpudnn tuning cache", CACHE),
    ("docs/tuning.md", "", RUN),
    ("docs/numerics.md", "", SHOWN),
]
# In commands: where things are here, and problems small enough for a CPU.
PLACES = [
    (r"/usr/local/lib", "{prefix}/lib"),
    (r"--prefix /usr/local\b", "--prefix {prefix}"),
    (r"\bbuild/(cuda|host)/benchmarks/", ""),
    (r"\bcmake --install build/host\b", "cmake --install {build}"),
    (r"\bPROGRAM\b", "./program"),
    (r"\bscripts/cudnn_imports\.py\b", "{root}/scripts/cudnn_imports.py"),
    (r"\$HOME/.cache/", "./"),
    (r"""(["'])conv fwd f16 nhwc n64[^"']*["']""", rf"\g<1>{SMALL}\g<1>"),
    (r"^gpudnn-tune ", "gpudnn-tune --min-time 0 "),
    (r"^gpudnn-bench (?!--once|--replay)", "gpudnn-bench --min-time 0 "),
    (r"^0(\d_\w+)", r"0\1"),
    (r"^01_convolution\b", "{build}/samples/01_convolution --batch 2"),
    (r"^02_mnist\b", "{build}/samples/02_mnist --train 200 --test 100 --epochs 1"),
    (r"^05_attention\b", "{build}/samples/05_attention --iterations 2 --sample 5"),
    (r"^06_sequence (text|digits)\b", r"{build}/samples/06_sequence \1 --iterations 2"),
    (r"^09_streams\b", "{build}/samples/09_streams"),
    (r"^08_resnet\b", "{build}/samples/08_resnet --epochs 1 --train 32 --validate 12"),
    (r"^cc program\.c (.*gpudnn-cudnn.*) -o program", r"cc old.c \1 -o old_program"),
    (r"^\./program", "./program"),
]
# Commands of blocks that run, of which something else runs.
ELSEWHERE = [
    (r"^cmake (--preset|--build --preset) host", "CI: scripts/test.sh configures and builds that preset"),
    (r"^(find_package|target_link_libraries)\(", "install.find_package"),
    (r"python -m gpudnn|\.whl", "install.wheel"),
    (r"^0[568]_.*--(text|iterations|resume|stop|data) ", "tests/samples, in a smaller form"),
    (r"^07_data_parallel", "it trains on GPUs; samples.data_parallel tests its parts without one"),
    (r"--against|--against-cublaslt", "needs a second library and a GPU"),
    (r"\bMNIST|--data DIR|--classify|--load", "tests of the samples; it wants files that are not here"),
]
failures = []
commands_run = 0


def fail(message):
    failures.append(message)


def blocks_of(page):
    """(line number, language, lines) of each block: fenced, or indented by four after an empty line."""
    lines = (ROOT / page).read_text(encoding="utf-8").split("\n")
    found, i = [], 0
    while i < len(lines):
        if lines[i].startswith("```"):
            end = next(j for j in range(i + 1, len(lines)) if lines[j].startswith("```"))
            found.append((i + 1, lines[i][3:].strip(), lines[i + 1:end]))
            i = end + 1
        elif lines[i].startswith("    ") and (i == 0 or not lines[i - 1].strip()):
            end = i
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            found.append((i + 1, "", [line[4:] for line in "\n".join(lines[i:end]).rstrip().split("\n")]))
            i = end
        else:
            i += 1
    return found


def rule_of(page, lines):
    first = next((line for line in lines if line.strip()), "")
    for name, start, kind in RULES:
        if name == page and first.startswith(start):
            return kind
    return None


class Sandbox:
    def __init__(self, folder):
        self.folder = folder
        self.prefix = folder / "prefix"
        self.places = {"prefix": self.prefix, "build": BUILD, "root": ROOT}
        libraries = f"{self.prefix}/lib"
        self.environment = {**os.environ, "GPUDNN_BACKEND": "host", "PATH": f"{self.prefix}/bin:{os.environ['PATH']}",
                            "PKG_CONFIG_PATH": f"{libraries}/pkgconfig"}
        self.environment.pop("LD_LIBRARY_PATH", None)
        self.expect_shell(f"cmake --install {BUILD} --prefix {self.prefix}", "the installation")
        (folder / "samples").symlink_to(ROOT / "samples")
        cases = folder / "benchmarks/cases"
        cases.mkdir(parents=True)
        for name in ("resnet50", "resnet50_fp16_n64"):
            (cases / f"{name}.txt").write_text(SMALL + "\n", encoding="utf-8")
        for name in ("sanitizer", "matmul"):
            text = (ROOT / f"benchmarks/cases/{name}.txt").read_text(encoding="utf-8").splitlines()
            small = [line for line in text if re.search(r"\bm(1|16|64)\b|^act |= act |b2m", line)][:3]
            (cases / f"{name}.txt").write_text("\n".join(small or ["matmul f16 f16->f16 m16n16k16"]) + "\n", encoding="utf-8")
        (folder / "calls_of_my_network.txt").write_text(SMALL + "\n", encoding="utf-8")
        table = folder / "src/ops/conv/select"
        table.mkdir(parents=True)
        (table / "tuned_sm90.txt").write_text("", encoding="utf-8")
        source = (ROOT / "samples/00_relu.c").read_text(encoding="utf-8")
        (folder / "program.c").write_text(source, encoding="utf-8")
        old = ("#include <cudnn.h>\nint main(void) {\ncudnnHandle_t handle;\nif (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS) return 1;\n"
               "return cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS ? 0 : 1;\n}\n")
        for name in ("src/old.c", "old.c"):
            (folder / name).write_text(old, encoding="utf-8")
        self.expect_shell("cc program.c $(pkg-config --cflags --libs gpudnn) -o program", "the program of the documents")

    def shell(self, command):
        return subprocess.run(command, shell=True, executable="/bin/bash", cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, check=False)

    def expect_shell(self, command, where):
        global commands_run
        commands_run += 1
        result = self.shell(command)
        if result.returncode != 0:
            fail(f"{where}: '{command}' returns {result.returncode}: {(result.stdout + result.stderr)[-600:]}")
        return result

    def run_command(self, line, where):
        for pattern, _ in ELSEWHERE:
            if re.search(pattern, line):
                return
        for pattern, place in PLACES:
            line = re.sub(pattern, place, line)
        self.expect_shell(line.format(**self.places) if "{" in line and "awk" not in line else line, where)

    def explain(self, line, where):
        result = self.shell(f"gpudnn-explain '{line}'")
        if result.returncode != 0:
            fail(f"{where}: gpudnn-explain does not read '{line}': {result.stderr}")

    def replay(self, lines, where, calls):
        (self.folder / "block.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
        result = self.shell("gpudnn-bench --replay block.log")
        if result.returncode != 0 or f"{calls} calls of" not in result.stdout or "; 0 calls passed over" not in result.stdout:
            fail(f"{where}: gpudnn-bench --replay does not take it: {result.stdout}{result.stderr}")

    def compile(self, lines, language, where):
        body = "\n".join(lines)
        if language == "c":
            text = ("#include <gpudnn/gpudnn.h>\n#include <stdlib.h>\nint main(void) {\nfloat* x = calloc(150528, 4);\n"
                    f"float* y = calloc(150528, 4);\n{body}\nreturn y[0] == 0 ? 0 : 1;\n}}\n")
            compiler, suffix = "cc -std=c99", "c"
        else:
            sizes = {"px": 8 * 64 * 56 * 56, "pw": 64 * 64 * 9, "pb": 64, "py": 8 * 64 * 56 * 56}
            body = body.replace("{8, 64, 56, 56}", "{1, 64, 8, 8}")
            made = "".join(f"gpudnn::Buffer {name}(handle, std::vector<float>({size}));\n" for name, size in sizes.items())
            body = body.replace("gpudnn::Graph graph;", made + "gpudnn::Graph graph;", 1)
            text = f"#include <gpudnn/gpudnn.hpp>\n#include <vector>\nint main() {{\n{body}\n}}\n"
            compiler, suffix = "c++ -std=c++17", "cpp"
        (self.folder / f"block.{suffix}").write_text(text, encoding="utf-8")
        self.expect_shell(f"{compiler} block.{suffix} $(pkg-config --cflags --libs gpudnn) -o block && ./block", where)


def commands_of(sandbox, page, number, language, lines):
    """What the block asks for, as functions."""
    where = f"{page}:{number}"
    kind = rule_of(page, lines)
    if kind is None:
        fail(f"{where}: no rule of tests/docs/check_commands.py knows the block that begins with '{lines[0]}'")
        return []
    texts = [line for line in lines if line.strip()]
    if kind == RUN:
        stripped = [re.sub(r"\s+#.*$", "", line) for line in texts]
        stripped = [line for line in stripped if line and not line.startswith("#")]
        return [lambda line=line: sandbox.run_command(line, where) for line in stripped]
    if kind == PROBLEM:
        return [lambda line=line: sandbox.explain(line, where) for line in texts]
    if kind == LOG:
        calls = sum(" | engine=" in line for line in texts)
        return [lambda: sandbox.replay(texts, where, calls)]
    if kind == GRAPH:
        line = "gpudnn I   0.1 pid=1 tid=1 gpudnnBackendExecute | " + "; ".join(texts) + " | engine=x -> SUCCESS in 1 us"
        return [lambda: sandbox.replay([line], where, 1)]
    if kind == CACHE:
        (sandbox.folder / "printed_cache.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = f"GPUDNN_LOGLEVEL=2 GPUDNN_TUNING_CACHE=printed_cache.txt gpudnn-explain '{SMALL}' 2>&1 | (! grep 'tuning cache')"
        return [lambda: sandbox.expect_shell(command, where)]
    if kind in ("c", "cpp"):
        return [lambda: sandbox.compile(lines, kind, where)]
    return []


def main():
    with tempfile.TemporaryDirectory() as name:
        sandbox = Sandbox(pathlib.Path(name))
        todo = []
        for page in PAGES:
            if page in NOT_READ:
                continue
            for number, language, lines in blocks_of(page):
                todo += commands_of(sandbox, page, number, language, lines)
        for command in todo:
            command()
        for command in reversed(todo):
            command()
    for failure in failures:
        print(failure)
    print(f"{len(todo)} commands and blocks in order and in reverse, {len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
