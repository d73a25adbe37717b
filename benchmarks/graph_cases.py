#!/usr/bin/env python3
"""Writes lists of cases as graphs for gpudnn-bench --graphs.

usage: graph_cases.py LIST

  pointwise   benchmarks/cases/pointwise.txt, each program as a graph of pointwise operations
  chains      benchmarks/cases/pointwise_chains.txt, likewise
  norms       benchmarks/cases/layer_norm.txt, batch normalization, and norms with the operations around them
  epilogues   the 3x3 and 1x1 convolutions of ResNet-50 in half precision, plain, with bias, residual and activations, and with
              statistics
  attention   forward and backward without a mask, as one operation each
  matmul      products of transformers, plain and with bias and GELU
  float8      large convolutions in half precision and in 8-bit floats, these with descales, AMAX and scale

A program's numbers become scalars of the host, whose values do not matter for its time.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import sys

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")
MODES = {
    "gelu": "gelu_fwd",
    "gelu_tanh": "gelu_approx_tanh_fwd",
    "gelu_tanh_bwd": "gelu_approx_tanh_bwd",
    "relu": "relu_fwd",
    "swish": "swish_fwd",
    "tanh": "tanh_fwd",
    "sigmoid": "sigmoid_fwd",
    "softplus": "softplus_fwd",
    "ge": "cmp_ge",
    "select": "binary_select",
    "neg": "neg",
}


class Graph:
    """Lines of a graph's text, with numbers given to tensors as they come."""

    def __init__(self):
        self.lines = []
        self.tensors = 0

    def tensor(self, dtype, dims, strides=None, kind=""):
        self.tensors += 1
        text = f"tensor {self.tensors} {dtype} {'x'.join(map(str, dims))}"
        if strides:
            text += " strides=" + ",".join(map(str, strides))
        self.lines.append(text + (" " + kind if kind else ""))
        return self.tensors

    def virtual(self, dims, strides=None, dtype="f32"):
        return self.tensor(dtype, dims, strides, "virtual")

    def operation(self, text):
        self.lines.append(text)

    def text(self):
        tensors = [line for line in self.lines if line.startswith("tensor")]
        return "\n".join(tensors + [line for line in self.lines if not line.startswith("tensor")])


def nhwc(dims):
    n, c, h, w = dims
    return [h * w * c, 1, w * c, c]


def dims_of(text):
    if text[0] == "n" and text[1].isdigit():
        return list(map(int, re.findall(r"\d+", text)))
    return list(map(int, text.split("x")))


def padded(dims, rank):
    return [1] * (rank - len(dims)) + list(dims)


def pointwise_graph(line):
    """A pointwise program. Tensors have three dimensions or more, as graphs want them."""
    words = line.split()
    dims = dims_of(words[1])
    rank = max(3, len(dims))
    space = padded(dims, rank)
    graph, values, outputs, steps = Graph(), {}, [], []

    def operand_tensor(text):
        parts = text.split(":")
        shape, strides = space, None
        for part in parts[1:]:
            if part == "nhwc":
                strides = nhwc(space)
            elif part.startswith("strides="):
                strides = list(map(int, part[8:].split(",")))
                strides = [strides[0] * dims[0]] * (rank - len(strides)) + strides
            else:
                shape = padded(dims_of(part), rank)
        if strides and shape != space:
            strides = None
        return parts[0], shape, strides

    layout = nhwc(space) if ":nhwc" in line else None
    for word in words[2:]:
        name, text = word.split("=", 1)
        if name[0] == "i":
            if text.startswith("index"):
                axis = int(text[5:]) + rank - len(dims)
                values[name] = graph.virtual(space, dtype="i32")
                graph.operation(f"pointwise gen_index y={values[name]} compute=i32 axis={axis}")
            else:
                values[name] = graph.tensor(*operand_tensor(text))
        elif name[0] == "r":
            steps.append((name, text))
        else:
            outputs.append(text)
    kept = {}
    for text in outputs:
        name, _, form = text.partition(":")
        kept[name] = operand_tensor(form)
    booleans = set()
    for name, text in steps:
        function, operands = text[:-1].split("(")
        operands, _, parameters = operands.partition(";")
        inputs = []
        for operand in operands.split(","):
            if operand not in values:
                values[operand] = graph.tensor("f32", [1] * rank, None, "by_value")
            inputs.append(values[operand])
        mode = MODES.get(function, function)
        if mode == "cmp_ge":
            values[name] = graph.virtual(space, layout, "bool")
        elif name in kept:
            values[name] = graph.tensor(*kept[name])
        else:
            values[name] = graph.virtual(space, layout)
        fields = ""
        if mode.startswith("relu"):
            low, high, _ = parameters.split(",")
            fields = "" if low == "0" and high == "inf" else f" lower_clip={low} upper_clip={high}"
        if mode.endswith("_bwd"):
            # x is the input of the forward pass, dy its output's gradient; for ReLU both libraries take x or y.
            dy, x = (inputs[1], inputs[0]) if function in ("swish_bwd", "gelu_bwd", "gelu_tanh_bwd") else inputs[::-1]
            graph.operation(f"pointwise {mode} x={x} dy={dy} dx={values[name]} compute=f32{fields}")
        else:
            ports = zip("xbt", inputs)
            links = " ".join(f"{port}={tensor}" for port, tensor in ports)
            graph.operation(f"pointwise {mode} {links} y={values[name]} compute=f32{fields}")
    if not steps:  # a copy
        form = operand_tensor(outputs[0].partition(":")[2])
        graph.operation(f"pointwise identity x={values['i0']} y={graph.tensor(*form)} compute=f32")
    return graph.text()


