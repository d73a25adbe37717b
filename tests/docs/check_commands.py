"""Runs every command and code block of the documents, in the order printed and then in reverse, in a folder that looks like
the repository with an installed library. RULES says what is done with a block, PLACES what is put in the place of names that
are not here, ELSEWHERE which other test runs a command. A block that no rule knows is a failure.

usage: check_commands.py SOURCE_FOLDER BUILD_FOLDER

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

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
CMAKE = "cmake"      # lines of a CMakeLists.txt: a program is built with them and run
QUOTED = "quoted"    # code of the sources: each line stands in one of them
ENGINE = "engine"    # code of an engine to write: it compiles next to the sources
CHANGE = "change"    # a sketch of a change: its files are there, and what it takes away stands in them
PATHS = "paths"      # a picture with files and folders of the sources in it: they are there
FORMULA = "formula"  # mathematics or a picture, nothing to run


def by(file, text):
    """Somebody else runs it: that file, which says so by this text."""
    return (file, text)


# Page, how the block begins, what is done with it. The first that fits counts.
RULES = [
    ("README.md", "scripts/demo.sh", by(".ci/run", "scripts/")),
    ("README.md", "gpudnnHandle_t handle", "c"),
    ("README.md", "cc samples/00_relu.c", RUN),
    ("README.md", "cmake --preset host", RUN),
    ("README.md", "find_package", CMAKE),
    ("CONTRIBUTING.md", "scripts/setup.sh", RUN),
    ("CONTRIBUTING.md", "gpudnn I ", LOG),
    ("samples/README.md", "", RUN),
    ("benchmarks/README.md", "gpudnn-bench", RUN),
    ("docs/adding-an-engine.md", "gpudnn-bench", RUN),
    ("docs/adding-an-engine.md", "--- ", CHANGE),
    ("docs/adding-an-engine.md", "constexpr auto kNames", ENGINE),
    ("docs/adding-an-engine.md", "", QUOTED),
    ("docs/architecture.md", "conv fwd", PROBLEM),
    ("docs/architecture.md", "pointwise ", PROBLEM),
    ("docs/architecture.md", "gpudnnConvolutionForward(handle", PATHS),
    ("docs/attention.md", "mha ", by("tests/ops/multi_head_attn_test.cpp", "mha wgrad f16 h8q512k512v512")),
    ("docs/attention.md", "", FORMULA),
    ("docs/cpp.md", "gpudnn::Handle", "cpp"),
    ("docs/environment.md", "gpudnn ", LOG),
    ("docs/environment.md", "GPUDNN_VERIFY", RUN),
    ("docs/measurements.md", "python3 -m venv", RUN),
    ("docs/graph.md", "tensor 1", GRAPH),
    ("docs/graph.md", "descriptors ", PATHS),
    ("docs/porting.md", "find_package", CMAKE),
    ("docs/porting.md", "", RUN),
    ("docs/problem-language.md", "conv fwd", PROBLEM),
    ("docs/problem-language.md", "GPUDNN_LOGLEVEL", RUN),
    ("docs/tuning.md", "gpudnn tuning cache", CACHE),
    ("docs/tuning.md", "", RUN),
    ("docs/numerics.md", "", FORMULA),
]
# In commands: where things are here, and problems and networks small enough for a CPU.
PLACES = [
    (r"/usr/local/cuda/lib64/libcudnn.so.9", "{prefix}/lib/gpudnn-compat/libcudnn.so.9"),
    (r"/usr/local/lib", "{prefix}/lib"),
    (r"--prefix /usr/local\b", "--prefix {prefix}"),
    (r"/where/gpudnn/is/installed", "{prefix}"),
    (r"\bbuild/(cuda|host)/benchmarks/", ""),
    (r"\bcmake --install build/host\b", "cmake --install {build}"),
    (r"\bPROGRAM\b", "./program"),
    (r"\bscripts/cudnn_imports\.py\b", "{root}/scripts/cudnn_imports.py"),
    (r"\$HOME/.cache/", "./"),
    (r"""(["'])conv fwd f16 nhwc n64[^"']*["']""", rf"\g<1>{SMALL}\g<1>"),
    (r"^gpudnn-tune ", "gpudnn-tune --min-time 0 "),
    (r"^gpudnn-bench (?!--once|--replay)", "gpudnn-bench --min-time 0 "),
    (r"^01_convolution\b", "{build}/samples/01_convolution --batch 2"),
    (r"^02_mnist (.*)--data DIR", r"02_mnist \1--data digits"),
    (r"^02_mnist(?!.*--classify)", "02_mnist --train 200 --test 100 --epochs 1"),
    (r"^02_mnist\b", "{build}/samples/02_mnist"),
    (r"^05_attention.*--text FILE.*", "05_attention --text text.txt --width 12 --heads 3 --blocks 1 --length 8 --batch 2"),
    (r"^05_attention\b", "{build}/samples/05_attention --iterations 2 --sample 5"),
    (r"^06_sequence text --text FILE.*", "06_sequence text --text text.txt --hidden 8 --layers 2 --batch 4 --length 10"),
    (r"^06_sequence (text|digits)\b", r"{build}/samples/06_sequence \1 --iterations 2"),
    (r"^09_streams\b", "{build}/samples/09_streams"),
    (r"^08_resnet --data DIR (\.\.\.|--size.*--epochs 90)", "08_resnet --data pictures --size 16 --width 4 --batch 4"),
    (r"^08_resnet\b", "{build}/samples/08_resnet --epochs 1 --train 32 --validate 12"),
    (r"^cc program\.c (.*gpudnn-cudnn.*) -o program", r"cc old.c \1 -o old_program"),
    (r"^(GPUDNN_VERIFY=\S+)$", r"\1 ./program"),
]
# Commands of blocks that run, of which something else runs.
ELSEWHERE = [
    (r"^cmake (--preset|--build --preset) host", by("scripts/common.sh", "cmake --preset")),
    (r"^scripts/(setup|test|lint|aarch64)\.sh|^GPUDNN_CUDA=OFF scripts/test\.sh", by(".ci/run", "scripts/")),
    (r"^scripts/gpu-check\.sh", None),  # on a machine with a GPU
    (r"^cmake .*build-samples", by("tests/install/install_test.cmake", "share/gpudnn/samples -B")),
    (r"^python3 -m venv build/plots", by(".ci/run", "python3 -m venv build/plots && build/plots/bin/pip")),
    (r"^build/plots/bin/python", by("tests/docs/CMakeLists.txt", "scripts/plots.py --check")),
    (r"^pip install build/cuda/wheel", by("tests/install/wheel_test.cmake", "-m pip install")),
    (r"^python -m gpudnn", by("tests/install/wheel_test.cmake", "-m gpudnn run")),
    (r"^07_data_parallel", by("tests/samples/CMakeLists.txt", "samples.data_parallel_refuses")),  # all of it needs GPUs
    (r"--against-cublaslt", None),  # on a machine with a GPU
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


def png(width, height, channels, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[y * width * channels:(y + 1) * width * channels] for y in range(height))
    head = struct.pack(">2I5B", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def source_texts():
    for folder in ("include", "kernels", "src"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".hpp", ".cpp", ".cu", ".cuh"):
                yield path.read_text(encoding="utf-8")


def squeezed(text):
    return re.sub(r"\s+", "", text)


def check_elsewhere(who, where):
    if who is not None and who[1] not in (ROOT / who[0]).read_text(encoding="utf-8"):
        fail(f"{where}: {who[0]} should run it, and has no '{who[1]}'")


def check_quoted(lines, where):
    """Of a block of code, all of it stands in one source, but for spaces and comments."""
    wanted = squeezed(re.sub(r"//.*", "", "\n".join(lines)))
    if not any(wanted in squeezed(re.sub(r"//.*", "", text)) for text in source_texts()):
        fail(f"{where}: no source has this code: {lines[0]}")


def check_change(lines, where):
    """After '--- FILE', lines with '-' stand in that file; '...' stands for anything."""
    text = ""
    for line in lines:
        if line.startswith("--- "):
            path = line[4:].split()[0].rstrip(",")
            if "(new)" in line:
                text = ""
            elif not (ROOT / path).is_file():
                fail(f"{where}: there is no {path}")
            else:
                text = squeezed((ROOT / path).read_text(encoding="utf-8"))
        elif line.startswith("-"):
            for piece in line[1:].split("..."):
                if squeezed(piece) not in text:
                    fail(f"{where}: the file has no '{piece.strip()}'")


def check_paths(lines, where):
    """The first path of a line is whole; files after it lie beside it."""
    for line in lines:
        folder = None
        for path in re.findall(r"(?:src|kernels)/[\w/]+(?:\.\w+)?|\b\w+\.[ch]pp\b", line):
            place = ROOT / path if "/" in path else folder / path
            if not place.exists():
                fail(f"{where}: there is no {place.relative_to(ROOT)}")
            folder = place.parent


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
        self.make_data()
        source = (ROOT / "samples/00_relu.c").read_text(encoding="utf-8")
        (folder / "program.c").write_text(source, encoding="utf-8")
        old = ("#include <cudnn.h>\nint main(void) {\ncudnnHandle_t handle;\nif (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS) return 1;\n"
               "return cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS ? 0 : 1;\n}\n")
        for name in ("src/old.c", "old.c"):
            (folder / name).write_text(old, encoding="utf-8")
        self.expect_shell("cc program.c $(pkg-config --cflags --libs gpudnn) -o program", "the program of the documents")

    def make_data(self):
        """Digits as MNIST has them, a picture of one, a text, and folders of pictures."""
        digits = self.folder / "digits"
        digits.mkdir()
        for name, count in (("train", 200), ("t10k", 100)):
            images = bytes((i * 37 + j * j) % 256 for i in range(count) for j in range(784))
            (digits / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, count, 28, 28) + images)
            (digits / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, count) + bytes(i % 10 for i in range(count)))
        (self.folder / "digit.png").write_bytes(png(28, 28, 1, bytes(7 * i % 256 for i in range(784))))
        (self.folder / "text.txt").write_text("A text that a network could learn by heart. " * 40, encoding="utf-8")
        for kind in ("one", "other"):
            folder = self.folder / "pictures" / kind
            folder.mkdir(parents=True)
            for i in range(10):
                pixels = bytes((j * (3 + i) + (90 if kind == "one" else 0)) % 256 for j in range(20 * 20 * 3))
                (folder / f"{i}.png").write_bytes(png(20, 20, 3, pixels))

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
        for pattern, who in ELSEWHERE:
            if re.search(pattern, line):
                check_elsewhere(who, where)
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

    def build_by_cmake(self, lines, where):
        folder = self.folder / f"by_cmake_{where.replace('/', '_').replace(':', '_')}"
        folder.mkdir(exist_ok=True)
        source = "old.c" if any("cudnn)" in line for line in lines) else "program.c"
        text = f"cmake_minimum_required(VERSION 3.25)\nproject(program C)\nadd_executable(program ../{source})\n"
        find, link = lines
        (folder / "CMakeLists.txt").write_text(f"{text}{find}\n{link}\n", encoding="utf-8")
        self.expect_shell(f"cmake -S {folder} -B {folder}/build -DCMAKE_PREFIX_PATH={self.prefix} && cmake --build {folder}/build && "
                          f"{folder}/build/program", where)

    def compile_engine(self, lines, where):
        """Next to what the page says that the reader has: a list of tiles, and the extents of the problem."""
        text = ('#include <cmath>\n#include "core/cost_model.hpp"\n#include "ops/conv/engine.hpp"\n#include "ops/conv/tile_names.hpp"\n'
                "namespace gpudnn::conv {\nstruct TileRow { int bm, bn; double efficiency; };\n"
                "constexpr TileRow kTiles[] = {{128, 128, 1}, {64, 256, 0.9}};\nconstexpr int kTileCount = 2, kTileK = 64;\n"
                "constexpr double rows = 1, columns = 1, summed = 1;\n"
                + "\n".join(lines) + "\n}\n")
        (self.folder / "engine.cpp").write_text(text, encoding="utf-8")
        self.expect_shell(f"c++ -std=c++20 -fsyntax-only -I{ROOT} -I{ROOT}/src -I{ROOT}/include -I{BUILD}/include engine.cpp", where)


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
    if kind == CMAKE:
        stripped = [re.sub(r"\s+#.*$", "", line) for line in texts]
        return [lambda: sandbox.build_by_cmake(stripped, where)]
    if kind == ENGINE:
        return [lambda: sandbox.compile_engine(lines, where)]
    if kind == QUOTED:
        return [lambda: check_quoted(lines, where)]
    if kind == CHANGE:
        return [lambda: check_change(lines, where)]
    if kind == PATHS:
        return [lambda: check_paths(lines, where)]
    if isinstance(kind, tuple):
        return [lambda: check_elsewhere(kind, where)]
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
