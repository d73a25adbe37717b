#!/usr/bin/env python3
"""Drives libgpudnn's libcudnn.so.9 by NVIDIA's cudnn-frontend for Python, on the host backend, and compares with NumPy.

usage: frontend_check.py LIBCUDNN [--only TEXT]

  LIBCUDNN   libgpudnn's libcudnn.so.9; its libgpudnn.so.1 must be beside it or in the folder above's src
  --only     runs the cases whose names hold TEXT

Needs no GPU: pip install nvidia-cudnn-frontend numpy ml_dtypes, and a C compiler. The frontend itself calls the
CUDA runtime for copies and fills; a library of a few functions on host memory, compiled on the way, stands in for it.
Without the frontend the check is skipped, with status 77. What the frontend itself keeps for a later cuDNN than 9.19 is
counted apart: with 1.32 the slice.

Each case builds a graph by the frontend, which chooses operations, heuristics, plans; it must run, and its outputs must
be NumPy's within the case's bound.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

RUNTIME = """
#include <stddef.h>
#include <string.h>
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) { memcpy(to, from, bytes); return 0; }
int cudaMemsetAsync(void* to, int value, size_t bytes, void* stream) { memset(to, value, bytes); return 0; }
int cudaRuntimeGetVersion(int* version) { *version = 12080; return 0; }
int cudaGetDevice(int* device) { *device = 0; return 0; }
int cudaGetLastError(void) { return 0; }
int cudaDeviceSynchronize(void) { return 0; }
int cudaStreamSynchronize(void* stream) { return 0; }
int cudaStreamIsCapturing(void* stream, int* status) { *status = 0; return 0; }
int cudaStreamGetCaptureInfo_v2(void* stream, int* status) { *status = 0; return 0; }
int cudaStreamGetCaptureInfo_v3(void* stream, int* status) { *status = 0; return 0; }
const char* cudaGetErrorString(int error) { return "an error of the stand-in for the CUDA runtime"; }
"""


def start(library):
    """Runs this script again where the loader finds the library and the stand-in."""
    if importlib.util.find_spec("cudnn") is None or importlib.util.find_spec("ml_dtypes") is None:
        print("skipped: pip install nvidia-cudnn-frontend numpy ml_dtypes")
        return 77
    library = pathlib.Path(library).resolve()
    with tempfile.TemporaryDirectory() as work:
        source = pathlib.Path(work, "runtime.c")
        source.write_text(RUNTIME)
        runtime = pathlib.Path(work, "libcudart.so.12")
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", runtime, source], check=True)
        pathlib.Path(work, "libcudart.so.13").touch()  # an empty file hides an installed one; the frontend wants just one
        pathlib.Path(work, "libcudnn.so.9").symlink_to(library)
        folders = [work, str(library.parent), str(library.parent.parent), str(library.parent.parent / "src")]
        environment = dict(os.environ, GPUDNN_BACKEND="host", LD_LIBRARY_PATH=os.pathsep.join(folders),
                           CUDNN_FRONTEND_CUDART_LIB_NAME=str(runtime), FRONTEND_CHECK="1", LD_PRELOAD=str(library))
        return subprocess.run([sys.executable, *sys.argv], env=environment).returncode


if __name__ == "__main__" and "FRONTEND_CHECK" not in os.environ:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("library")
    parser.add_argument("--only", default="")
    sys.exit(start(parser.parse_args().library))

import cudnn  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

TYPES = {
    np.dtype(np.float32): cudnn.data_type.FLOAT, np.dtype(np.float16): cudnn.data_type.HALF,
    np.dtype(np.float64): cudnn.data_type.DOUBLE, np.dtype(np.int32): cudnn.data_type.INT32,
    np.dtype(np.int64): cudnn.data_type.INT64, np.dtype(np.int8): cudnn.data_type.INT8,
    np.dtype(np.uint8): cudnn.data_type.UINT8, np.dtype(np.bool_): cudnn.data_type.BOOLEAN,
    np.dtype(ml_dtypes.bfloat16): cudnn.data_type.BFLOAT16, np.dtype(ml_dtypes.float8_e4m3fn): cudnn.data_type.FP8_E4M3,
    np.dtype(ml_dtypes.float8_e5m2): cudnn.data_type.FP8_E5M2, np.dtype(ml_dtypes.float8_e8m0fnu): cudnn.data_type.FP8_E8M0,
}
BOUNDS = {np.dtype(np.float32): 2e-5, np.dtype(np.float16): 4e-3, np.dtype(ml_dtypes.bfloat16): 3e-2,
          np.dtype(np.float64): 1e-5, np.dtype(ml_dtypes.float8_e4m3fn): 0.14, np.dtype(ml_dtypes.float8_e5m2): 0.3}
FLOAT = cudnn.data_type.FLOAT
HANDLE = cudnn.create_handle()
ATTENTION = "eng140"  # the index of docs/graph.md, in a plan's name
CASES = []


def case(function):
    CASES.append((function.__name__, function))
    return function


def cases(name, choices):
    """A case for each choice, which is the function's second argument."""
    def add(function):
        for choice in choices:
            CASES.append((f"{name} {choice}", lambda c, choice=choice: function(c, choice)))
        return function
    return add


