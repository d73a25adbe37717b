#!/usr/bin/env python3
"""Runs PyTorch's cuDNN calls twice, with NVIDIA's library and with libgpudnn preloaded in its place, and compares.

usage: pytorch_check.py LIBCUDNN [--work DIRECTORY] [--parts NAME,...] [--share X] [--seed N] [--slice I/N]
                        [--limit SECONDS] [--alone] [--trainings]

  LIBCUDNN   libgpudnn's libcudnn.so.9; its libgpudnn.so.1 must be beside it or in the folder above
  --work     where results and logs go; a fresh temporary directory otherwise
  --parts    of pytorch_cases.py; all by default
  --share    of the random cases of each part (default 1)
  --seed     of the random cases (default 0)
  --slice    every N-th case from the I-th on alone, so that several processes share them
  --limit    of each process's cases; those that either one does not reach are left out
  --alone    without NVIDIA's run: cases that bring what they expect in double, as attention's do, are compared with that
  --trainings  trains networks afterwards, too, as pytorch_train.py does by default

Needs a GPU and PyTorch 2.11 built for cuDNN 9.19. Each run is a process of its own; the second one has

  LD_PRELOAD=LIBCUDNN LD_BIND_NOW=1 GPUDNN_BACKEND=cuda GPUDNN_LOGLEVEL=3 GPUDNN_LOGDEST=<work>/gpudnn.log

Each case must give the same numbers within its bound, and the log must show that libgpudnn did the work where PyTorch
calls cuDNN for it. What NVIDIA's library runs, libgpudnn must run; what it refuses may be refused.
A process that ends by a signal fails the check, with the case that it was in.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from pytorch_cases import PARTS, cases

VERSION = 91900


def chosen(torch, arguments):
    """The cases of this process."""
    first, step = map(int, arguments.slice.split("/"))
    return list(cases(torch, arguments.parts.split(","), arguments.share, arguments.seed))[first::step]


def worker(arguments):
    """Runs every case and saves name -> tensors, or the exception's text. Notes before each case where it is."""
    import torch  # here: the parent process has no need of it

    path, log = arguments.worker, arguments.log

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    version = torch.backends.cudnn.version()
    results = {"version": version}
    end = time.monotonic() + arguments.limit
    with open(path + ".progress", "w", encoding="utf-8") as progress:
        for case in chosen(torch, arguments):
            name = case.name
            if time.monotonic() > end:
                break
            print(name, file=progress, flush=True)
            torch.manual_seed(sum(name.encode()))
            begin = os.path.getsize(log) if log and os.path.exists(log) else 0
            try:
                tensors = case.body()
                expected = None
                if isinstance(tensors, tuple):
                    tensors, expected = tensors
                results[name] = {"values": [t.detach().cpu() for t in tensors]}
                if expected is not None:
                    results[name]["expected"] = [t.detach().cpu() for t in expected]
                torch.cuda.synchronize()
            except (RuntimeError, AssertionError) as error:  # the latter by what torch.compile makes
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


