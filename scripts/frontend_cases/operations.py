"""Convolution, matrix products, pointwise operations, reductions, movement.

SPDX-License-Identifier: Apache-2.0
"""

import cudnn
import ml_dtypes
import numpy as np

from .harness import case, cases


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
