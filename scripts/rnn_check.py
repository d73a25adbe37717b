#!/usr/bin/env python3
"""Compares recurrent networks of libgpudnn with those of NVIDIA's library, both loaded into this process.

usage: rnn_check.py LIBGPUDNN LIBCUDNN [--networks N] [--forwards N] [--seed S]

  LIBGPUDNN    libgpudnn.so.1
  LIBCUDNN     NVIDIA's libcudnn.so.9
  --networks   random networks whose weights' addresses and shapes are compared (default 1000)
  --forwards   random networks that both run over the same x and the same weight space (default 300)

Addresses: of every matrix and bias of every pseudo-layer, and the size of the weight space, for each cell, bias mode,
direction, projection and skipped input. Forward: y, hy and cy of training and inference, within rounding. What NVIDIA's
library refuses is counted and not compared; what libgpudnn alone refuses is a failure. Projected LSTMs of floats that may
be converted are compared with NVIDIA's run of the same in FMA: cuDNN 9.19 writes beyond the memory that it was given
there (seen with compute-sanitizer), and its results change with what lies in memory. Needs a GPU and PyTorch.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import collections
import ctypes
import random
import sys

import torch

RELU, TANH, LSTM, GRU = range(4)
CELLS = ("relu", "tanh", "lstm", "gru")
TYPES = {"f32": (0, torch.float32), "f64": (1, torch.float64), "f16": (2, torch.float16), "bf16": (9, torch.bfloat16)}
# Relative to the greatest value: a few roundings of the type at each of the steps and layers.
BOUNDS = {"f32": 1e-4, "f64": 1e-11, "f16": 8e-3, "bf16": 6e-2}
TF32_BOUND = 8e-3
PACKED = 1
DEFAULT_MATH, TENSOR_OP_MATH, CONVERSION_MATH, FMA_MATH = range(4)


class Library:
    """Calls by their names behind the prefix; each but `status` raises nothing and returns a status."""

    def __init__(self, path, prefix):
        self.library = ctypes.CDLL(path)
        self.prefix = prefix
        self.handle = ctypes.c_void_p()
        if self("Create", ctypes.byref(self.handle)):
            sys.exit(f"{path}: no handle")

    def __call__(self, name, *arguments):
        return getattr(self.library, self.prefix + name)(*arguments)

    def make(self, kind):
        descriptor = ctypes.c_void_p()
        if self(f"Create{kind}Descriptor", ctypes.byref(descriptor)):
            sys.exit(f"{self.prefix}Create{kind}Descriptor failed")
        return descriptor

    def drop(self, kind, descriptor):
        self(f"Destroy{kind}Descriptor", descriptor)


class Refused(Exception):
    pass


def checked(status, what):
    if status:
        raise Refused(f"{what}: {status}")


Network = collections.namedtuple("Network", "cell bias both skip type math input hidden projected layers clip")


def random_network(draw):
    cell = draw.choice((RELU, TANH, LSTM, LSTM, GRU))
    kind = draw.choice(tuple(TYPES))
    hidden = draw.choice((1, 3, 8, 16, 24, 29, 64, 100, 128, 200, 256, 512))
    skip = draw.random() < 0.15
    projects = cell == LSTM and not skip and hidden > 1 and draw.random() < 0.3
    math = draw.choice({"f32": (DEFAULT_MATH, FMA_MATH, CONVERSION_MATH), "f64": (DEFAULT_MATH, FMA_MATH)}.get(
        kind, (DEFAULT_MATH, TENSOR_OP_MATH)))
    clip = draw.choice((None, None, None, (-0.4, 0.3))) if cell == LSTM else None
    return Network(cell, draw.randrange(4), draw.random() < 0.4, skip, kind, math,
                   hidden if skip else draw.choice((1, 5, 8, 40, 128, hidden)), hidden,
                   draw.randint(1, hidden - 1) if projects else hidden, draw.choice((1, 1, 2, 3)), clip)


def text(n):
    options = f"bias{n.bias} {'bi' if n.both else 'uni'}{' skip' if n.skip else ''}"
    return (f"{CELLS[n.cell]} {n.type} {options} math{n.math} in{n.input} h{n.hidden} p{n.projected} l{n.layers}{' clip' if n.clip else ''}")


class Descriptors:
    """The network's descriptor in one library, as a context."""

    def __init__(self, library, n):
        self.library, self.n = library, n

    def __enter__(self):
        lib, n = self.library, self.n
        self.rnn, self.dropout = lib.make("RNN"), lib.make("Dropout")
        kind = TYPES[n.type][0]
        precision = kind if kind == 1 else 0
        checked(lib("SetDropoutDescriptor", self.dropout, lib.handle, ctypes.c_float(0), None, ctypes.c_size_t(0),
                    ctypes.c_ulonglong(0)), "dropout")
        checked(lib("SetRNNDescriptor_v8", self.rnn, 0, n.cell, n.bias, int(n.both), int(n.skip), kind, precision,
                    n.math, n.input, n.hidden, n.projected, n.layers, self.dropout, 1), "descriptor")
        if n.clip:
            low, high = (ctypes.c_double(value) for value in n.clip)
            checked(lib("RNNSetClip_v8", self.rnn, 1, 1, low, high), "clip")
        return self

    def __exit__(self, *_):
        self.library.drop("RNN", self.rnn)
        self.library.drop("Dropout", self.dropout)

    def weight_bytes(self):
        size = ctypes.c_size_t()
        checked(self.library("GetRNNWeightSpaceSize", self.library.handle, self.rnn, ctypes.byref(size)), "weights")
        return size.value

    def weights(self):
        """(pseudo-layer, id) -> offsets and shapes of the matrix and of the bias."""
        lib, n = self.library, self.n
        base = 1 << 40
        size = self.weight_bytes()
        ids = {LSTM: 8 + (n.projected != n.hidden), GRU: 6}.get(n.cell, 2)
        matrix, bias = lib.make("Tensor"), lib.make("Tensor")
        found = {}
        for layer in range(n.layers * (2 if n.both else 1)):
            for number in range(ids):
                at, bias_at = ctypes.c_void_p(), ctypes.c_void_p()
                checked(lib("GetRNNWeightParams", lib.handle, self.rnn, layer, ctypes.c_size_t(size),
                            ctypes.c_void_p(base), number, matrix, ctypes.byref(at), bias, ctypes.byref(bias_at)),
                        f"weights of layer {layer}, {number}")
                found[layer, number] = (at.value and at.value - base, at.value and shape(lib, matrix),
                                        bias_at.value and bias_at.value - base, bias_at.value and shape(lib, bias))
        lib.drop("Tensor", matrix)
        lib.drop("Tensor", bias)
        return size, found