def compare(theirs, ours, case, torch):
    """(verdict, what), for one case."""
    log = ours.get("log", "")
    if theirs is None:
        if "expected" not in ours:
            return "left out", ours.get("error", "it is compared with NVIDIA's numbers")
        theirs = {"values": ours["expected"], "expected": ours["expected"], "log": " ".join(case.wanted)}
    if "error" in ours:
        if "error" in theirs:
            return "same error", theirs["error"]
        return "FAILED", f"NVIDIA's library runs it; libgpudnn: {ours['error']}"
    if "error" in theirs:
        return "more", f"NVIDIA's: {theirs['error']}"
    wanted = case.wanted if case else []

    def limit(tensor):
        return case.bound if case and case.bound else bound(tensor, torch)

    def worst_of(values, expected):
        """The greatest error over the bound, or what is wrong beside numbers."""
        worst = 0.0
        for mine, other in zip(values, expected):
            if mine.shape != other.shape or (mine.dtype != other.dtype and "expected" not in ours):
                return f"shape or type {tuple(mine.shape)} {mine.dtype}, not {tuple(other.shape)} {other.dtype}"
            a, b = mine.double(), other.double()
            if not torch.equal(a.isfinite(), b.isfinite()):
                return "NaN or infinity in one of the two alone"
            if b.numel() == 0:
                continue
            difference = (a - b).nan_to_num().abs().max()
            error = (difference / b.nan_to_num().abs().max().clamp_min(1.0)).item() / limit(mine)
            worst = max(worst, error)
        return worst

    worst = worst_of(ours["values"], ours.get("expected", theirs["values"]))
    if isinstance(worst, str):
        return "FAILED", worst
    if worst > 1:
        return "FAILED", f"{worst:.1f} times the bound"
    # NVIDIA's log of the first run tells whether PyTorch asked cuDNN at all.
    missing = [text for text in wanted if text not in log and text in theirs.get("log", "")]
    if missing:
        return "FAILED", f"right, but the log has no {', '.join(missing)}: another library or kernel did it"
    served = [text for text in wanted if text in log]
    who = f"libgpudnn served {', '.join(served)}" if served else "neither log has a call of cuDNN"
    if "expected" in ours:
        other = worst_of(theirs["values"], theirs["expected"])
        if theirs["values"] is theirs["expected"]:
            return "ok", f"{worst:.3f} of the bound from float64; {who}"
        who += f"; by float64, from which NVIDIA's is {other if isinstance(other, str) else f'{other:.1f} of the bound'}"
    return "ok", f"{worst:.3f} of the bound; {who}"


def run_worker(path, log, arguments, environment):
    command = [sys.executable, __file__, "--worker", str(path), "--log", str(log)]
    command += ["--parts", arguments.parts, "--share", str(arguments.share), "--seed", str(arguments.seed)]
    command += ["--slice", arguments.slice, "--limit", str(arguments.limit)]
    result = subprocess.run(command, env={**os.environ, **environment}, check=False)
    if result.returncode != 0:
        progress = pathlib.Path(f"{path}.progress")
        last = progress.read_text(encoding="utf-8").splitlines()[-1:] if progress.exists() else ["the start"]
        print(f"FAILED: {path.name}: the process ended with {result.returncode} in: {last[0] if last else 'the start'}")
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", nargs="?")
    parser.add_argument("--work")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slice", default="0/1")
    parser.add_argument("--limit", type=float, default=1e9)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--trainings", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return worker(arguments)
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
    runs = (("nvidia.pt", nvidia_log, plain), ("gpudnn.pt", log, preload))
    for name, file, environment in runs[1:] if arguments.alone else runs:
        if not run_worker(work / name, file, arguments, environment):
            return 1

    import torch

    theirs, ours = (
        None if arguments.alone and name == "nvidia.pt" else torch.load(work / name, weights_only=False)
        for name, _, _ in runs
    )
    failures = 0
    for who, results in (("NVIDIA", theirs), ("libgpudnn", ours)):
        if results is None:
            continue
        wrong = results["version"] != VERSION
        failures += wrong
        print(f"{'FAILED' if wrong else 'ok':10} torch.backends.cudnn.version() is {results['version']} with {who}")
    known = {case.name: case for case in chosen(torch, arguments)}
    counts = {}
    both = [name for name in ours if name != "version" and (theirs is None or name in theirs)]
    for name in both:
        verdict, what = compare(theirs and theirs[name], ours[name], known.get(name), torch)
        failures += verdict == "FAILED"
        part = name.split(" ")[0] if name in known else "streams"
        counts.setdefault(part, {}).setdefault(verdict, []).append(name)
        print(f"{verdict:10} {name}: {what}")
    for part, verdicts in counts.items():
        print(f"{part:12}", ", ".join(f"{len(names)} {verdict}" for verdict, names in verdicts.items()))
    whole = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if "gpudnnCreate" not in whole:  # else the numbers would be NVIDIA's own
        failures += 1
        print("FAILED     the log of the second run has no handle: libgpudnn was not in the process")
    print(f"{len(both)} cases, {failures} failures; results and logs in {work}")
    if arguments.trainings:
        script = pathlib.Path(__file__).with_name("pytorch_train.py")
        failures += subprocess.run([sys.executable, str(script), arguments.library], check=False).returncode != 0
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
