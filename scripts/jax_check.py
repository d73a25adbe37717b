#!/usr/bin/env python3
"""Runs JAX's cuDNN calls twice, with NVIDIA's library and with libgpudnn preloaded in its place, and compares.

usage: jax_check.py LIBCUDNN [--work DIRECTORY] [--count N]

  LIBCUDNN   libgpudnn's libcudnn.so.9; its libgpudnn.so.1 must be beside it or in the folder above
  --work     where results and logs go; a fresh temporary directory otherwise
  --count    of random convolutions (default 40) and half as many attentions

Needs a GPU and JAX with its CUDA plugin. Each run is a process of its own; the second one has LD_PRELOAD=LIBCUDNN and a log.
Every case must give the same numbers within its bound; what NVIDIA's library refuses may be refused. Compiled programs are
not kept between runs, so XLA asks each library for its engines and measures them itself.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile

# Relative to the greatest value, or to 1: by the result's type, or for a kind of case as a whole.
BOUNDS = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-4}
BOUNDS_OF_KIND = {"attention": 2e-2, "training": 1e-2}


def normal(jax, shape, dtype, seed):
    return jax.random.normal(jax.random.key(seed), shape, "float32").astype(dtype)


def convolution_case(jax, draw):
    """(text, body) of a convolution and its two gradients, as networks in JAX have them."""
    spatial = draw.choice([1, 2, 2, 2, 3])
    dtype = draw.choice(["float32", "float16", "bfloat16"])
    groups = draw.choice([1, 1, 1, 2, 4])
    channels, filters = groups * draw.randint(1, 12), groups * draw.randint(1, 12)
    depthwise = groups > 1 and draw.random() < 0.3
    if depthwise:
        channels, filters = groups, groups
    extent = {1: 60, 2: 20, 3: 9}[spatial]
    image = [draw.randint(5, extent) for _ in range(spatial)]
    window = [draw.choice([1, 2, 3, 3, 5]) for _ in range(spatial)]
    strides = [draw.choice([1, 1, 2]) for _ in range(spatial)]
    dilation = [draw.choice([1, 1, 1, 2]) for _ in range(spatial)]
    padding = draw.choice(["SAME", "VALID", [(draw.randint(0, 2), draw.randint(0, 2)) for _ in range(spatial)]])
    if padding == "VALID":
        dilation = [1] * spatial
    last = draw.random() < 0.6
    letters = "DHW"[3 - spatial :]
    x_layout, w_layout = ("N" + letters + "C", letters + "IO") if last else ("NC" + letters, "OI" + letters)
    batch = draw.randint(1, 4)
    x_shape = [batch, *image, channels] if last else [batch, channels, *image]
    w_shape = [*window, channels // groups, filters] if last else [filters, channels // groups, *window]
    text = f"convolution {dtype} {x_layout} {x_shape} {w_shape} {strides} {padding} {dilation} groups {groups}"

    def body(seed):
        x, w = normal(jax, x_shape, dtype, seed), normal(jax, w_shape, dtype, seed + 1)

        def forward(x, w):
            return jax.lax.conv_general_dilated(
                x, w, strides, padding, rhs_dilation=dilation, dimension_numbers=(x_layout, w_layout, x_layout),
                feature_group_count=groups, precision="highest",
            )  # fmt: skip

        def run(x, w):
            y, pull = jax.vjp(forward, x, w)
            return (y, *pull(jax.numpy.ones_like(y)))

        return jax.jit(run)(x, w)

    return text, body


def fused_case(jax, draw):
    """Convolution, bias and activation: XLA makes one call of them."""
    dtype = draw.choice(["float32", "float16", "bfloat16"])
    activation = draw.choice(["relu", "elu", "relu6", "identity"])
    channels, filters = 8 * draw.randint(1, 4), 8 * draw.randint(1, 4)
    shape = [draw.randint(1, 4), draw.randint(6, 20), draw.randint(6, 20), channels]
    adds = draw.random() < 0.4
    text = f"fused {dtype} {shape} {filters} {activation}{' + z' if adds else ''}"

    def body(seed):
        x, w = normal(jax, shape, dtype, seed), normal(jax, [3, 3, channels, filters], dtype, seed + 1)
        bias, z = normal(jax, [filters], dtype, seed + 2), normal(jax, [*shape[:3], filters], dtype, seed + 3)

        def run(x, w, bias, z):
            y = jax.lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
            )
            y = y + z if adds else y
            y = y + bias
            named = {"relu": jax.nn.relu, "elu": jax.nn.elu, "relu6": jax.nn.relu6, "identity": lambda v: v}
            return (named[activation](y),)

        return jax.jit(run)(x, w, bias, z)

    return text, body


def attention_case(jax, draw):
    """jax.nn.dot_product_attention by cuDNN, with its gradients."""
    dtype = draw.choice(["float16", "bfloat16"])
    batch, heads = draw.randint(1, 3), draw.choice([2, 4])
    kv_heads = draw.choice([heads, heads, heads // 2])
    q_length = draw.choice([64, 128, 192, 256])
    k_length = draw.choice([q_length, q_length, 320])
    size = draw.choice([32, 64, 128])
    causal = q_length == k_length and draw.random() < 0.5
    window = (64, 0) if causal and draw.random() < 0.3 else None
    has_bias = not causal and draw.random() < 0.3
    text = (
        f"attention {dtype} b{batch} h{heads}/{kv_heads} {q_length}x{k_length} d{size}{' causal' if causal else ''}"
        f"{' window' if window else ''}{' bias' if has_bias else ''}"
    )

    def body(seed):
        q = normal(jax, [batch, q_length, heads, size], dtype, seed)
        k, v = (normal(jax, [batch, k_length, kv_heads, size], dtype, seed + i) for i in (1, 2))
        bias = normal(jax, [1, heads, q_length, k_length], dtype, seed + 3) if has_bias else None
        dy = normal(jax, [batch, q_length, heads, size], dtype, seed + 4)

        def forward(q, k, v):
            return jax.nn.dot_product_attention(
                q, k, v, bias, is_causal=causal, local_window_size=window, implementation="cudnn"
            )

        def run(q, k, v, dy):
            y, pull = jax.vjp(forward, q, k, v)
            return (y, *pull(dy))

        return jax.jit(run)(q, k, v, dy)

    return text, body


def training_case(jax, _):
    """30 steps of a small network: the losses."""

    def body(seed):
        np = jax.numpy
        shapes = [(3, 3, 3, 16), (3, 3, 16, 32), (3, 3, 32, 32), (32, 10)]
        weights = [normal(jax, shape, "float32", seed + i) * 0.1 for i, shape in enumerate(shapes)]
        x = normal(jax, [32, 16, 16, 3], "float32", seed + 9)
        labels = jax.random.randint(jax.random.key(seed + 10), [32], 0, 10)

        def loss(weights):
            y = x
            for i, w in enumerate(weights[:3]):
                y = jax.lax.conv_general_dilated(
                    y, w, (1, 1) if i == 0 else (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )
                y = jax.nn.relu(y)
            logits = y.mean((1, 2)) @ weights[3]
            return -np.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()

        @jax.jit
        def step(weights):
            value, slopes = jax.value_and_grad(loss)(weights)
            return value, [w - 0.1 * s for w, s in zip(weights, slopes)]

        losses = []
        for _ in range(30):
            value, weights = step(weights)
            losses.append(value)
        return (np.stack(losses),)

    return "training of three convolutions, 30 steps", body


def cases(jax, count):
    draw = random.Random(9)
    made = [convolution_case(jax, draw) for _ in range(count)] + [fused_case(jax, draw) for _ in range(count // 4)]
    return made + [attention_case(jax, draw) for _ in range(count // 2)] + [training_case(jax, draw)]


def worker(path, count):
    import jax
    import numpy

    results = {}
    with open(path + ".progress", "w", encoding="utf-8") as progress:
        for index, (text, body) in enumerate(cases(jax, count)):
            print(text, file=progress, flush=True)
            try:
                values = [numpy.asarray(jax.block_until_ready(v)) for v in body(1000 + 17 * index)]
                results[text] = [(str(v.dtype), v.astype(numpy.float64)) for v in values]
            except Exception as error:  # noqa: BLE001 XLA's errors have no common class
                results[text] = str(error).splitlines()[0][:300]
    with open(path, "wb") as file:
        pickle.dump(results, file)


def compare(theirs, ours, bound):
    import numpy

    if isinstance(ours, str):
        return ("same error", theirs) if isinstance(theirs, str) else ("FAILED", f"libgpudnn: {ours}")
    if isinstance(theirs, str):
        return "more", f"NVIDIA's: {theirs}"
    worst = 0.0
    for (dtype, a), (_, b) in zip(ours, theirs):
        if a.shape != b.shape or not numpy.array_equal(numpy.isfinite(a), numpy.isfinite(b)):
            return "FAILED", "another shape, or NaN or infinity in one of the two alone"
        scale = max(1.0, float(numpy.abs(numpy.nan_to_num(b)).max(initial=0)))
        error = float(numpy.abs(numpy.nan_to_num(a) - numpy.nan_to_num(b)).max(initial=0)) / scale
        worst = max(worst, error / (bound or BOUNDS[dtype]))
    return ("ok" if worst <= 1 else "FAILED"), f"{worst:.3f} of the bound"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", nargs="?")
    parser.add_argument("--work")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return worker(arguments.worker, arguments.count)
    if not arguments.library or not os.path.exists(arguments.library):
        parser.error("name libgpudnn's libcudnn.so.9")
    work = pathlib.Path(arguments.work or tempfile.mkdtemp(prefix="jax_check."))
    work.mkdir(parents=True, exist_ok=True)
    log = work / "gpudnn.log"
    log.unlink(missing_ok=True)
    common = {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "NVIDIA_TF32_OVERRIDE": "0", "JAX_ENABLE_COMPILATION_CACHE": "false",
    }  # fmt: skip
    preload = {
        "LD_PRELOAD": os.path.abspath(arguments.library), "LD_BIND_NOW": "1", "GPUDNN_BACKEND": "cuda",
        "GPUDNN_LOGLEVEL": "3", "GPUDNN_LOGDEST": str(log),
    }  # fmt: skip
    results = []
    for name, environment in (("nvidia.pickle", {}), ("gpudnn.pickle", preload)):
        command = [sys.executable, __file__, "--worker", str(work / name), "--count", str(arguments.count)]
        status = subprocess.run(command, env={**os.environ, **common, **environment}, check=False).returncode
        if status != 0:
            lines = (work / f"{name}.progress").read_text(encoding="utf-8").splitlines()
            print(f"FAILED: the process ended with {status} in: {lines[-1] if lines else 'the start'}")
            return 1
        with open(work / name, "rb") as file:
            results.append(pickle.load(file))

    counts = {}
    for text, ours in results[1].items():
        part = text.split(" ")[0]
        verdict, what = compare(results[0][text], ours, BOUNDS_OF_KIND.get(part))
        counts.setdefault(part, {}).setdefault(verdict, []).append(text)
        print(f"{verdict:10} {text}: {what}")
    for part, verdicts in counts.items():
        print(f"{part:12}", ", ".join(f"{len(names)} {verdict}" for verdict, names in verdicts.items()))
    failures = sum(len(verdicts.get("FAILED", [])) for verdicts in counts.values())
    served = log.read_text(encoding="utf-8", errors="replace").count("BackendExecute") if log.exists() else 0
    if served == 0:
        failures += 1
        print("FAILED     the log of the second run has no executed graph: libgpudnn was not asked")
    print(f"{len(results[1])} cases, {failures} failures, {served} executed graphs; results and logs in {work}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