def shape(lib, descriptor):
    kind, rank = ctypes.c_int(), ctypes.c_int()
    dims, strides = (ctypes.c_int * 8)(), (ctypes.c_int * 8)()
    checked(lib("GetTensorNdDescriptor", descriptor, 8, ctypes.byref(kind), ctypes.byref(rank), dims, strides), "shape")
    return (kind.value, tuple(dims[:rank.value]))


def compare_addresses(ours, theirs, count, draw):
    refused = different = 0
    for _ in range(count):
        n = random_network(draw)
        try:
            with Descriptors(theirs, n) as d:
                expected = d.weights()
        except Refused:
            refused += 1
            continue
        try:
            with Descriptors(ours, n) as d:
                found = d.weights()
        except Refused as why:
            found = (f"refused, {why}", {})
        if found == expected:
            continue
        different += 1
        print(f"DIFFERS  {text(n)}: size {found[0]}, theirs {expected[0]}")
        for key, value in expected[1].items():
            if found[1].get(key) != value:
                print(f"  {key}: {found[1].get(key)}, theirs {value}")
                break
    print(f"addresses: {count - refused} networks, {refused} refused by NVIDIA's library, {different} differ")
    return different


def forward(library, n, batch, training, x, states, weights):
    """(y, hy, cy) as tensors, and the bytes of the work space."""
    steps, layout, lengths, fill = batch
    kind, dtype = TYPES[n.type]
    directions = 2 if n.both else 1
    with Descriptors(library, n) as d:
        xs, ys, h, c = library.make("RNNData"), library.make("RNNData"), library.make("Tensor"), library.make("Tensor")
        array = (ctypes.c_int * len(lengths))(*lengths)
        value = torch.tensor([fill], dtype=dtype)
        for descriptor, width in ((xs, n.input), (ys, n.projected * directions)):
            checked(library("SetRNNDataDescriptor", descriptor, kind, layout, steps, len(lengths), width, array,
                            ctypes.c_void_p(value.data_ptr())), "data")
        for descriptor, width in ((h, n.projected), (c, n.hidden)):
            dims = (n.layers * directions, len(lengths), width)
            checked(library("SetTensorNdDescriptor", descriptor, kind, 3, (ctypes.c_int * 3)(*dims),
                            (ctypes.c_int * 3)(dims[1] * dims[2], dims[2], 1)), "state")
        work, reserve = ctypes.c_size_t(), ctypes.c_size_t()
        checked(library("GetRNNTempSpaceSizes", library.handle, d.rnn, int(training), xs, ctypes.byref(work),
                        ctypes.byref(reserve)), "sizes")
        scratch = torch.full((work.value + 1,), 255, dtype=torch.uint8, device="cuda")
        kept = torch.full((reserve.value + 1,), 255, dtype=torch.uint8, device="cuda")
        rows = sum(lengths) if layout == PACKED else steps * len(lengths)
        y = torch.full((rows, n.projected * directions), float("nan"), dtype=dtype, device="cuda")
        hx, cx = states
        hy = torch.full((n.layers * directions, len(lengths), n.projected), float("nan"), dtype=dtype, device="cuda")
        cy = torch.full((n.layers * directions, len(lengths), n.hidden), float("nan"), dtype=dtype, device="cuda")
        device_lengths = torch.tensor(lengths, dtype=torch.int32, device="cuda")
        at = lambda tensor: ctypes.c_void_p(None if tensor is None else tensor.data_ptr())
        torch.cuda.synchronize()
        checked(library("RNNForward", library.handle, d.rnn, int(training), at(device_lengths), xs, at(x), ys, at(y), h,
                        at(hx), at(hy), c, at(cx), at(cy if n.cell == LSTM else None),
                        ctypes.c_size_t(d.weight_bytes()), at(weights), work, at(scratch), reserve, at(kept if training else None)), "forward")
        torch.cuda.synchronize()
        for name, descriptor in (("RNNData", xs), ("RNNData", ys), ("Tensor", h), ("Tensor", c)):
            library.drop(name, descriptor)
        return [y, hy] + ([cy] if n.cell == LSTM else []), work.value


