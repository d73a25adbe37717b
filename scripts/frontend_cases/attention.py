"""Scaled dot-product attention and its gradients.

SPDX-License-Identifier: Apache-2.0
"""

import cudnn
import ml_dtypes
import numpy as np

from .harness import Case, FLOAT, cases


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


def expanded(c, bias, batch):
    """One bias for all batches as PyTorch hands it on: with a batch dimension of stride 0, which P inherits."""
    one, heads, rows, columns = bias.shape
    tensor = c.graph.tensor(dim=[batch, heads, rows, columns], stride=[0, rows * columns, columns, 1],
                            data_type=cudnn.data_type.HALF)
    c.arrays[tensor] = np.ascontiguousarray(bias)
    return tensor


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
            self.options["bias"] = expanded(c, self.bias, self.b) if "expanded" in words else c.input(self.bias)
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


@cases("sdpa_backward", [o for o in OPTIONS if "ragged" not in o] + ["causal deterministic", "bias dbias", "bias expanded", "causal sink"])
def sdpa_backward(c, kind):
    s, words = Setting(c, kind), kind.split()
    if "dropout" in words:
        s.drop = dropout_mask(s)
    r = s.reference()
    rest = {}
    if "sink" in words:
        sink = c.draw(1, s.h, 1, 1).astype(np.float64)
        total = np.exp(r.stats) + np.exp(sink)
        share = np.exp(r.stats) / total
        r.o, r.p, r.stats = r.o * share, r.p * share, np.log(total)
        rest.update(sink_token=c.input(sink.astype(np.float32)), dSink_token=c.graph.tensor(
            dim=[1, s.h, 1, 1], stride=[s.h, 1, 1, 1], data_type=FLOAT))
    d_o = c.draw(*r.o.shape, dtype=np.float16)
    dq, dk, dv, ds = r.backward(d_o)
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
    if "sink" in words:
        delta = (d_o.astype(np.float64) * r.o).sum(3, keepdims=True)
        c.output(rest["dSink_token"], -(np.exp(sink - r.stats) * delta).sum((0, 2), keepdims=True), bound=8e-3)
