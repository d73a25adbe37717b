#!/usr/bin/env python3
"""Draws docs/pictures/*.svg from the tables under benchmarks/results/, byte for byte the same with the versions of
scripts/plots-requirements.txt.

usage: scripts/plots.py [--check] [FOLDER]
  FOLDER    where to draw (default: docs/pictures)
  --check   draws elsewhere, and fails where a picture of FOLDER differs or is missing; 77 where another matplotlib is installed

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import csv
import math
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PINNED = dict(re.findall(r"^(\w+)==(\S+)$", (ROOT / "scripts" / "plots-requirements.txt").read_text("utf-8"), re.MULTILINE))

try:
    import matplotlib
    import numpy

    INSTALLED = {"matplotlib": matplotlib.__version__, "numpy": numpy.__version__}
except ImportError:
    INSTALLED = {}
if INSTALLED != PINNED:
    print(f"skipped: the pictures are drawn with {PINNED}, and here is {INSTALLED or 'neither'}; "
          "pip install -r scripts/plots-requirements.txt")
    sys.exit(77)
matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

matplotlib.rcParams.update({
    "svg.hashsalt": "gpudnn", "svg.fonttype": "none", "font.size": 9, "axes.grid": True, "grid.color": "#dddddd",
    "grid.linewidth": 0.6, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "figure.constrained_layout.use": True,
})
COLOURS = {"f16": "#1b7837", "bf16": "#762a83", "tf32": "#2166ac", "f32": "#b2182b", "f8": "#bf812d"}
DIRECTIONS = {"fwd": ("forward", "#2166ac"), "dgrad": ("data gradient", "#1b7837"), "wgrad": ("filter gradient", "#b2182b")}
# The lists of the pictures: the stem of the table, and what it is called. A later folder's table replaces an earlier one's.
RESNET = {
    "against_resnet50_fp16_n64": "ResNet-50 f16 NHWC, batch 64", "against_resnet50_fp16_n256": "ResNet-50 f16 NHWC, batch 256",
    "against_resnet50_bf16_n64": "ResNet-50 bf16 NHWC, batch 64", "against_resnet50_bf16_n256": "ResNet-50 bf16 NHWC, batch 256",
    "against_resnet50_tf32_n64": "ResNet-50 TF32 NHWC, batch 64", "against_resnet50_tf32_n256": "ResNet-50 TF32 NHWC, batch 256",
    "against_resnet50_nchw_fp16": "ResNet-50 f16 NCHW, batch 64", "against_resnet50_nchw_tf32": "ResNet-50 TF32 NCHW, batch 64",
}
OTHER = {
    "against_lenet": "LeNet f32",
    "against_networks": "layers of published networks", "against_unseen": "layers never tuned on",
    "depthwise": "depthwise layers", "against_memory": "bound by memory", "fp32": "f32 NCHW without TF32, networks",
    "int8": "int8 forward",
}
GRAPHS = {
    "graphs_epilogues": "graphs: convolutions with what follows them", "graphs_matmul": "graphs: matrix products",
    "graphs_pointwise": "graphs: pointwise programs",
}
# The table of --curve, what was trained, and how many things there are to guess among (0: no such number).
CURVES = {
    "curve_02_mnist": ("02_mnist: 8000 of MNIST's digits, 8 passes", 10),
    "curve_05_attention": ("05_attention: a transformer on a made text", 24),
    "curve_06_sequence_text": ("06_sequence text: an LSTM on the same text", 24),
    "curve_06_sequence_digits": ("06_sequence digits: lines of digits by CTC", 0),
    "curve_08_resnet": ("08_resnet: ResNet-18 on drawn shapes", 6),
}
MATMUL = {"matmul": "matrix products (cuBLASLt)"}

# A row of gpudnn-bench's text: case, engine, ms, rate, % of the floor, host us, beyond a launch | theirs: algo, ms, us; ratio.
TEXT_ROW = re.compile(r"^(\S.*?)\s+\S+\s+([\d.]+)\s+[\d.]+ (?:TFLOP|GB)/s\s+[\d.]+\s+([\d.]+)\s+-?[\d.]+\s+\|\s+\S+\s+([\d.]+)"
                      r"\s+([\d.]+)\s+([\d.]+)")
# A row of gpudnn-bench --graphs: graph, ms, % of the floor, two costs of the host; the same of theirs; ratio.
GRAPH_ROW = re.compile(r"^(\S.*?)\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+([\d.]+)\s+[\d.e+-]+$")


def newest(name):
    """The lines of the newest table of that name."""
    for folder in sorted(RESULTS.iterdir(), reverse=True):
        if (folder / name).exists():
            return (folder / name).read_text("utf-8").splitlines()
    raise SystemExit(f"no table {name} under {RESULTS}")


def read(stem, form=None):
    """The rows of the newest table of that stem, as the CSV has them, or what of them the text has."""
    for folder in sorted(RESULTS.iterdir(), reverse=True):
        path = folder / f"{stem}.csv"
        if path.exists():
            lines = path.read_text("utf-8").splitlines()
            ceilings = next(line for line in lines if line.startswith("# ceilings"))
            rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
            for row in rows:
                row["ceilings"] = ceilings
            return rows
        path = folder / f"{stem}.txt"
        if path.exists() and form != "csv":
            found = map(TEXT_ROW.match, path.read_text("utf-8").splitlines())
            rows = [{"case": m[1], "ours_ms": m[2], "ours_host_us": m[3], "theirs_ms": m[4], "theirs_host_us": m[5],
                     "ratio": m[6], "verdict": "ok"} for m in found if m]
            if rows:  # else of a run without the other library
                return rows
    raise SystemExit(f"no table {stem} under {RESULTS}")


def ratios(stem):
    """(case, ratio) of each row that both libraries ran with one result."""
    return [(row["case"], float(row["ratio"])) for row in read(stem) if row["verdict"] == "ok"]


def attention_ratios():
    """Time over cuDNN's of the attention table, whose lines of cuDNN hold both directions: (direction, ratios)."""
    ours, theirs = {}, {}
    for line in newest("attention.txt"):
        if m := re.match(r"(fwd|bwd) bf16 (\S+) scale=\S+( stats)?( causal)?\s+\S+\s+([\d.]+) us", line):
            ours[m[1], m[2], bool(m[4])] = float(m[5])
        elif m := re.match(r"cudnn (\S+) causal=(\w+): fwd ([\d.]+) us [\d.]+\s+bwd ([\d.]+) us", line):
            theirs["fwd", m[1], m[2] == "True"], theirs["bwd", m[1], m[2] == "True"] = float(m[3]), float(m[4])
    return {way: [ours[key] / theirs[key] for key in ours if key in theirs and key[0] == way] for way in ("fwd", "bwd")}