def random_batch(draw):
    steps, count = draw.randint(1, 30), draw.choice((1, 3, 8, 20, 33, 64, 128))
    layout = draw.randrange(3)
    lengths = [steps] * count if draw.random() < 0.5 else [draw.randint(1, steps) for _ in range(count)]
    lengths[0] = steps
    if layout == PACKED:
        lengths.sort(reverse=True)
    return steps, layout, lengths, draw.choice((0.0, -2.5))


def compare_forwards(ours, theirs, count, draw):
    refused = failures = 0
    worst = collections.Counter()
    more = []
    for _ in range(count):
        n, batch, training = random_network(draw), random_batch(draw), draw.random() < 0.5
        what = f"{text(n)} t{batch[0]} b{len(batch[2])} layout{batch[1]}{' train' if training else ' infer'}"
        dtype = TYPES[n.type][1]
        generator = torch.Generator(device="cuda").manual_seed(draw.randrange(1 << 31))
        uniform = lambda *size: (torch.rand(*size, dtype=torch.float64, device="cuda", generator=generator) * 2 - 1)
        rows = sum(batch[2]) if batch[1] == PACKED else batch[0] * len(batch[2])
        x = uniform(rows, n.input).to(dtype)
        pseudo = n.layers * (2 if n.both else 1)
        hx = uniform(pseudo, len(batch[2]), n.projected).to(dtype) if draw.random() < 0.6 else None
        cx = uniform(pseudo, len(batch[2]), n.hidden).to(dtype) if n.cell == LSTM and draw.random() < 0.6 else None
        try:
            with Descriptors(theirs, n) as d:
                size = d.weight_bytes()
            scale = 0.5 / max(n.hidden, n.input) ** 0.5 if n.cell == RELU else 1.5 / max(n.hidden, n.input) ** 0.5
            weights = (uniform(size // torch.empty((), dtype=dtype).element_size()) * scale).to(dtype)
            converts = n.type == "f32" and n.math == CONVERSION_MATH and n.projected != n.hidden
            theirs_of = n._replace(math=FMA_MATH) if converts else n
            expected, their_work = forward(theirs, theirs_of, batch, training, x, (hx, cx), weights)
        except Refused:
            refused += 1
            continue
        try:
            found, work = forward(ours, n, batch, training, x, (hx, cx), weights)
        except Refused as why:
            failures += 1
            print(f"REFUSED  {what}: {why}")
            continue
        if work > their_work:
            more.append((work / max(1, their_work), work, what))
        # Both may cut float to TF32 where the math type lets them.
        bound = TF32_BOUND if n.type == "f32" and n.math != FMA_MATH else BOUNDS[n.type]
        if n.clip and n.type == "f64":
            bound = 1e-7  # NVIDIA's library keeps the bounds of a clip as floats
        for name, mine, wanted in zip(("y", "hy", "cy"), found, expected):
            difference = (mine.double() - wanted.double()).abs().max().item()
            error = difference / max(0.05, wanted.double().abs().max().item())
            key = n.type + (" tf32" if bound == TF32_BOUND and n.type == "f32" else "")
            worst[key] = max(worst[key], error if error == error else float("inf"))
            if not error <= bound:
                failures += 1
                print(f"FAILED   {what}: {name} differs by {error:.1e}")
    errors = ", ".join(f"{key} {value:.1e}" for key, value in sorted(worst.items()))
    print(f"forward: {count - refused} networks, {refused} refused by NVIDIA's library, {failures} failures")
    print(f"greatest errors: {errors}")
    print(f"work space: above NVIDIA's in {len(more)} of {count - refused}", *(f"({m[0]:.2f} times: {m[2]})" for m in
                                                                           sorted(more)[-3:]))
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libgpudnn")
    parser.add_argument("libcudnn")
    parser.add_argument("--networks", type=int, default=1000)
    parser.add_argument("--forwards", type=int, default=300)
    parser.add_argument("--seed", type=int, default=23)
    arguments = parser.parse_args()
    torch.zeros(1, device="cuda")
    ours, theirs = Library(arguments.libgpudnn, "gpudnn"), Library(arguments.libcudnn, "cudnn")
    draw = random.Random(arguments.seed)
    failures = compare_addresses(ours, theirs, arguments.networks, draw)
    failures += compare_forwards(ours, theirs, arguments.forwards, draw)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
