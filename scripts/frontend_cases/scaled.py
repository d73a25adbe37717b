"""8-bit floats, block scales, products of experts.

SPDX-License-Identifier: Apache-2.0
"""

import ml_dtypes
import numpy as np

from .attention import Setting
from .harness import case, cases


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
