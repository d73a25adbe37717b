#!/usr/bin/env python3
"""Runs PyTorch's cuDNN calls twice, with NVIDIA's library and with libgpudnn preloaded in its place, and compares.

usage: pytorch_check.py LIBCUDNN [--work DIRECTORY]

  LIBCUDNN   libgpudnn's libcudnn.so.9; its libgpudnn.so.1 must be beside it or in the folder above
  --work     where results and logs go; a fresh temporary directory otherwise

Needs a GPU and PyTorch 2.11 built for cuDNN 9.19. Each run is a process of its own; the second one has

  LD_PRELOAD=LIBCUDNN LD_BIND_NOW=1 GPUDNN_BACKEND=cuda GPUDNN_LOGLEVEL=3 GPUDNN_LOGDEST=<work>/gpudnn.log

Each case must give the same numbers within its bound, and the log must show that libgpudnn did the work where PyTorch
calls cuDNN for it. What libgpudnn does not have yet must come back as a Python exception, with its refusal in the log.
A process that ends by a signal fails the check, with the case that it was in.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

VERSION = 91900

# What the second run's log must show for a case: a text, or None where PyTorch need not call cuDNN.
BATCH_NORM_TRAINING = "BatchNormalizationForwardTraining"
BATCH_NORM_INFERENCE = "BatchNormalizationForwardInference"
BATCH_NORM_BACKWARD = "BatchNormalizationBackward"


def batch_norm_cases(torch):
    shapes = [(8, 16, 14, 14), (2, 3, 5, 7), (64, 256, 7, 7), (1, 1, 1, 9), (4, 32, 6, 5, 4)]
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for shape in shapes:
            for layout in ("contiguous", "channels_last"):
                for training in (True, False):
                    mode, size = "train" if training else "eval", "x".join(map(str, shape))
                    name = f"batch_norm {mode} {str(dtype)[6:]} {layout} {size}"
                    wanted = [BATCH_NORM_TRAINING if training else BATCH_NORM_INFERENCE]
                    if training:
                        wanted.append(BATCH_NORM_BACKWARD)
                    # PyTorch takes its own kernels for bfloat16.
                    wanted = wanted if dtype != torch.bfloat16 else []
                    yield name, batch_norm(torch, dtype, shape, layout, training), wanted


def batch_norm(torch, dtype, shape, layout, training):
    def body():
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        x = torch.randn(shape, device="cuda").to(dtype)
        if layout == "channels_last":
            x = x.contiguous(memory_format=formats[len(shape)])
        x.requires_grad_(training)
        channels = shape[1]
        weight = (torch.rand(channels, device="cuda") + 0.5).requires_grad_(training)
        bias = torch.randn(channels, device="cuda").requires_grad_(training)
        mean, variance = torch.randn(channels, device="cuda"), torch.rand(channels, device="cuda") + 0.5
        y = torch.nn.functional.batch_norm(x, mean, variance, weight, bias, training, 0.1, 1e-5)
        results = [y, mean, variance]
        if training:
            gradient = torch.randn(shape, device="cuda").to(dtype)
            if layout == "channels_last":
                gradient = gradient.contiguous(memory_format=formats[len(shape)])
            y.backward(gradient)
            results += [x.grad, weight.grad, bias.grad]
        return results

    return body


def sampler_cases(torch):
    for dtype in (torch.float32, torch.float64, torch.float16):
        for n, c, height, width, out in ((2, 3, 8, 9, 6), (1, 16, 32, 32, 32)):
            name = f"affine_grid, grid_sample {str(dtype)[6:]} {n}x{c}x{height}x{width}"
            yield name, sampler(torch, dtype, n, c, height, width, out), ["SpatialTfGridGenerator", "SpatialTfSampler"]


def sampler(torch, dtype, n, c, height, width, out):
    def body():
        x = torch.randn(n, c, height, width, device="cuda").to(dtype).requires_grad_()
        theta = torch.eye(2, 3, device="cuda").expand(n, 2, 3) + 0.2 * torch.randn(n, 2, 3, device="cuda")
        theta = theta.to(dtype).requires_grad_()
        grid = torch.cudnn_affine_grid_generator(theta, n, c, out, out)
        y = torch.cudnn_grid_sampler(x, grid)
        y.backward(torch.randn(y.shape, device="cuda").to(dtype))
        public = torch.nn.functional.grid_sample(x.detach(), grid.detach(), align_corners=True)
        return [grid, y, x.grad, theta.grad, public]

    return body


def ctc_cases(torch):
    for steps, batch, classes, length in ((20, 4, 10, 6), (50, 16, 28, 12), (5, 1, 3, 2)):
        yield f"ctc_loss {steps}x{batch}x{classes}", ctc(torch, steps, batch, classes, length), ["CTCLoss"]


def ctc(torch, steps, batch, classes, length):
    def body():
        logits = torch.randn(steps, batch, classes, device="cuda", requires_grad=True)
        targets = torch.randint(1, classes, (batch * length,), dtype=torch.int32)
        log_probs = logits.log_softmax(2)
        # cuDNN serves targets and lengths on the CPU, 32-bit, one after another, and full input lengths.
        loss = torch.nn.functional.ctc_loss(
            log_probs, targets, torch.full((batch,), steps, dtype=torch.int32),
            torch.full((batch,), length, dtype=torch.int32), blank=0, reduction="sum", zero_infinity=False,
        )  # fmt: skip
        loss.backward()
        return [loss.detach(), logits.grad]

    return body


def later_cases(torch):
    """Operations that may refuse: a Python exception then, and the refusal in the log."""

    def convolution():
        x = torch.randn(2, 8, 12, 12, device="cuda").half()
        w = torch.randn(16, 8, 3, 3, device="cuda").half()
        return [torch.nn.functional.conv2d(x, w, padding=1)]

    def lstm():
        network = torch.nn.LSTM(8, 16).cuda()
        return [network(torch.randn(5, 2, 8, device="cuda"))[0]]

    yield "conv2d float16", convolution, None
    yield "LSTM", lstm, None


def cases(torch):
    for part in (batch_norm_cases, sampler_cases, ctc_cases, later_cases):
        yield from part(torch)


def worker(path, log):
    """Runs every case and saves name -> tensors, or the exception's text. Notes before each case where it is."""
    import torch  # here: the parent process has no need of it

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    version = torch.backends.cudnn.version()
    results = {"version": version}
    with open(path + ".progress", "w", encoding="utf-8") as progress:
        for name, body, _ in cases(torch):
            print(name, file=progress, flush=True)
            torch.manual_seed(sum(name.encode()))
            begin = os.path.getsize(log) if log and os.path.exists(log) else 0
            try:
                tensors = [t.detach().cpu() for t in body()]
                torch.cuda.synchronize()
                results[name] = {"values": tensors}
            except RuntimeError as error:
                results[name] = {"error": str(error).splitlines()[0][:300]}
            if log and os.path.exists(log):
                with open(log, encoding="utf-8", errors="replace") as file:
                    file.seek(begin)
                    results[name]["log"] = file.read()
        # A side stream, and a graph that is replayed: both must see our kernels in order.
        print("stream and graph", file=progress, flush=True)
        results["stream and graph"] = stream_and_graph(torch)
        if torch.cuda.device_count() > 1:
            # The handle must be of the device that PyTorch's own runtime has made current.
            print("second device", file=progress, flush=True)
            with torch.cuda.device(1):
                results["second device"] = stream_and_graph(torch)
        torch.save(results, path)
    return 0