def placed(array, order=None):
    """The array in memory by an order of its dimensions, slowest first."""
    if order is None:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


class Case:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.arrays, self.expected = {}, []
        self.graph = cudnn.pygraph(handle=HANDLE, io_data_type=FLOAT, intermediate_data_type=FLOAT,
                                   compute_data_type=FLOAT, sm_version=90)

    def draw(self, *dims, dtype=np.float32, scale=1.0):
        return (self.random.standard_normal(dims) * scale).astype(dtype)

    def input(self, array, order=None, **rest):
        array = placed(array, order)
        size = array.itemsize
        tensor = self.graph.tensor(dim=list(array.shape), stride=[s // size for s in array.strides],
                                   data_type=TYPES[array.dtype], **rest)
        self.arrays[tensor] = array
        return tensor

    def number(self, value, dtype=np.float32, rank=4):
        array = np.full([1] * rank, value, dtype)
        tensor = self.graph.tensor(dim=[1] * rank, stride=[1] * rank, data_type=TYPES[array.dtype], is_pass_by_value=True)
        self.arrays[tensor] = array
        return tensor

    def output(self, tensor, expected, dtype=np.float32, order=None, bound=None):
        array = placed(np.zeros(np.shape(expected), dtype), order)
        array.view(np.uint8 if array.flags.c_contiguous else dtype)[...] = 0xFF if array.flags.c_contiguous else np.nan
        tensor.set_output(True).set_data_type(TYPES[array.dtype]).set_dim(list(array.shape))
        tensor.set_stride([s // array.itemsize for s in array.strides])
        self.arrays[tensor] = array
        self.expected.append((array, np.asarray(expected), BOUNDS.get(array.dtype, 0) if bound is None else bound))

    def run(self):
        self.graph.validate()
        self.graph.build_operation_graph()
        self.graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        self.graph.check_support()
        self.graph.build_plans()
        self.plan = self.graph.get_plan_name_at_index(0)
        workspace = np.empty(self.graph.get_workspace_size() + 64, np.uint8)
        at = (workspace.ctypes.data + 63) // 64 * 64
        self.graph.execute({t: a.ctypes.data for t, a in self.arrays.items()}, at, HANDLE)
        for number, (array, expected, bound) in enumerate(self.expected):
            got, want = array.astype(np.float64), expected.astype(np.float64)
            with np.errstate(invalid="ignore"):
                same = (got == want) | np.isnan(want) | (np.abs(got - want) <= bound * (1 + np.abs(want)))
            if not same.all():
                where = np.unravel_index(np.argmin(same), same.shape)
                raise AssertionError(f"output {number}, {int((~same).sum())} of {same.size} elements, first {where}: "
                                     f"{got[where]} instead of {want[where]}")


# --- convolution, matrix products ------------------------------------------------------------------------------------


def convolve(x, w, padding, stride, dilation):
    spatial = x.ndim - 2
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0)] + [(p, p) for p in padding])
    out = [(padded.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in range(spatial)]
    groups = x.shape[1] // w.shape[1]
    y = np.zeros([x.shape[0], w.shape[0]] + out)
    for tap in np.ndindex(*w.shape[2:]):
        window = tuple(slice(tap[i] * dilation[i], tap[i] * dilation[i] + stride[i] * (out[i] - 1) + 1, stride[i])
                       for i in range(spatial))
        part = padded[(slice(None), slice(None)) + window]
        part = part.reshape([x.shape[0], groups, w.shape[1]] + out)
        weights = w[(slice(None), slice(None)) + tap].astype(np.float64).reshape(groups, -1, w.shape[1])
        y += np.einsum("ngc...,gkc->ngk...", part, weights).reshape(y.shape)
    return y


def gradient(function, like, dy):
    """The gradient of a function that is linear in its argument, by unit vectors."""
    result = np.zeros(like.shape)
    for index in np.ndindex(*like.shape):
        unit = np.zeros(like.shape)
        unit[index] = 1
        result[index] = np.sum(function(unit) * dy)
    return result


@cases("conv_fprop", ["f32 nchw", "f16 nhwc", "f32 groups", "f32 3d", "bf16 bias relu", "f16 scale bias relu before"])
def conv_fprop(c, kind):
    dtype = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[kind.split()[0]]
    order = (0, 2, 3, 1) if dtype != np.float32 else None
    x, w = c.draw(2, 8, 7, 6, dtype=dtype), c.draw(4, 4 if "groups" in kind else 8, 3, 3, dtype=dtype, scale=0.2)
    padding, stride, dilation = [1, 1], [2, 1], [1, 2]
    if "3d" in kind:
        x, w = c.draw(2, 3, 5, 4, 6), c.draw(4, 3, 3, 2, 1)
        padding, stride, dilation = [1, 0, 1], [1, 2, 1], [1, 1, 1]
    image, expected = c.input(x, order), x.astype(np.float64)
    if "before" in kind:
        scale, shift = c.draw(1, 8, 1, 1, dtype=dtype), c.draw(1, 8, 1, 1, dtype=dtype)
        image = c.graph.relu(c.graph.add(c.graph.mul(image, c.input(scale, order)), c.input(shift, order)))
        expected = np.maximum(expected * scale.astype(np.float64) + shift.astype(np.float64), 0)
    y = c.graph.conv_fprop(image=image, weight=c.input(w, order), padding=padding, stride=stride, dilation=dilation)
    expected = convolve(expected, w, padding, stride, dilation)
    if "bias" in kind and "before" not in kind:
        bias = c.draw(1, 4, 1, 1, dtype=dtype)
        y = c.graph.relu(c.graph.add(y, c.input(bias, order)))
        expected = np.maximum(expected + bias.astype(np.float64), 0)
    c.output(y, expected, dtype, order)


@cases("conv_dgrad", ["f32", "f16"])
def conv_dgrad(c, kind):
    dtype = np.float32 if kind == "f32" else np.float16
    w, dy = c.draw(3, 2, 3, 3, dtype=dtype), c.draw(2, 3, 3, 5, dtype=dtype)
    dx = c.graph.conv_dgrad(loss=c.input(dy), filter=c.input(w), padding=[1, 1], stride=[2, 1], dilation=[1, 1])
    expected = gradient(lambda x: convolve(x, w, [1, 1], [2, 1], [1, 1]), np.zeros((2, 2, 6, 5)), dy.astype(np.float64))
    c.output(dx, expected, dtype)


@cases("conv_wgrad", ["f32", "f16"])
def conv_wgrad(c, kind):
    dtype = np.float32 if kind == "f32" else np.float16
    x, dy = c.draw(2, 2, 6, 5, dtype=dtype), c.draw(2, 3, 3, 5, dtype=dtype)
    dw = c.graph.conv_wgrad(image=c.input(x), loss=c.input(dy), padding=[1, 1], stride=[2, 1], dilation=[1, 1])
    expected = gradient(lambda w: convolve(x, w, [1, 1], [2, 1], [1, 1]), np.zeros((3, 2, 3, 3)), dy.astype(np.float64))
    c.output(dw, expected, dtype)


@case
def conv_genstats(c):
    x, w = c.draw(2, 8, 5, 5, dtype=np.float16), c.draw(8, 8, 1, 1, dtype=np.float16)
    order = (0, 2, 3, 1)
    y = c.graph.conv_fprop(image=c.input(x, order), weight=c.input(w, order), padding=[0, 0], stride=[1, 1], dilation=[1, 1])
    expected = convolve(x, w, [0, 0], [1, 1], [1, 1])
    total, squares = c.graph.genstats(input=y)
    c.output(y, expected, np.float16, order)
    rounded = expected.astype(np.float16).astype(np.float64)
    c.output(total, rounded.sum((0, 2, 3), keepdims=True), bound=4e-3)
    c.output(squares, (rounded ** 2).sum((0, 2, 3), keepdims=True), bound=4e-3)


@cases("matmul", ["f32", "f16 bias gelu", "int8", "broadcast", "fp8 descale amax"])
def matmul(c, kind):
    if kind == "int8":
        a, b = (c.random.integers(-9, 9, dims).astype(np.int8) for dims in ((2, 5, 16), (2, 16, 7)))
        y = c.graph.matmul(A=c.input(a), B=c.input(b), compute_data_type=cudnn.data_type.INT32)
        return c.output(y, a.astype(np.int64) @ b.astype(np.int64), np.int32)
    dtype = {"f32": np.float32, "f16": np.float16, "broadcast": np.float32}.get(kind.split()[0], ml_dtypes.float8_e4m3fn)
    a, b = c.draw(2, 5, 16, dtype=dtype), c.draw(1 if kind == "broadcast" else 2, 16, 7, dtype=dtype)
    y, expected = c.graph.matmul(A=c.input(a), B=c.input(b)), a.astype(np.float64) @ b.astype(np.float64)
    if "bias" in kind:
        bias = c.draw(1, 1, 7, dtype=dtype)
        y = c.graph.gelu(c.graph.add(y, c.input(bias)))
        x = expected + bias.astype(np.float64)
        expected = x * 0.5 * (1 + np.vectorize(__import__("math").erf)(x / np.sqrt(2)))
    if "fp8" in kind:
        y = c.graph.mul(y, c.input(np.full((1, 1, 1), 0.5, np.float32)))
        c.output(c.graph.reduction(input=y, mode=cudnn.reduction_mode.AMAX), np.abs(expected * 0.5).max(keepdims=True))
        y, expected = c.graph.mul(y, c.input(np.full((1, 1, 1), 0.25, np.float32))), expected * 0.125
    c.output(y, expected, dtype)


# --- pointwise, reduction, movement ----------------------------------------------------------------------------------

ERF = np.vectorize(__import__("math").erf)
PHI = lambda x: 0.5 * (1 + ERF(x / np.sqrt(2)))  # noqa: E731
SIGMOID = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
ONE = {
    "abs": np.abs, "ceil": np.ceil, "cos": np.cos, "exp": np.exp, "floor": np.floor, "neg": np.negative, "sin": np.sin,
    "tan": np.tan, "erf": ERF, "identity": lambda x: x, "relu": lambda x: np.maximum(x, 0), "tanh": np.tanh,
    "sigmoid": SIGMOID, "elu": lambda x: np.where(x > 0, x, np.expm1(x)), "gelu": lambda x: x * PHI(x),
    "softplus": lambda x: np.log1p(np.exp(x)), "swish": lambda x: x * SIGMOID(x),
    "gelu_approx_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))),
    "sqrt": np.sqrt, "log": np.log, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x,
}
TWO = {
    "add": np.add, "mul": np.multiply, "sub": np.subtract, "div": np.divide, "max": np.maximum, "min": np.minimum,
    "mod": np.fmod, "pow": np.power, "add_square": lambda a, b: a + b * b, "scale": np.multiply, "bias": np.add,
    "cmp_eq": np.equal, "cmp_neq": np.not_equal, "cmp_gt": np.greater, "cmp_ge": np.greater_equal, "cmp_lt": np.less,
    "cmp_le": np.less_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
}


@cases("pointwise", list(ONE))
def pointwise_one(c, name):
    x = c.draw(2, 3, 4, 5)
    x = np.abs(x) + 0.5 if name in ("sqrt", "log", "rsqrt", "reciprocal") else x
    c.output(getattr(c.graph, name)(c.input(x)), ONE[name](x.astype(np.float64)))


@cases("pointwise", list(TWO))
def pointwise_two(c, name):
    a, b = c.draw(2, 3, 4, 5), c.draw(1, 3, 1, 1)
    if name == "pow":
        a = np.abs(a) + 0.5
    if name.startswith("logical"):
        a, b = a > 0, b > 0
    boolean = name.startswith(("logical", "cmp"))
    y = getattr(c.graph, name)(c.input(a), c.input(b))
    c.output(y, TWO[name](a, b) if boolean else TWO[name](a.astype(np.float64), b.astype(np.float64)),
             np.bool_ if boolean else np.float32)


@cases("pointwise backward", ["relu", "tanh", "sigmoid", "elu", "gelu", "gelu_approx_tanh", "softplus", "swish"])
def pointwise_backward(c, name):
    x, dy = c.draw(2, 3, 4, 5), c.draw(2, 3, 4, 5)
    f, h, wide = ONE[name], 1e-5, x.astype(np.float64)
    slope = (f(wide + h) - f(wide - h)) / (2 * h)
    c.output(getattr(c.graph, name + "_backward")(c.input(dy), c.input(x)), dy * slope)


@case
def pointwise_chain_select_index(c):
    x = c.draw(2, 3, 4, 5)
    t = c.input(x)
    rows, columns = c.graph.gen_index(t, 2), c.graph.gen_index(t, 3)
    for index in (rows, columns):
        index.set_data_type(cudnn.data_type.INT32)
    mask = c.graph.cmp_ge(rows, columns, compute_data_type=cudnn.data_type.BOOLEAN)
    mask.set_data_type(cudnn.data_type.BOOLEAN)
    y = c.graph.binary_select(t, c.graph.neg(t), mask)
    c.output(y, np.where(np.arange(4)[:, None] >= np.arange(5), x, -x))


@cases("reduction", ["ADD", "MUL", "MIN", "MAX", "AMAX", "AVG", "NORM1", "NORM2", "MUL_NO_ZEROS"])
def reduction(c, name):
    x = c.draw(3, 4, 5)
    wide = np.where(x == 0, 1, x) if name == "MUL_NO_ZEROS" else x
    function = {"ADD": np.sum, "MUL": np.prod, "MIN": np.min, "MAX": np.max, "AVG": np.mean, "MUL_NO_ZEROS": np.prod,
                "AMAX": lambda a, **k: np.abs(a).max(**k), "NORM1": lambda a, **k: np.abs(a).sum(**k),
                "NORM2": lambda a, **k: np.sqrt((a * a).sum(**k))}[name]
    y = c.graph.reduction(input=c.input(x), mode=getattr(cudnn.reduction_mode, name))
    c.output(y, function(wide.astype(np.float64), axis=(0, 2), keepdims=True))


@case
def reshape(c):
    x = c.draw(2, 3, 4, 5, dtype=np.float16)
    c.output(c.graph.reshape(c.input(x)), x.reshape(2, 12, 5), np.float16)


@case
def slice_and_relu(c):
    x = c.draw(4, 6, 8)
    y = c.graph.slice(c.input(x), [slice(1, 3), slice(0, 6), slice(2, 8)])
    c.output(c.graph.relu(y), np.maximum(x[1:3, :, 2:8], 0))


@case
def concatenate(c):
    a, b = c.draw(2, 3, 4, 5, dtype=np.float16), c.draw(2, 6, 4, 5, dtype=np.float16)
    c.output(c.graph.concatenate(inputs=[c.input(a), c.input(b)], axis=1), np.concatenate([a, b], 1), np.float16)


# --- normalization ---------------------------------------------------------------------------------------------------


def normalized(x, axes, eps, with_mean=True):
    x = x.astype(np.float64)
    mean = x.mean(axes, keepdims=True) if with_mean else np.zeros_like(x.mean(axes, keepdims=True))
    inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + eps)
    return mean, inverse, (x - mean) * inverse