def graph_ratios(stem):
    return [float(m[2]) for m in map(GRAPH_ROW.match, newest(f"{stem}.txt")) if m]


def recurrent_ratios():
    """The ratio of the three passes of a training step together, of each recurrent network of the table."""
    ours, theirs = {}, {}
    for row in read("rnn"):
        _, direction, network = row["case"].split(" ", 2)
        if direction != "infer":
            ours.setdefault(network, []).append(float(row["ours_ms"]))
            theirs.setdefault(network, []).append(float(row["theirs_ms"]))
    return [sum(ours[network]) / sum(theirs[network]) for network in ours if len(ours[network]) == 3]


def geometric_mean(values):
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def ratio_axis(axis, ticks):
    axis.set_xscale("log")
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axis.axvline(1, color="black", linewidth=0.8)


def draw_ratio():
    """Time over NVIDIA's of every case, one row a list."""
    rows = [(name, [ratio for _, ratio in ratios(stem)]) for stem, name in (RESNET | OTHER | MATMUL).items()]
    rows += [(name, graph_ratios(stem)) for stem, name in GRAPHS.items()]
    attention = attention_ratios()
    rows += [("attention forward bf16", attention["fwd"]), ("attention backward bf16", attention["bwd"]),
             ("recurrent networks, a training step", recurrent_ratios())]
    rows.sort(key=lambda row: geometric_mean(row[1]), reverse=True)
    figure, axis = pyplot.subplots(figsize=(8.5, 6.6))
    for place, (_, values) in enumerate(rows):
        mean = geometric_mean(values)
        axis.plot(values, [place] * len(values), "o", markersize=4, color="#2166ac", alpha=0.25, markeredgewidth=0)
        axis.plot([mean], [place], "|", markersize=15, markeredgewidth=2.5, color="#b2182b")
    axis.set_yticks(range(len(rows)), [f"{name} ({len(values)})" for name, values in rows])
    for place, (_, values) in enumerate(rows):
        axis.text(1.01, place, f"{geometric_mean(values):.2f}", transform=axis.get_yaxis_transform(), va="center",
                  color="#b2182b")
    ratio_axis(axis, (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2))
    axis.set_xlabel("time / cuDNN's time on an H200; left of 1 is faster.\nA dot is a case, the bar and the figure are their "
                    "geometric mean", x=0.25)
    return figure