def stream_and_graph(torch):
    try:
        torch.manual_seed(11)  # what ran before drew more numbers in one run than in the other
        side = torch.cuda.Stream()
        x = torch.randn(4, 8, 6, 6, device="cuda")
        mean, variance = torch.zeros(8, device="cuda"), torch.ones(8, device="cuda")
        weight, bias = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")

        def normalize():
            return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, False, 0.1, 1e-5)

        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                first = normalize()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = normalize()
        x.mul_(2)
        graph.replay()
        torch.cuda.synchronize()
        return {"values": [first.cpu(), y.cpu()], "log": ""}
    except RuntimeError as error:
        return {"error": str(error).splitlines()[0][:200], "log": ""}


def bound(tensor, torch):
    """Relative to the greatest value: rounding of the result's type, and float sums of a few thousand terms."""
    return {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-5}.get(tensor.dtype, 2e-4)


def compare(theirs, ours, wanted, torch):
    """(verdict, what), for one case."""
    log = ours.get("log", "")
    if "error" in ours:
        if "error" in theirs:
            return "same error", theirs["error"]
        if "not built in this version" not in log and "NOT_SUPPORTED" not in log:
            return "FAILED", f"an error without libgpudnn's refusal in the log: {ours['error']}"
        if "gpudnn" not in ours["error"]:
            return "FAILED", f"an exception without libgpudnn's text: {ours['error']}"
        return "refused", ours["error"]
    if "error" in theirs:
        return "more", f"NVIDIA's: {theirs['error']}"
    worst = 0.0
    for mine, other in zip(ours["values"], theirs["values"]):
        if mine.shape != other.shape or mine.dtype != other.dtype:
            return "FAILED", f"shape or type {tuple(mine.shape)} {mine.dtype}, NVIDIA's {tuple(other.shape)} {other.dtype}"
        a, b = mine.double(), other.double()
        if not torch.equal(a.isfinite(), b.isfinite()):
            return "FAILED", "NaN or infinity in one of the two alone"
        if b.numel() == 0:
            continue
        error = ((a - b).nan_to_num().abs().max() / b.nan_to_num().abs().max().clamp_min(1.0)).item() / bound(mine, torch)
        worst = max(worst, error)
    if worst > 1:
        return "FAILED", f"{worst:.1f} times the bound"
    # NVIDIA's log of the first run tells whether PyTorch asked cuDNN at all.
    missing = [text for text in wanted or [] if text not in log and text in theirs.get("log", "")]
    if missing:
        return "FAILED", f"right, but the log has no {', '.join(missing)}: another library or kernel did it"
    served = [text for text in wanted or [] if text in log]
    who = f"libgpudnn served {', '.join(served)}" if served else "neither log has a call of cuDNN"
    return "ok", f"{worst:.3f} of the bound; {who}"