def norm_gradient(dy, scale, inverse, xhat, axes, with_mean=True):
    g = dy.astype(np.float64) * scale
    dx = g - xhat * (g * xhat).mean(axes, keepdims=True)
    return inverse * (dx - g.mean(axes, keepdims=True) if with_mean else dx)


NORMS = {"layernorm": ((8, 16, 1, 1), (1,), (1, 16, 1, 1)), "rmsnorm": ((8, 16, 1, 1), (1,), (1, 16, 1, 1)),
         "instancenorm": ((3, 4, 5, 6), (2, 3), (1, 4, 1, 1)), "adalayernorm": ((3, 5, 16), (2,), (3, 1, 16))}


@cases("norm forward", [f"{n} {t} {p}" for n in NORMS for t in ("f32", "bf16") for p in ("TRAINING", "INFERENCE")])
def norm_forward(c, kind):
    name, type_name, phase = kind.split()
    dims, axes, parameters = NORMS[name]
    dtype = np.float32 if type_name == "f32" else ml_dtypes.bfloat16
    x, scale, bias = c.draw(*dims, dtype=dtype), c.draw(*parameters), c.draw(*parameters)
    mean, inverse, xhat = normalized(x, axes, 1e-3, name != "rmsnorm")
    results = getattr(c.graph, name)(norm_forward_phase=getattr(cudnn.norm_forward_phase, phase), input=c.input(x),
                                     scale=c.input(scale), bias=c.input(bias), epsilon=c.number(1e-3, rank=len(dims)))
    c.output(results[0], xhat * scale + bias, dtype)
    if phase == "TRAINING":
        for tensor, expected in zip(results[1:], [inverse] if name == "rmsnorm" else [mean, inverse]):
            c.output(tensor, expected)


