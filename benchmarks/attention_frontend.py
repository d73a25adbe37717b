#!/usr/bin/env python3
"""Times the cases of an attention list by one library, through NVIDIA's cudnn-frontend for Python.

usage: attention_frontend.py CASES [--runs N] [--only TEXT] [--errors [--seeds N]]
       attention_frontend.py CASES [--runs N] [--only TEXT] --between ENVIRONMENT ENVIRONMENT
       attention_frontend.py --compare OURS THEIRS

  CASES      a list of benchmarks/cases, or any other with lines `name = attention ...`
  --between  the cases by two libraries or more, a call of each in turn: each has a process of its own, whose environment
             (NAME=VALUE ..., in one argument) names its library. So the GPU's clock, which follows its power, is the same for
             all. A table with the ratio of the first one's time to each of the others'
  --errors   not times: errors of each output against double, of the same data in every run; of cases without options but
             bounds and bias. Of N sets of data (--seeds): the mean of the greatest errors, and the rms of all
  --compare  two outputs: a table with the ratio of each case, and the geometric means of forward and backward

Needs a GPU, PyTorch and the frontend, which loads the library that the environment names. A case's time is the median of
its calls on the GPU, each after the L2 has been overwritten and the host has launched all of it; of backward the library's
default, which of NVIDIA's is not reproducible. What the frontend or the library refuses has its reason in place of a time,
of --between with the number of the library, from 1 on.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import math
import os
import pathlib
import random
import re
import subprocess
import sys

SHAPE = re.compile(r"b(\d+)h(\d+)(?:/(\d+))?(?:/(\d+))?s(\d+)(?:/(\d+))?d(\d+)(?:/(\d+))?$")
ANSWER = "answer: "  # before a line of one process to another, as libraries print too
TYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}


class Problem:
    """An attention line of the problem language."""

    def __init__(self, line):
        words = line.split()
        self.backward, self.type = words[1] == "bwd", words[2]
        b, h, hk, hv, sq, sk, d, dv = SHAPE.match(words[3]).groups()
        self.b, self.h, self.sq, self.d = int(b), int(h), int(sq), int(d)
        self.hk, self.sk, self.dv = int(hk or h), int(sk or sq), int(dv or d)
        self.flags = {w for w in words[4:] if "=" not in w}
        self.values = dict(w.split("=", 1) for w in words[4:] if "=" in w)
        self.ragged = "q:offsets" in self.values

    def bounds(self):
        right = 0 if "causal" in self.flags else self.values.get("right")
        left = self.values.get("left")
        return None if left is None else int(left), None if right is None else int(right)


def reference(p, torch, q, k, v, bias, d_o):
    """What each output is, in double; backward too where d_o is given."""
    q, k, v = (t.double().requires_grad_() for t in (q, k, v))
    keys, values = (t.repeat_interleave(p.h // p.hk, 1) for t in (k, v))
    s = float(p.values.get("scale", 1)) * q @ keys.transpose(2, 3)
    if bias is not None:
        s = s + bias.double()
    left, right = p.bounds()
    distance = torch.arange(p.sk, device="cuda") - torch.arange(p.sq, device="cuda")[:, None]
    if "bottom_right" in p.flags:
        distance -= p.sk - p.sq
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if right is not None:
        hidden |= distance > right
    if left is not None:
        hidden |= distance <= -left
    s = s.masked_fill(hidden, -math.inf)
    stats = s.logsumexp(3, keepdim=True)
    o = torch.exp(s - stats) @ values
    if d_o is None:
        return {"o": o.detach(), "stats": stats.detach()}
    s.retain_grad()
    o.backward(d_o.double())
    return {"o": o.detach(), "stats": stats.detach(), "dQ": q.grad, "dK": k.grad, "dV": v.grad, "dS": s.grad}


def make_plan(cudnn, graph):
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans()


def redraw(torch, tensors):
    for tensor in tensors:
        if tensor is not None:
            tensor.copy_(torch.randn(tensor.shape, device="cuda").to(tensor.dtype))


def build(problem, torch, cudnn, handle, expect=None):
    """The graph and its pack: every tensor with small random values, lengths and offsets as whole as they can be. If `expect` is
    a list, a function is added to it that draws new values and returns, by the name of each output, its memory, what it is
    in double, and the scale of the memory."""
    p = problem
    if p.type == "f8e4m3":
        return build_float8(p, torch, cudnn, handle, expect)
    kind = getattr(torch, TYPES[p.type])
    if p.values.get("softcap"):
        raise NotImplementedError("the frontend's soft cap is a function of the caller's")
    io = {"bf16": cudnn.data_type.BFLOAT16, "f16": cudnn.data_type.HALF}[p.type]
    graph = cudnn.pygraph(handle=handle, io_data_type=io, intermediate_data_type=cudnn.data_type.FLOAT,
                          compute_data_type=cudnn.data_type.FLOAT)
    pack, options, bias = {}, {"attn_scale": float(p.values.get("scale", 1))}, None

    def rows(heads, length, dim):
        if "bshd" in p.flags:
            return torch.randn(p.b, length, heads, dim, device="cuda", dtype=kind).transpose(1, 2)
        return torch.randn(p.b, heads, length, dim, device="cuda", dtype=kind)

    def given(memory):
        tensor = graph.tensor_like(memory)
        pack[tensor] = memory
        return tensor

    def made(tensor, memory):
        tensor.set_output(True).set_dim(list(memory.shape)).set_stride(list(memory.stride()))
        tensor.set_data_type({torch.float32: cudnn.data_type.FLOAT}.get(memory.dtype, io))
        pack[tensor] = memory
        return tensor

    def lengths(value):
        return given(torch.full((p.b, 1, 1, 1), value, device="cuda", dtype=torch.int32))

    q = rows(p.h, p.sq, p.d)
    if "pages" in p.values:
        pages, size = map(int, p.values["pages"].split("/"))
        per_sequence = p.sk // size
        k, v = (torch.randn(pages, p.hk, size, dim, device="cuda", dtype=kind) for dim in (p.d, p.dv))
        table = torch.randperm(pages, device="cuda")[torch.arange(p.b * per_sequence, device="cuda") % pages]
        table = table.to(torch.int32).reshape(p.b, 1, per_sequence, 1)
        options.update(paged_attention_k_table=given(table), paged_attention_v_table=given(table.clone()),
                       paged_attention_max_seq_len_kv=p.sk)
    else:
        k, v = rows(p.hk, p.sk, p.d), rows(p.hk, p.sk, p.dv)
    o = rows(p.h, p.sq, p.dv)
    d_o = rows(p.h, p.sq, p.dv) if p.backward else None
    if p.ragged or "length_kv" in p.flags or "pages" in p.values:
        options.update(use_padding_mask=True, seq_len_q=lengths(p.sq), seq_len_kv=lengths(p.sk))
    left, right = p.bounds()
    if left is not None:
        options["diagonal_band_left_bound"] = left
    if right is not None:
        options["diagonal_band_right_bound"] = right
    if "bottom_right" in p.flags:
        options["diagonal_alignment"] = cudnn.diagonal_alignment.BOTTOM_RIGHT
    if "alibi" in p.flags:
        options["use_alibi_mask"] = True
        options.setdefault("diagonal_band_right_bound", 0)
    if "bias" in p.values:
        dims = [int(x) for x in p.values["bias"].split(":")[1].split("x")]
        bias = torch.randn(*dims, device="cuda", dtype=kind)
        options["bias"] = given(bias)
    if "dropout" in p.values:
        seed, offset = (given(torch.full((1, 1, 1, 1), 7, device="cuda", dtype=torch.int64)) for _ in range(2))
        options["dropout"] = (float(p.values["dropout"]), seed, offset)
    if "sink" in p.flags:
        options["sink_token"] = given(torch.zeros(1, p.h, 1, 1, device="cuda"))
    inputs = [given(t) for t in (q, k, v)]
    def offsets(heads, dim, length):
        return given((torch.arange(p.b + 1, device="cuda") * heads * dim * length).to(torch.int64).reshape(-1, 1, 1, 1))

    ragged = []
    if p.ragged:
        ragged = [offsets(p.h, p.d, p.sq), offsets(p.hk, p.d, p.sk), offsets(p.hk, p.dv, p.sk), offsets(p.h, p.dv, p.sq)]
        for tensor, its in zip(inputs, ragged):
            tensor.set_ragged_offset(its)
    if not p.backward:
        out, stats = graph.sdpa(q=inputs[0], k=inputs[1], v=inputs[2], generate_stats="stats" in p.flags, **options)
        made(out, o)
        results = {"o": o}
        if ragged:
            out.set_ragged_offset(ragged[3])
        if "stats" in p.flags:
            results["stats"] = torch.empty(p.b, p.h, p.sq, 1, device="cuda")
            made(stats, results["stats"])
    else:
        sums = torch.full((p.b, p.h, p.sq, 1), 10.0, device="cuda")
        d_o_in, o_in, stats = given(d_o), given(o), given(sums)
        if ragged:
            d_o_in.set_ragged_offset(ragged[3])
            o_in.set_ragged_offset(ragged[3])
            options.update(max_total_seq_len_q=p.b * p.sq, max_total_seq_len_kv=p.b * p.sk)
        if "dbias" in p.values:
            dims = [int(x) for x in p.values["dbias"].split(":")[1].split("x")]
            memory = torch.empty(*dims, device="cuda", dtype=kind)
            options["dBias"] = given(memory)
        if "dsink" in p.flags:
            options["dSink_token"] = given(torch.empty(1, p.h, 1, 1, device="cuda"))
        gradients = graph.sdpa_backward(q=inputs[0], k=inputs[1], v=inputs[2], o=o_in, dO=d_o_in, stats=stats, **options)
        results = dict(zip(("dQ", "dK", "dV"), (torch.empty_like(t) for t in (q, k, v))))
        for index, (tensor, memory) in enumerate(zip(gradients, results.values())):
            made(tensor, memory)
            if ragged:
                tensor.set_ragged_offset(ragged[index])
    make_plan(cudnn, graph)

    def draw():
        redraw(torch, (q, k, v, bias, d_o))
        true = reference(p, torch, q, k, v, bias, d_o)
        if p.backward:
            o.copy_(true["o"])
            sums.copy_(true["stats"])
        return {name: (memory, true[name], 1) for name, memory in results.items()}

    if expect is not None:
        expect.append(draw)
    return graph, pack


def build_float8(p, torch, cudnn, handle, expect=None):
    """The same in e4m3, without options but bounds. Every scale is 1 where times are wanted; where errors are, the power of two
    that brings the greatest of what is rounded to between 112 and 224."""
    float8, real = cudnn.data_type.FP8_E4M3, cudnn.data_type.FLOAT
    graph = cudnn.pygraph(handle=handle, io_data_type=float8, intermediate_data_type=real, compute_data_type=real)
    pack = {}

    def given(memory, kind):
        tensor = graph.tensor(dim=list(memory.shape), stride=list(memory.stride()), data_type=kind)
        pack[tensor] = memory
        return tensor

    def rows(heads, length, dim):
        return torch.randn(p.b, heads, length, dim, device="cuda").to(torch.float8_e4m3fn)

    def made(tensor, memory, kind):
        tensor.set_output(True).set_dim(list(memory.shape)).set_stride(list(memory.stride())).set_data_type(kind)
        pack[tensor] = memory

    def number(value):
        return given(torch.full((1, 1, 1, 1), value, device="cuda"), real)

    q, k, v = rows(p.h, p.sq, p.d), rows(p.hk, p.sk, p.d), rows(p.hk, p.sk, p.dv)
    o = rows(p.h, p.sq, p.dv)
    d_o = rows(p.h, p.sq, p.dv) if p.backward else None
    scales = dict.fromkeys(("s", "o", "dQ", "dK", "dV", "dP"), 1.0)
    if expect is not None:
        scales["s"] = 128.0
        true = reference(p, torch, q, k, v, None, d_o)
        for name, of in {"o": "o", "dQ": "dQ", "dK": "dK", "dV": "dV", "dP": "dS"}.items():
            if of in true:
                scales[name] = 2.0 ** math.floor(math.log2(224 / true[of].abs().max().item()))
    options = {"attn_scale": float(p.values.get("scale", 1))}
    if "causal" in p.flags:
        options["right_bound"] = 0
        options["diagonal_alignment"] = cudnn.diagonal_alignment.TOP_LEFT
    options.update({name: given(memory, float8) for name, memory in {"q": q, "k": k, "v": v}.items()})
    options.update({f"descale_{name}": number(1.0) for name in "qkv"})
    options.update(scale_s=number(scales["s"]), descale_s=number(1 / scales["s"]))
    if not p.backward:
        out, stats, *amax = graph.sdpa_fp8(generate_stats="stats" in p.flags, scale_o=number(scales["o"]), **options)
        made(out, o, float8)
        results = {"o": o}
        if "stats" in p.flags:
            results["stats"] = torch.empty(p.b, p.h, p.sq, 1, device="cuda")
            made(stats, results["stats"], real)
    else:
        sums = torch.full((p.b, p.h, p.sq, 1), 10.0, device="cuda")
        options.update({f"scale_{name}": number(scales[name]) for name in ("dQ", "dK", "dV", "dP")})
        options.update(descale_o=number(1 / scales["o"]), descale_dO=number(1.0), descale_dP=number(1 / scales["dP"]))
        *gradients, amax_q, amax_k, amax_v, amax_p = graph.sdpa_fp8_backward(
            o=given(o, float8), dO=given(d_o, float8), stats=given(sums, real), **options
        )
        amax = amax_q, amax_k, amax_v, amax_p
        results = dict(zip(("dQ", "dK", "dV"), (torch.empty_like(t) for t in (q, k, v))))
        for tensor, memory in zip(gradients, results.values()):
            made(tensor, memory, float8)
    for tensor in amax:
        made(tensor, torch.ones(1, 1, 1, 1, device="cuda"), real)
    make_plan(cudnn, graph)

    def draw():
        redraw(torch, (q, k, v, d_o))
        true = reference(p, torch, q, k, v, None, d_o)
        if p.backward:
            o.copy_((true["o"] * scales["o"]).to(torch.float8_e4m3fn))
            sums.copy_(true["stats"])
        return {name: (memory, true[name], scales.get(name, 1)) for name, memory in results.items()}

    if expect is not None:
        expect.append(draw)
    return graph, pack


class Timed:
    """A case's graph and memory."""

    def __init__(self, text, torch, cudnn, handle):
        torch.manual_seed(sum(text.encode()))
        self.torch, self.handle = torch, handle
        self.graph, self.pack = build(Problem(text), torch, cudnn, handle)
        self.workspace = torch.empty(self.graph.get_workspace_size() + 256, dtype=torch.uint8, device="cuda")
        self.swept = torch.empty(1 << 27, dtype=torch.uint8, device="cuda")
        self.call()

    def call(self):
        """Milliseconds. The GPU waits before the first event, so that none of the host's time is between the two."""
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.swept.zero_()
        self.torch.cuda._sleep(1_000_000)
        begin.record()
        self.graph.execute(self.pack, self.workspace, handle=self.handle)
        end.record()
        self.torch.cuda.synchronize()
        return begin.elapsed_time(end)