def row_of(case):
    """The name of a case without its direction and type, and its direction."""
    direction = next((part for part in case.split(".") if part in DIRECTIONS), None)
    return ".".join(part for part in case.split(".") if part not in DIRECTIONS), direction


def draw_layers(lists, columns, height, title):
    """Time over NVIDIA's of every layer: a panel for each list, a row for each layer, a dot for each direction."""
    lines = -(-len(lists) // columns)
    figure, axes = pyplot.subplots(lines, columns, figsize=(3.2 + 2.4 * columns, height), squeeze=False,
                                   sharey=len(lists) > columns)
    for axis in axes.flat[len(lists):]:
        axis.set_visible(False)
    for axis, (stem, name) in zip(axes.flat, lists.items()):
        cases = [(*row_of(case), ratio) for case, ratio in ratios(stem)]
        rows = list(dict.fromkeys(row for row, _, _ in cases))
        for direction, (_, colour) in DIRECTIONS.items():
            points = [(ratio, rows.index(row)) for row, way, ratio in cases if way == direction]
            axis.plot([x for x, _ in points], [y for _, y in points], "o", markersize=4, color=colour)
        points = [(ratio, rows.index(row)) for row, way, ratio in cases if way is None]
        axis.plot([x for x, _ in points], [y for _, y in points], "o", markersize=4, color="#555555")
        axis.set_yticks(range(len(rows)), rows, fontsize=7)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_title(name, fontsize=9)
        low = min(ratio for _, _, ratio in cases)
        ratio_axis(axis, [tick for tick in (0.05, 0.1, 0.2, 0.5, 1, 2) if tick * 2.5 > low])
    handles = [matplotlib.lines.Line2D([], [], marker="o", linestyle="", markersize=4, color=colour, label=name)
               for name, colour in DIRECTIONS.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, title=title, frameon=False)
    return figure


def draw_roofline():
    """Rate over operations per byte of every convolution and matrix product, under the rates and the copy rate measured."""
    figure, axis = pyplot.subplots(figsize=(8.5, 5))
    points, ceilings = {}, ""
    for stem in RESNET | OTHER | MATMUL:
        if stem in ("depthwise", "fp32", "int8", "against_memory"):
            continue  # the last has no operations to count, the tables of the others name neither these nor bytes
        for row in read(stem, "csv"):
            if row["ours_ms"] and float(row["flops"]) > 0 and row["arithmetic"] in COLOURS:
                ceilings = row["ceilings"]
                points.setdefault(row["arithmetic"], []).append((float(row["flops"]) / float(row["bytes"]), float(row["tflops"])))
    copy = float(re.search(r"copy ([\d.]+) GB/s", ceilings)[1])
    rates = {"f32": "fp32", "tf32": "tf32", "f16": "fp16", "bf16": "bf16"}
    intensities = [10**(exponent / 50) for exponent in range(-10, 200)]
    for arithmetic, found in points.items():
        label = f"{arithmetic} ({len(found)})"
        axis.plot([x for x, _ in found], [y for _, y in found], "o", markersize=3, alpha=0.6, color=COLOURS[arithmetic],
                  markeredgewidth=0, label=label)
        if arithmetic in rates:
            rate = float(re.search(rf"\b{rates[arithmetic]} ([\d.]+)", ceilings)[1])
            axis.plot(intensities, [min(rate, x * copy / 1000) for x in intensities], color=COLOURS[arithmetic], linewidth=1)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(0.1, 2000)
    axis.set_xlabel("operations per byte that has to move")
    axis.set_ylabel("TFLOP/s")
    axis.legend(loc="lower right", title="convolutions and matrix products on an H200;\nlines: the rates of its matrix units "
                f"and copies ({copy:.0f} GB/s)")
    return figure


def draw_host_cost():
    """How many repeated calls cost the host at most so much."""
    ours, theirs = [], []
    for stem in RESNET | OTHER:
        for row in read(stem):
            if row["verdict"] == "ok" and row["ours_host_us"] and row["theirs_host_us"]:
                ours.append(float(row["ours_host_us"]))
                theirs.append(float(row["theirs_host_us"]))
    figure, axis = pyplot.subplots(figsize=(8.5, 3.4))
    for values, name, colour in ((ours, "libgpudnn", "#2166ac"), (theirs, "cuDNN 9.19", "#b2182b")):
        shares = [100 * (place + 1) / len(values) for place in range(len(values))]
        axis.step(sorted(values), shares, where="post", color=colour, label=name)
    axis.set_xscale("log")
    ticks = (2, 5, 10, 20, 50, 100)
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axis.set_xlabel(f"host time of a repeated call in us, its launches included ({len(ours)} calls)")
    axis.set_ylabel("% of the calls")
    axis.legend(loc="lower right")
    return figure


def draw_convergence():
    """The losses of the samples, each step and the mean of the last ones."""
    figure, axes = pyplot.subplots(2, 3, figsize=(11, 6))
    axes.flat[-1].set_visible(False)
    for axis, (stem, (name, choices)) in zip(axes.flat, CURVES.items()):
        lines = newest(f"{stem}.csv")
        result = " ".join(line[2:] for line in lines if line.startswith("# "))
        head, *rows = [line.split(",") for line in lines if not line.startswith("#")]
        seen, losses = ([float(row[column]) for row in rows] for column in (0, 1))
        width = max(1, len(losses) // 40)
        means = [math.fsum(losses[max(0, i - width + 1):i + 1]) / min(width, i + 1) for i in range(len(losses))]
        axis.plot(seen, losses, color="#92c5de", linewidth=0.5)
        axis.plot(seen, means, color="#b2182b", linewidth=1.2)
        if choices:
            axis.axhline(math.log(choices), color="black", linewidth=0.8, linestyle=":")
        axis.set_ylim(0, 1.05 * max(losses))
        axis.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))
        axis.set_title(name, fontsize=8.5)
        axis.set_xlabel(f"{head[0]} seen{f'; {result}' if result else ''}", fontsize=8)
        axis.set_ylabel("loss")
    return figure