def lines_of(name):
    with open(os.path.join(CASES, name), encoding="utf-8") as file:
        for line in file:
            line = line.split("#")[0].strip()
            if line:
                yield line


def pointwise():
    for line in lines_of("pointwise.txt"):
        if " index" not in line:
            yield line.replace("pointwise ", "")[:150], pointwise_graph(line)


def chains():
    for line in lines_of("pointwise_chains.txt"):
        yield line.replace("pointwise ", "")[:150], pointwise_graph(line)


def packed(dims, channels_last):
    """Strides: row-major, or with dimension 1 the fastest."""
    order = [1, *range(len(dims) - 1, 1, -1), 0] if channels_last else [*range(len(dims) - 1, -1, -1)]
    strides, step = [0] * len(dims), 1
    for i in order:
        strides[i], step = step, step * dims[i]
    return strides


def norm_graph(line):
    """One norm of benchmarks/cases/layer_norm.txt. Groups and their channels are two dimensions of an instance norm."""
    words = line.split()
    mode, phase, dtype, layout = words[1:5]
    options = dict(word.split("=") for word in words[6:] if "=" in word)
    dims = dims_of(words[5])
    strides = packed(dims, layout == "nhwc")
    if mode in ("layer", "rms"):
        dims, strides = [*dims, 1, 1], None
        row, parameter = [dims[0], 1, 1, 1], [1, dims[1], 1, 1]
    elif mode == "ada":
        row, parameter, strides = [*dims[:2], 1], [dims[0], 1, dims[2]], None
    elif mode == "group":
        groups = int(options["groups"])
        dims = [dims[0], groups, dims[1] // groups, *dims[2:]]
        strides = [strides[0], strides[1] * dims[2], *strides[1:]]
        row = [*dims[:2], *[1] * (len(dims) - 2)]
        parameter = [1, *dims[1:3], *[1] * (len(dims) - 3)]
    else:
        row, parameter = [*dims[:2], *[1] * (len(dims) - 2)], [1, dims[1], *[1] * (len(dims) - 2)]
    name = {"group": "instance", "ada": "ada_layer"}.get(mode, mode)
    of_parameters = options.get("params", "f32")
    graph = Graph()
    x, scale = graph.tensor(dtype, dims, strides), graph.tensor(of_parameters, parameter)
    if phase == "bwd":
        dy = graph.tensor(dtype, dims, strides)
        mean = f"mean={graph.tensor('f32', row)} " if mode != "rms" else ""
        inverse, dx = graph.tensor("f32", row), graph.tensor(dtype, dims, strides)
        dscale = graph.tensor(of_parameters, parameter)
        dbias = "" if "nodbias" in words else f"dbias={graph.tensor(of_parameters, parameter)} "
        graph.operation(f"norm_bwd {name} x={x} {mean}inverse={inverse} dy={dy} scale={scale} dscale={dscale} {dbias}dx={dx}")
        return graph.text()
    epsilon = graph.tensor("f32", [1] * len(dims), None, "by_value")
    bias = "" if "nobias" in words else f"bias={graph.tensor(of_parameters, parameter)} "
    statistics = ""
    if phase == "train":
        mean = f"mean={graph.tensor('f32', row)} " if mode != "rms" else ""
        statistics = f"{mean}inverse={graph.tensor('f32', row)} "
    y = graph.tensor(options.get("out", dtype), dims, strides)
    ending = " phase=1" if phase == "train" else ""
    graph.operation(f"norm_fwd {name} x={x} {statistics}scale={scale} {bias}epsilon={epsilon} y={y}{ending}")
    return graph.text()


def batch_norm_graph(dims, kind):
    """Batch normalization of half-precision images, channels last."""
    graph, strides, vector = Graph(), nhwc(dims), [1, dims[1], 1, 1]
    image = lambda: graph.tensor("f16", dims, strides)  # noqa: E731
    x, scale = image(), graph.tensor("f32", vector)
    mean, inverse = graph.tensor("f32", vector), graph.tensor("f32", vector)
    if kind == "bwd":
        dy, dx = image(), image()
        dscale, dbias = graph.tensor("f32", vector), graph.tensor("f32", vector)
        graph.operation(
            f"norm_bwd batch x={x} mean={mean} inverse={inverse} dy={dy} scale={scale} dscale={dscale} dbias={dbias} dx={dx}"
        )
        return graph.text()
    bias = graph.tensor("f32", vector)
    y = image() if kind in ("train", "infer") else graph.virtual(dims, strides)
    if kind.startswith("infer"):
        graph.operation(f"norm_fwd batch x={x} mean={mean} inverse={inverse} scale={scale} bias={bias} y={y}")
    else:
        epsilon, factor = (graph.tensor("f32", [1, 1, 1, 1], None, "by_value") for _ in range(2))
        before = [graph.tensor("f32", vector) for _ in range(2)]
        after = [graph.tensor("f32", vector) for _ in range(2)]
        graph.operation(
            f"norm_fwd batch x={x} scale={scale} bias={bias} epsilon={epsilon} factor={factor} "
            f"running_mean_in={before[0]} running_var_in={before[1]} running_mean_out={after[0]} "
            f"running_var_out={after[1]} mean={mean} inverse={inverse} y={y} phase=1"
        )
    if "add" in kind:
        added = graph.virtual(dims, strides)
        graph.operation(f"pointwise add x={y} b={image()} y={added} compute=f32")
        y = added
    if "relu" in kind:
        graph.operation(f"pointwise relu_fwd x={y} y={image()} compute=f32")
    return graph.text()


def fused_norm_graph(rows, columns, kind):
    """RMS and layer norms between the operations that stand around them in a transformer."""
    graph = Graph()
    full, parameter = [rows, columns, 1, 1], [1, columns, 1, 1]
    x, scale = graph.tensor("bf16", full), graph.tensor("bf16", parameter)
    epsilon = graph.tensor("f32", [1, 1, 1, 1], None, "by_value")
    if "residual" in kind:
        branch, summed = graph.tensor("bf16", full), graph.tensor("bf16", full)
        graph.operation(f"pointwise add x={x} b={branch} y={summed} compute=f32")
        x = summed
    plain = kind in ("residual+rms", "residual+layer")
    y = graph.tensor("bf16", full) if plain else graph.virtual(full)
    if "rms" in kind:
        graph.operation(f"norm_fwd rms x={x} scale={scale} epsilon={epsilon} y={y}")
    else:
        bias = graph.tensor("bf16", parameter)
        graph.operation(f"norm_fwd layer x={x} scale={scale} bias={bias} epsilon={epsilon} y={y}")
    if "silu" in kind:
        graph.operation(f"pointwise swish_fwd x={y} y={graph.tensor('bf16', full)} compute=f32")
    if "relu" in kind:
        graph.operation(f"pointwise relu_fwd x={y} y={graph.tensor('bf16', full)} compute=f32")
    if "e4m3" in kind:
        factor, quantized = graph.tensor("f32", [1, 1, 1, 1]), graph.tensor("f8e4m3", full)
        amax = graph.tensor("f32", [1, 1, 1, 1])
        graph.operation(f"pointwise mul x={y} b={factor} y={quantized} compute=f32")
        graph.operation(f"reduction amax x={y} y={amax} compute=f32")
    return graph.text()


def norms():
    for line in lines_of("layer_norm.txt"):
        if not any(word in line for word in ("out=", "residual", "act=")):
            yield line.replace("layer_norm ", ""), norm_graph(line)
    for dims in ([64, 256, 56, 56], [64, 64, 112, 112], [64, 512, 14, 14], [64, 2048, 7, 7], [16, 128, 28, 28]):
        for kind in ("train", "train+relu", "train+add+relu", "infer", "infer+relu", "bwd"):
            yield f"batch {kind} f16 nhwc {'x'.join(map(str, dims))}", batch_norm_graph(dims, kind)
    for rows, columns in ((16384, 4096), (8192, 8192), (64, 8192)):
        for kind in ("residual+rms", "residual+layer", "rms+silu", "layer+relu", "residual+rms+e4m3"):
            yield f"{kind} bf16 {rows}x{columns}", fused_norm_graph(rows, columns, kind)


def epilogues():
    for line in lines_of("resnet50_fp16_n64.txt"):
        match = re.search(r"conv fwd (\w+) nhwc n(\d+)c(\d+)h(\d+)w(\d+) k(\d+)r(\d+)s(\d+) p(\d+)x(\d+) t(\d+)x(\d+)", line)
        if not match:
            continue
        dtype = match.group(1)
        n, c, h, w, k, r, s, p, q, t, u = map(int, match.groups()[1:])
        out = [n, k, (h + 2 * p - r) // t + 1, (w + 2 * q - s) // u + 1]
        for kind in ("plain", "bias+relu", "bias+residual+relu", "bias+gelu", "bias+swish", "bias+tanh", "statistics"):
            graph = Graph()
            x = graph.tensor(dtype, [n, c, h, w], nhwc([n, c, h, w]))
            filters = graph.tensor(dtype, [k, c, r, s], nhwc([k, c, r, s]))
            y = graph.tensor(dtype, out, nhwc(out))
            at = y if kind in ("plain", "statistics") else graph.virtual(out, nhwc(out))
            graph.operation(
                f"conv_fwd cross x={x} w={filters} y={at} compute=f32 pre={p}x{q} post={p}x{q} stride={t}x{u} dilation=1x1"
            )
            if kind == "statistics":
                sums = [graph.tensor("f32", [1, k, 1, 1]) for _ in range(2)]
                graph.operation(f"gen_stats x={y} sum={sums[0]} sqsum={sums[1]}")
            elif kind != "plain":
                bias, biased = graph.tensor(dtype, [1, k, 1, 1]), graph.virtual(out, nhwc(out))
                graph.operation(f"pointwise add x={at} b={bias} y={biased} compute=f32")
                if "residual" in kind:
                    residual, added = graph.tensor(dtype, out, nhwc(out)), graph.virtual(out, nhwc(out))
                    graph.operation(f"pointwise add x={biased} b={residual} y={added} compute=f32")
                    biased = added
                graph.operation(f"pointwise {kind.split('+')[-1]}_fwd x={biased} y={y} compute=f32")
            yield f"c{c}h{h}k{k}r{r}t{t} {kind}", graph.text()


def attention():
    for batch, heads, groups, length, dim in (
        (2, 16, 16, 8192, 128), (2, 16, 16, 8192, 64), (8, 16, 16, 2048, 128), (4, 32, 8, 4096, 128),
        (32, 16, 16, 512, 64), (64, 12, 12, 197, 64), (1, 16, 16, 8192, 256),
    ):  # fmt: skip
        for backward in (0, 1):
            graph = Graph()
            q = graph.tensor("bf16", [batch, heads, length, dim])
            k, v = (graph.tensor("bf16", [batch, groups, length, dim]) for _ in range(2))
            o = graph.tensor("bf16", [batch, heads, length, dim])
            stats = graph.tensor("f32", [batch, heads, length, 1])
            scale = graph.tensor("f32", [1, 1, 1, 1], None, "by_value")
            if backward:
                d_o, dq = (graph.tensor("bf16", [batch, heads, length, dim]) for _ in range(2))
                dk, dv = (graph.tensor("bf16", [batch, groups, length, dim]) for _ in range(2))
                graph.operation(
                    f"sdpa_bwd q={q} k={k} v={v} o={o} d_o={d_o} stats={stats} dq={dq} dk={dk} dv={dv} scale={scale}"
                )
            else:
                graph.operation(f"sdpa_fwd q={q} k={k} v={v} o={o} stats={stats} scale={scale}")
            yield f"{'bwd' if backward else 'fwd'} b{batch}h{heads}/{groups}s{length}d{dim}", graph.text()


def matmul():
    for m in (16, 512, 8192):
        for n, k in ((4096, 4096), (12288, 4096), (14336, 4096), (4096, 14336)):
            for kind in ("plain", "bias+gelu", "bias+silu"):
                graph = Graph()
                x, w = graph.tensor("bf16", [1, m, k]), graph.tensor("bf16", [1, k, n], [n * k, 1, k])
                y = graph.tensor("bf16", [1, m, n])
                at = y if kind == "plain" else graph.virtual([1, m, n])
                graph.operation(f"matmul x={x} b={w} y={at} compute=f32")
                if kind != "plain":
                    bias, biased = graph.tensor("bf16", [1, 1, n]), graph.virtual([1, m, n])
                    graph.operation(f"pointwise add x={at} b={bias} y={biased} compute=f32")
                    graph.operation(
                        f"pointwise {'gelu_fwd' if 'gelu' in kind else 'swish_fwd'} x={biased} y={y} compute=f32"
                    )
                yield f"m{m} n{n} k{k} {kind}", graph.text()


# Of ResNet-50, VGG-16, FPN, Stable Diffusion and SDXL: n, c, h, w, k, r, padding, stride.
FLOAT8_LAYERS = (
    (256, 128, 28, 28, 128, 3, 1, 1), (256, 256, 14, 14, 256, 3, 1, 1), (256, 512, 7, 7, 512, 3, 1, 1),
    (256, 256, 28, 28, 256, 3, 1, 2), (256, 512, 28, 28, 256, 1, 0, 1), (256, 1024, 14, 14, 512, 1, 0, 1),
    (64, 128, 112, 112, 128, 3, 1, 1), (64, 256, 56, 56, 256, 3, 1, 1), (64, 512, 28, 28, 512, 3, 1, 1),
    (128, 512, 14, 14, 512, 3, 1, 1), (8, 256, 100, 152, 256, 3, 1, 1), (16, 320, 64, 64, 320, 3, 1, 1),
    (16, 640, 32, 32, 640, 3, 1, 1), (16, 1280, 16, 16, 1280, 3, 1, 1), (8, 1920, 32, 32, 640, 3, 1, 1),
)  # fmt: skip


def float8():
    for n, c, h, w, k, r, p, t in FLOAT8_LAYERS:
        out = [n, k, (h + 2 * p - r) // t + 1, (w + 2 * p - r) // t + 1]
        dims = {"x": [n, c, h, w], "w": [k, c, r, r], "y": out}
        for direction, written in (("fwd", "y"), ("dgrad", "x"), ("wgrad", "w")):
            for kind in ("f16", "f8"):
                graph, ports, at = Graph(), {}, None
                for name, shape in dims.items():
                    dtype = kind if kind == "f16" else "f8e5m2" if name == "y" and direction != "fwd" else "f8e4m3"
                    if name != written:
                        ports[name] = graph.tensor(dtype, shape, nhwc(shape))
                    elif kind == "f16":
                        ports[name] = graph.tensor("f16", shape, nhwc(shape))
                    else:
                        ports[name] = at = graph.virtual(shape, nhwc(shape))
                names = {"fwd": ("x", "w", "y"), "dgrad": ("dx", "w", "dy"), "wgrad": ("x", "dw", "dy")}[direction]
                links = " ".join(f"{port}={ports[port[-1]]}" for port in names)
                graph.operation(
                    f"conv_{direction} cross {links} compute=f32 pre={p}x{p} post={p}x{p} stride={t}x{t} dilation=1x1"
                )
                if kind == "f8":
                    shape = dims[written]
                    numbers = [graph.tensor("f32", [1, 1, 1, 1]) for _ in range(4)]
                    for i in range(3):
                        to = graph.tensor("f8e4m3", shape, nhwc(shape)) if i == 2 else graph.virtual(shape, nhwc(shape))
                        graph.operation(f"pointwise mul x={at} b={numbers[i]} y={to} compute=f32")
                        if i == 1:
                            graph.operation(f"reduction amax x={to} y={numbers[3]} compute=f32")
                        at = to
                yield f"n{n}c{c}h{h}w{w}k{k}r{r}t{t} {direction} {kind}", graph.text()


def main():
    lists = {f.__name__: f for f in (pointwise, chains, norms, epilogues, attention, matmul, float8)}
    if len(sys.argv) != 2 or sys.argv[1] not in lists:
        sys.exit(__doc__)
    for name, text in lists[sys.argv[1]]():
        print(f"== {name}\n{text}")


if __name__ == "__main__":
    main()