def cases(arguments):
    for line in pathlib.Path(arguments.cases).read_text(encoding="utf-8").splitlines():
        if "= attention" in line and not line.startswith("#") and arguments.only in line:
            yield tuple(part.strip() for part in line.split("=", 1))


def median(times):
    return sorted(times)[len(times) // 2]


def reason_of(error):
    return " ".join(str(error).split())[:160]


def serve(torch, cudnn, handle):
    """Lines of input are cases to make, or none: another call of the last one."""
    timed = None
    for line in sys.stdin:
        try:
            if line.strip():
                timed = None
                torch.cuda.empty_cache()
                timed = Timed(line.strip(), torch, cudnn, handle)
            print(f"{ANSWER}{timed.call()}", flush=True)
        except Exception as error:  # noqa: BLE001
            print(f"{ANSWER}nan {reason_of(error)}", flush=True)


def compare_between(arguments):
    served = []
    for environment in arguments.between:
        variables = dict(word.split("=", 1) for word in environment.split())
        served.append(subprocess.Popen([sys.executable, __file__, "--served"], env={**os.environ, **variables}, text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE))

    def ask(process, text):
        process.stdin.write(text + "\n")
        process.stdin.flush()
        return process

    def answer(process):
        for line in process.stdout:
            if line.startswith(ANSWER):
                return line[len(ANSWER):].split(" ", 1)
        raise EOFError("a process has ended; its standard error says why")

    results = {}
    for name, text in cases(arguments):
        # Plans are made side by side, whatever that does to the first call.
        first = [answer(process) for process in [ask(process, text) for process in served]]
        reasons = [f"{i}: {its[1].strip()}" for i, its in enumerate(first, 1) if len(its) > 1]
        if reasons:
            print(f"{name:24} {'; '.join(reasons)}", flush=True)
            continue
        times = [[] for _ in served]
        for _ in range(arguments.runs):
            # In any order, as the call before decides the clock.
            for i in random.sample(range(len(served)), len(served)):
                times[i].append(float(answer(ask(served[i], ""))[0]))
        medians = [median(its) for its in times]
        results[name] = [medians[0] / other for other in medians[1:]]
        print(f"{name:24}" + "".join(f"{time:10.4g}" for time in medians)
              + "".join(f"{ratio:7.3f}" for ratio in results[name])
              + ("  above 1.05" if results[name] and max(results[name]) > 1.05 else ""), flush=True)
    for column in zip(*results.values()):
        print(f"geometric mean {math.exp(sum(map(math.log, column)) / len(column)):.3f} of {len(column)}, "
              f"greatest {max(column):.3f}, {sum(ratio > 1.05 for ratio in column)} above 1.05")


def print_errors(name, text, seeds, torch, cudnn, handle):
    """Of each output, over `seeds` sets of data: the mean of the greatest errors, the rms of all, and their mean's magnitude."""
    sums, expect = {}, []
    graph, pack = build(Problem(text), torch, cudnn, handle, expect)
    workspace = torch.empty(graph.get_workspace_size() + 256, dtype=torch.uint8, device="cuda")
    for seed in range(seeds):
        torch.manual_seed(sum(text.encode()) + 1000 * seed)
        expected = expect[0]()
        graph.execute(pack, workspace, handle=handle)
        for output, (memory, true, scale) in expected.items():
            error = memory.double() / scale - true
            of = [error.abs().max().item(), error.square().mean().item(), error.mean().item()]
            sums[output] = [a + b / seeds for a, b in zip(sums.get(output, (0, 0, 0)), of)]
    for output, (greatest, square, mean) in sums.items():
        print(f"{name} {output} greatest\t{greatest:.6e}\t{text}")
        print(f"{name} {output} rms\t{math.sqrt(square):.6e}\t{text}")
        print(f"# {name} {output} mean {mean:.3e}", flush=True)


def run(arguments):
    import cudnn
    import torch

    handle = cudnn.create_handle()
    cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
    if arguments.served:
        return serve(torch, cudnn, handle)
    print(f"# library {cudnn.backend_version()}, {torch.cuda.get_device_name()}", flush=True)
    for name, text in cases(arguments):
        try:
            if arguments.errors:
                print_errors(name, text, arguments.seeds, torch, cudnn, handle)
                continue
            timed = Timed(text, torch, cudnn, handle)
            print(f"{name}\t{median([timed.call() for _ in range(arguments.runs)]):.5f}\t{text}", flush=True)
        except Exception as error:  # noqa: BLE001: a refusal is the case's result
            print(f"{name}\tnan\t{reason_of(error)}", flush=True)
        timed = None
        torch.cuda.empty_cache()


def compare(ours, theirs):
    def table(path):
        lines = [l.split("\t") for l in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if "\t" in l]
        return {fields[0]: (float(fields[1]), fields[2]) for fields in lines}

    a, b = table(ours), table(theirs)
    ratios = {"fwd": [], "bwd": []}
    for name, (mine, text) in a.items():
        other, reason = b.get(name, (math.nan, "not reached"))
        ratio = mine / other
        if ratio == ratio:
            ratios["bwd" if " bwd " in text else "fwd"].append(ratio)
            print(f"{name:32} {mine:10.4g} {other:10.4g} {ratio:6.3f}{'  above 1.05' if ratio > 1.05 else ''}")
        else:
            print(f"{name:32} {mine:10.4g} {other:10.4g}    nan  {text if mine != mine else 'theirs: ' + reason}")
    for kind, all_of in ratios.items():
        if all_of:
            mean = math.exp(sum(map(math.log, all_of)) / len(all_of))
            print(f"{kind}: geometric mean {mean:.3f} of {len(all_of)}, greatest {max(all_of):.3f}, "
                  f"{sum(r > 1.05 for r in all_of)} above 1.05")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("cases", nargs="?")
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--only", default="")
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--compare", nargs=2)
    parser.add_argument("--between", nargs="+")
    parser.add_argument("--served", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compare:
        return compare(*arguments.compare)
    if arguments.cases is None and not arguments.served:
        parser.error("no list of cases")
    if arguments.between:
        return compare_between(arguments)
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