@cases("norm backward", [f"{n} {t}" for n in NORMS for t in ("f32", "bf16")])
def norm_backward(c, kind):
    name, type_name = kind.split()
    dims, axes, parameters = NORMS[name]
    dtype = np.float32 if type_name == "f32" else ml_dtypes.bfloat16
    x, dy, scale = c.draw(*dims, dtype=dtype), c.draw(*dims, dtype=dtype), c.draw(*parameters)
    mean, inverse, xhat = normalized(x, axes, 1e-3, name != "rmsnorm")
    rest = {"inv_variance": c.input(inverse.astype(np.float32))}
    if name == "rmsnorm":
        rest["has_dbias"] = True
    else:
        rest["mean"] = c.input(mean.astype(np.float32))
    results = getattr(c.graph, name + "_backward")(grad=c.input(dy), input=c.input(x), scale=c.input(scale), **rest)
    sums = tuple(i for i in range(len(dims)) if parameters[i] == 1)
    wide = dy.astype(np.float64)
    c.output(results[0], norm_gradient(dy, scale, inverse, xhat, axes, name != "rmsnorm"), dtype)
    c.output(results[1], (wide * xhat).sum(sums, keepdims=True))
    c.output(results[2], wide.sum(sums, keepdims=True))


@case
def batchnorm_relu(c):
    x, order = c.draw(4, 8, 5, 6, dtype=np.float16), (0, 2, 3, 1)
    scale, bias, running_mean, running_var = c.draw(1, 8, 1, 1), c.draw(1, 8, 1, 1), c.draw(1, 8, 1, 1), c.draw(1, 8, 1, 1) ** 2
    y, mean, inverse, new_mean, new_var = c.graph.batchnorm(
        input=c.input(x, order), scale=c.input(scale), bias=c.input(bias), in_running_mean=c.input(running_mean),
        in_running_var=c.input(running_var), epsilon=c.number(1e-3), momentum=c.number(0.25))
    m, i, xhat = normalized(x, (0, 2, 3), 1e-3)
    n = x.size // 8
    c.output(c.graph.relu(y), np.maximum(xhat * scale + bias, 0), np.float16, order)
    c.output(mean, m)
    c.output(inverse, i)
    c.output(new_mean, 0.75 * running_mean + 0.25 * m)
    c.output(new_var, 0.75 * running_var + 0.25 * (1 / i ** 2 - 1e-3) * n / (n - 1))