def draw_demo():
    """What the demo printed, as a terminal shows it."""
    lines = newest("demo.txt")
    width, height = 0.078 * max(map(len, lines)) + 0.3, 0.165 * len(lines) + 0.3
    figure = pyplot.figure(figsize=(width, height), facecolor="#1e1e1e", layout="none")
    for place, line in enumerate(lines):
        figure.text(0.15 / width, 1 - (0.15 + 0.165 * place) / height, line.replace(" ", "\N{NO-BREAK SPACE}"), va="top",
                    family="monospace", color="#7fd1b9" if line.startswith("$") else "#d4d4d4", parse_math=False)
    return figure


def draw(folder):
    title = "time / cuDNN's time on an H200; left of 1 is faster"
    pictures = {
        "ratio": draw_ratio,
        "layers_resnet50": lambda: draw_layers(RESNET, 4, 9, title),
        "layers_networks": lambda: draw_layers({key: OTHER[key] for key in ("against_networks", "against_unseen",
                                                                            "depthwise")}, 3, 9, title),
        "layers_f32": lambda: draw_layers({key: OTHER[key] for key in ("fp32", "against_lenet")}, 2, 5, title),
        "layers_memory": lambda: draw_layers({"against_memory": OTHER["against_memory"]}, 1, 26, title),
        "layers_matmul": lambda: draw_layers(MATMUL, 1, 9, "time / the best of cuBLASLt's eight proposals on an H200"),
        "roofline": draw_roofline,
        "host_cost": draw_host_cost,
        "convergence": draw_convergence,
        "demo": draw_demo,
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, function in pictures.items():
        figure = function()
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return sorted(f"{name}.svg" for name in pictures)


def main():
    parser = argparse.ArgumentParser(description="Draws docs/pictures/*.svg from benchmarks/results/.")
    parser.add_argument("--check", action="store_true", help="fail where a picture of FOLDER differs from what is drawn now")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "docs" / "pictures")
    arguments = parser.parse_args()
    if not arguments.check:
        print("\n".join(draw(arguments.folder)))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        names = draw(pathlib.Path(scratch))
        differ = [name for name in names if not (arguments.folder / name).exists()
                  or (arguments.folder / name).read_bytes() != pathlib.Path(scratch, name).read_bytes()]
    for name in differ:
        print(f"{arguments.folder / name} is not what scripts/plots.py draws")
    print(f"{len(names)} pictures, {len(differ)} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