def run_worker(path, log, environment):
    command = [sys.executable, __file__, "--worker", str(path)] + (["--log", str(log)] if log else [])
    result = subprocess.run(command, env={**os.environ, **environment}, check=False)
    if result.returncode != 0:
        progress = pathlib.Path(f"{path}.progress")
        last = progress.read_text(encoding="utf-8").splitlines()[-1:] if progress.exists() else ["the start"]
        print(f"FAILED: the process ended with {result.returncode} in: {last[0] if last else 'the start'}")
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", nargs="?")
    parser.add_argument("--work")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return worker(arguments.worker, arguments.log)
    if not arguments.library or not os.path.exists(arguments.library):
        parser.error("name libgpudnn's libcudnn.so.9")
    work = pathlib.Path(arguments.work or tempfile.mkdtemp(prefix="pytorch_check."))
    work.mkdir(parents=True, exist_ok=True)
    log = work / "gpudnn.log"
    log.unlink(missing_ok=True)
    preload = {
        "LD_PRELOAD": os.path.abspath(arguments.library), "LD_BIND_NOW": "1", "GPUDNN_BACKEND": "cuda",
        "GPUDNN_LOGLEVEL": "3", "GPUDNN_LOGDEST": str(log),
    }  # fmt: skip
    nvidia_log = work / "nvidia.log"
    nvidia_log.unlink(missing_ok=True)
    plain = {"CUDNN_LOGLEVEL_DBG": "3", "CUDNN_LOGDEST_DBG": str(nvidia_log)}
    if not run_worker(work / "nvidia.pt", nvidia_log, plain) or not run_worker(work / "gpudnn.pt", log, preload):
        return 1

    import torch

    theirs, ours = (torch.load(work / name, weights_only=False) for name in ("nvidia.pt", "gpudnn.pt"))
    failures = 0
    for who, results in (("NVIDIA", theirs), ("libgpudnn", ours)):
        wrong = results["version"] != VERSION
        failures += wrong
        print(f"{'FAILED' if wrong else 'ok':10} torch.backends.cudnn.version() is {results['version']} with {who}")
    wanted = {name: texts for name, _, texts in cases(torch)}
    for name in [n for n in ours if n != "version"]:
        verdict, what = compare(theirs[name], ours[name], wanted.get(name), torch)
        failures += verdict == "FAILED"
        print(f"{verdict:10} {name}: {what}")
    whole = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if "gpudnnCreate" not in whole:  # else the numbers would be NVIDIA's own
        failures += 1
        print("FAILED     the log of the second run has no handle: libgpudnn was not in the process")
    print(f"{len(ours) - 1} cases, {failures} failures; results and logs in {work}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