@case
def batchnorm_backward(c):
    x, dy, scale = c.draw(4, 8, 5, 6), c.draw(4, 8, 5, 6), c.draw(1, 8, 1, 1)
    mean, inverse, xhat = normalized(x, (0, 2, 3), 1e-3)
    dx, dscale, dbias = c.graph.batchnorm_backward(grad=c.input(dy), input=c.input(x), scale=c.input(scale),
                                                   mean=c.input(mean.astype(np.float32)),
                                                   inv_variance=c.input(inverse.astype(np.float32)))
    c.output(dx, norm_gradient(dy, scale, inverse, xhat, (0, 2, 3)))
    c.output(dscale, (dy * xhat).sum((0, 2, 3), keepdims=True))
    c.output(dbias, dy.astype(np.float64).sum((0, 2, 3), keepdims=True))


@case
def batchnorm_inference(c):
    x, scale, bias = c.draw(4, 8, 5, 6), c.draw(1, 8, 1, 1), c.draw(1, 8, 1, 1)
    mean, inverse = c.draw(1, 8, 1, 1), np.abs(c.draw(1, 8, 1, 1)) + 0.5
    y = c.graph.batchnorm_inference(input=c.input(x), mean=c.input(mean), inv_variance=c.input(inverse),
                                    scale=c.input(scale), bias=c.input(bias))
    c.output(y, (x - mean) * inverse * scale + bias)


