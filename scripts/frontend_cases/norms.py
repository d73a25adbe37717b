"""Layer, RMS, instance and batch normalization.

SPDX-License-Identifier: Apache-2.0
"""

import cudnn
import ml_dtypes
import numpy as np

from .harness import case, cases


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