# --- attention -------------------------------------------------------------------------------------------------------


class Attention:
    """softmax(scale q k', masked) v and its gradients in double."""

    def __init__(self, q, k, v, scale, visible, extra, drop=1.0):
        self.q, self.group_k, self.group_v = q.astype(np.float64), q.shape[1] // k.shape[1], q.shape[1] // v.shape[1]
        self.k = np.repeat(k.astype(np.float64), self.group_k, 1)
        self.v = np.repeat(v.astype(np.float64), self.group_v, 1)
        self.scale, self.drop = scale, drop
        s = scale * self.q @ self.k.swapaxes(2, 3) + extra
        s = np.where(visible, s, -np.inf)
        self.max = s.max(3, keepdims=True)
        e = np.where(visible, np.exp(s - np.where(np.isinf(self.max), 0, self.max)), 0)
        self.sum = e.sum(3, keepdims=True)
        self.p = e / np.where(self.sum == 0, 1, self.sum)
        with np.errstate(divide="ignore"):
            self.stats = np.where(self.sum == 0, -np.inf, np.where(np.isinf(self.max), 0, self.max) + np.log(self.sum))
        self.o = (self.p * drop) @ self.v

    def backward(self, d_o):
        d_o = d_o.astype(np.float64)
        delta = (d_o * self.o).sum(3, keepdims=True)
        ds = self.p * (self.drop * (d_o @ self.v.swapaxes(2, 3)) - delta)
        fold = lambda a, g: a.reshape(a.shape[0], a.shape[1] // g, g, *a.shape[2:]).sum(2)  # noqa: E731
        return (self.scale * ds @ self.k, fold(self.scale * ds.swapaxes(2, 3) @ self.q, self.group_k),
                fold((self.p * self.drop).swapaxes(2, 3) @ d_o, self.group_v), ds)


OPTIONS = ["plain", "causal", "bottom_right", "window", "bottom_right window", "bias", "alibi causal", "padding",
           "padding causal", "padding bottom_right", "padding window", "dropout", "dropout causal", "ragged causal", "band"]


class Setting:
    """Inputs of attention, options as the frontend takes them, and what they mean."""

    def __init__(self, c, kind, dtype=np.float16):
        words = kind.split()
        self.b, self.h, self.hk, self.sq, self.sk, self.d, self.dv = 2, 4, 2, 24, 40, 16, 16 if dtype == ml_dtypes.float8_e4m3fn else 8
        order = (0, 2, 1, 3)
        self.q = c.draw(self.b, self.h, self.sq, self.d, dtype=dtype)
        self.k = c.draw(self.b, self.hk, self.sk, self.d, dtype=dtype)
        self.v = c.draw(self.b, self.hk, self.sk, self.dv, dtype=dtype)
        self.order, self.scale, self.options = order, 0.25, {"attn_scale": 0.25}
        row, column = np.arange(self.sq)[:, None], np.arange(self.sk)
        visible = np.ones((self.b, 1, self.sq, self.sk), bool)
        self.extra, self.lengths = 0.0, None
        diagonal = np.broadcast_to(row, visible.shape)
        ragged = {}
        if "padding" in words or "ragged" in words:
            self.lengths = np.array([[17, 24], [40, 29]], np.int32)
            lq, lk = (n.reshape(self.b, 1, 1, 1) for n in self.lengths)
            visible = visible & (row < lq) & (column < lk)
            self.options.update(use_padding_mask=True, seq_len_q=c.input(lq), seq_len_kv=c.input(lk))
            if "bottom_right" in words:
                diagonal = diagonal + lk - lq
        elif "bottom_right" in words:
            diagonal = diagonal + self.sk - self.sq
        if "ragged" in words:
            for name, rows, heads, width in (("q", self.sq, self.h, self.d), ("k", self.sk, self.hk, self.d),
                                             ("v", self.sk, self.hk, self.dv), ("o", self.sq, self.h, self.dv)):
                offsets = (np.arange(self.b + 1) * rows * heads * width).astype(np.int32).reshape(-1, 1, 1, 1)
                ragged[name] = {"ragged_offset": c.input(offsets)}
        self.ragged = ragged
        if "causal" in words or "bottom_right" in words:
            visible = visible & (column <= diagonal)
            self.options["use_causal_mask_bottom_right" if "bottom_right" in words else "use_causal_mask"] = True
        if "window" in words:
            visible = visible & (column > diagonal - 9)
            if "bottom_right" not in words:
                visible = visible & (column <= diagonal)
                self.options["use_causal_mask"] = True
            self.options["sliding_window_length"] = 9
        if "band" in words:
            visible = visible & (column > diagonal - 7) & (column <= diagonal + 3)
            self.options.update(diagonal_band_left_bound=7, diagonal_band_right_bound=3)
        if "bias" in words:
            self.bias = c.draw(1, self.h, self.sq, self.sk, dtype=dtype)
            self.options["bias"] = c.input(self.bias)
            self.extra = self.bias.astype(np.float64)
        if "alibi" in words:
            slopes = 2.0 ** (-8.0 / self.h * np.arange(1, self.h + 1))
            self.extra = slopes[:, None, None] * (column - row)
            self.options["use_alibi_mask"] = True
        self.visible, self.drop = visible, 1.0
        if "dropout" in words:
            self.seed, self.offset = np.full((1, 1, 1, 1), 123, np.int64), np.full((1, 1, 1, 1), 5, np.int64)
            self.options["dropout"] = (0.25, c.input(self.seed), c.input(self.offset))
        self.tensors = [c.input(a, order, **ragged.get(n, {})) for n, a in (("q", self.q), ("k", self.k), ("v", self.v))]

    def reference(self):
        return Attention(self.q, self.k, self.v, self.scale, self.visible, self.extra, self.drop)


def dropout_mask(setting):
    """The mask of a probability, seed and offset, as the library dumps it."""
    c = Case(0)
    s = Setting(c, "dropout")
    dump = c.graph.tensor(dim=[s.b, s.h, s.sq, s.sk], stride=[s.h * s.sq * s.sk, s.sq * s.sk, s.sk, 1], data_type=FLOAT)
    mask = np.full((s.b, s.h, s.sq, s.sk), np.nan, np.float32)
    c.arrays[dump] = mask
    o, _ = c.graph.sdpa(*s.tensors, generate_stats=False, rng_dump=dump, **s.options)
    c.output(o, np.zeros((s.b, s.h, s.sq, s.dv)), np.float16, bound=np.inf)
    c.run()
    if not 0.6 < mask.mean() < 0.9 or not np.isin(mask, (0, 1)).all():
        raise AssertionError(f"the dropout mask has mean {mask.mean()}")
    return mask / 0.75


@cases("sdpa", [f"{o}{s}" for o in OPTIONS for s in ("", " stats")] + ["paged", "paged causal", "sink stats", "max sum"])
def sdpa(c, kind):
    s = Setting(c, kind)
    rest, words = {}, kind.split()
    if "dropout" in words:
        s.drop = dropout_mask(s)
    if "paged" in words:
        return paged(c, "causal" in words)
    if "sink" in words:
        sink = c.draw(1, s.h, 1, 1)
        rest["sink_token"] = c.input(sink)
    if "max" in words:
        rest["score_max"], rest["score_sum_exp"] = (
            c.graph.tensor(dim=[s.b, s.h, s.sq, 1], stride=[s.h * s.sq, s.sq, 1, 1], data_type=FLOAT) for _ in range(2))
    o, stats = c.graph.sdpa(*s.tensors, generate_stats="stats" in words, **s.options, **rest)
    r = s.reference()
    if "sink" in words:
        total = np.exp(r.stats) + np.exp(sink.astype(np.float64))
        r.o, r.stats = r.o * np.exp(r.stats) / total, np.log(total)
    if "ragged" in words:
        o.set_ragged_offset(s.ragged["o"]["ragged_offset"])
        inside = np.arange(s.sq)[:, None] < s.lengths[0].reshape(-1, 1, 1, 1)
        c.output(o, np.where(inside, r.o, np.nan), np.float16, s.order)  # rows beyond a length may hold anything
    else:
        c.output(o, r.o, np.float16, s.order)
    if "stats" in words:
        c.output(stats, r.stats, bound=1e-4)
    if "max" in words:
        c.output(rest["score_max"], r.max, bound=1e-4)
        c.output(rest["score_sum_exp"], r.sum, bound=1e-4)


def paged(c, causal):
    b, h, sq, sk, d, page = 2, 4, 6, 32, 16, 8
    q = c.draw(b, h, sq, d, dtype=np.float16)
    containers = [c.draw(b * sk // page, 2, page, d, dtype=np.float16) for _ in range(2)]
    table = c.random.permutation(b * sk // page).astype(np.int32).reshape(b, 1, sk // page, 1)
    lq, lk = np.array([6, 4], np.int32).reshape(b, 1, 1, 1), np.array([30, 32], np.int32).reshape(b, 1, 1, 1)
    k, v = (np.concatenate([a[table[:, 0, i, 0]] for i in range(sk // page)], 2) for a in containers)
    row, column = np.arange(sq)[:, None], np.arange(sk)
    visible = (row < lq) & (column < lk) & ((column <= row) | (not causal))
    o, _ = c.graph.sdpa(c.input(q), c.input(containers[0]), c.input(containers[1]), generate_stats=False, attn_scale=0.25,
                        use_padding_mask=True, seq_len_q=c.input(lq), seq_len_kv=c.input(lk), use_causal_mask=causal,
                        paged_attention_k_table=c.input(table), paged_attention_v_table=c.input(table),
                        paged_attention_max_seq_len_kv=sk)
    c.output(o, Attention(q, k, v, 0.25, visible, 0.0).o, np.float16)


@cases("sdpa_backward", [o for o in OPTIONS if "ragged" not in o] + ["causal deterministic", "bias dbias"])
def sdpa_backward(c, kind):
    s, words = Setting(c, kind), kind.split()
    if "dropout" in words:
        s.drop = dropout_mask(s)
    r = s.reference()
    d_o = c.draw(*r.o.shape, dtype=np.float16)
    dq, dk, dv, ds = r.backward(d_o)
    rest = {}
    if "dbias" in words:
        rest["dBias"] = c.graph.tensor(dim=[1, s.h, s.sq, s.sk], stride=[s.h * s.sq * s.sk, s.sq * s.sk, s.sk, 1],
                                       data_type=cudnn.data_type.HALF)
    if "deterministic" in words:
        rest["use_deterministic_algorithm"] = True
    results = c.graph.sdpa_backward(*s.tensors, c.input(r.o.astype(np.float16), s.order), c.input(d_o, s.order),
                                    c.input(r.stats.astype(np.float32)), **s.options, **rest)
    for tensor, expected in zip(results, (dq, dk, dv)):
        c.output(tensor, expected, np.float16, s.order, bound=8e-3)
    if "dbias" in words:
        c.output(rest["dBias"], ds.sum(0, keepdims=True), np.float16, bound=8e-3)


# --- 8-bit floats, block scales, experts -----------------------------------------------------------------------------


@case
def block_scale_quantize_dequantize(c):
    x = c.draw(2, 32, 64)
    y, scale = c.graph.block_scale_quantize(c.input(x), block_size=32, axis=2)
    amax = np.abs(x.reshape(2, 32, 2, 32)).max(3)
    power = 2.0 ** np.ceil(np.log2(amax / 448))
    quantized = (x.reshape(2, 32, 2, 32) / power[..., None]).astype(ml_dtypes.float8_e4m3fn)
    c.output(y, quantized.astype(np.float64).reshape(x.shape), ml_dtypes.float8_e4m3fn, bound=0)
    c.output(scale, power, ml_dtypes.float8_e8m0fnu, bound=0)


@case
def block_scaled_matmul(c):
    a, b = c.draw(1, 8, 64, dtype=ml_dtypes.float8_e4m3fn), c.draw(1, 64, 8, dtype=ml_dtypes.float8_e4m3fn)
    sa, sb = (2.0 ** c.random.integers(-3, 3, dims) for dims in ((1, 8, 2), (1, 2, 8)))
    wide_a = c.graph.block_scale_dequantize(c.input(a), c.input(sa.astype(ml_dtypes.float8_e8m0fnu)), block_size=[1, 32])
    wide_b = c.graph.block_scale_dequantize(c.input(b), c.input(sb.astype(ml_dtypes.float8_e8m0fnu)), block_size=[32, 1])
    expected = (a.astype(np.float64) * np.repeat(sa, 32, 2)) @ (b.astype(np.float64) * np.repeat(sb, 32, 1))
    c.output(c.graph.matmul(A=wide_a, B=wide_b), expected)


@case
def moe_grouped_matmul(c):
    token, weight = c.draw(1, 20, 16, dtype=np.float16), c.draw(3, 16, 8, dtype=np.float16)
    offsets = np.array([0, 7, 12], np.int32).reshape(3, 1, 1)
    y = c.graph.moe_grouped_matmul(c.input(token), c.input(weight, (0, 2, 1)), c.input(offsets))
    ends = [7, 12, 20]
    expected = np.concatenate([token[0, offsets[e, 0, 0]:ends[e]].astype(np.float64) @ weight[e].astype(np.float64)
                               for e in range(3)])[None]
    c.output(y, expected, np.float16)


@cases("sdpa_fp8", ["plain", "causal"])
def sdpa_fp8(c, kind):
    s = Setting(c, kind, ml_dtypes.float8_e4m3fn)
    one = [c.input(np.full((1, 1, 1, 1), 1.0, np.float32)) for _ in range(6)]
    results = c.graph.sdpa_fp8(*s.tensors, *one, generate_stats=True, attn_scale=0.25, use_causal_mask=kind == "causal")
    r = s.reference()
    c.output(results[0], r.o, ml_dtypes.float8_e4m3fn, s.order)
    c.output(results[1], r.stats, bound=1e-3)
    c.output(results[2], r.p.max().reshape(1, 1, 1, 1), bound=1e-3)
    c.output(results[3], np.abs(r.o).max().reshape(1, 1, 1, 1), bound=0.08)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    failed = gated = ran = 0
    for number, (name, body) in enumerate(CASES):
        if only not in name:
            continue
        ran += 1
        try:
            c = Case(number)
            body(c)
            c.run()
            if name.startswith(("sdpa ", "sdpa_backward ")) and ATTENTION not in c.plan:
                raise AssertionError(f"the attention engine did not take the graph; the plan is {c.plan}")
        except Exception as error:  # noqa: BLE001: whatever a case raises is its result
            if "requires 9." in str(error) or "requires cuDNN" in str(error):
                gated += 1
                print(f"not for cuDNN 9.19: {name}: {error}")
                continue
            failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"failed: {name}: {' '.join(str(error).split())[:600]} ({where.name}, line {where.lineno})")
    print(f"frontend {cudnn.__version__}, library {cudnn.backend_version()}: {ran - failed - gated} of {ran} cases pass, "
          f"{gated} need a later cuDNN")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
