#!/usr/bin/env python3
"""Trains published networks by PyTorch, with NVIDIA's cuDNN and with libgpudnn preloaded in its place, and compares.

usage: pytorch_train.py LIBCUDNN [--models NAME,...] [--types TYPE,...] [--steps N] [--batch N] [--benchmark]
                        [--limit SECONDS] [--noise N] [--out FILE] [--losses FILE]

  LIBCUDNN   libgpudnn's libcudnn.so.9; its libgpudnn.so.1 must be beside it or in the folder above
  --models   of MODELS below; all by default
  --types    float32, float16, bfloat16; the 16-bit ones by autocast, float16 with loss scaling
  --steps    steps of each training; the second half is timed (default 30)
  --batch    images of a step (default 16)
  --limit    of each process; trainings that it cuts off are left out of the table
  --noise    of NVIDIA's runs that tell how far two runs may lie apart (default 1)
  --losses   writes the losses of all steps of all runs there, as JSON
  --out      also writes the table there

Needs a GPU, PyTorch 2.11 and torchvision. Each library trains in processes of its own, in turn, twice and more. The
data are random images of ten classes. NVIDIA's engines give the same bits each time, so its further runs' images (gpt2: embeddings) differ
by one rounding to half precision (a factor of 1 +- 2^-11), and from the third on it is held to deterministic algorithms:
how far its runs are apart says how far other sums may lead.
A training passes where the first loss agrees to 2^-8, and all losses of libgpudnn's run are as close to NVIDIA's as
NVIDIA's farthest run is, by a factor of three and 2 % of the first loss. The ratio is libgpudnn's time of a step over
NVIDIA's, of each the best of its first two runs.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import time

# name: (function of torchvision.models, shape of an image)
MODELS = {
    "resnet50": ("resnet50", (3, 224, 224)),
    "vgg16_bn": ("vgg16_bn", (3, 224, 224)),
    "efficientnet_v2_s": ("efficientnet_v2_s", (3, 224, 224)),
    "mobilenet_v3_large": ("mobilenet_v3_large", (3, 224, 224)),
    "convnext_tiny": ("convnext_tiny", (3, 224, 224)),
    "resnext50_32x4d": ("resnext50_32x4d", (3, 224, 224)),
    "densenet121": ("densenet121", (3, 224, 224)),
    "deeplabv3_resnet50": ("segmentation.deeplabv3_resnet50", (3, 160, 160)),
    "r3d_18": ("video.r3d_18", (3, 8, 112, 112)),
    "vit_b_16": ("vit_b_16", (3, 224, 224)),
    "gpt2": (None, (512,)),  # words of a text
}
WORDS = 4096
TYPES = ("float32", "float16", "bfloat16")


def gpt2(torch):
    """GPT-2's smallest size, with fewer words."""
    nn, width, heads, length = torch.nn, 768, 12, MODELS["gpt2"][1][0]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

        def forward(self, x):
            q, k, v = (t.unflatten(2, (heads, -1)).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, 2))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            return x + self.mlp(self.second(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(length, width)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(12))), nn.LayerNorm(width)
            for embedding in (self.words, self.places):
                nn.init.normal_(embedding.weight, std=0.02)

        def forward(self, words):
            x = self.words(words) + self.places.weight
            return self.norm(self.blocks(x)) @ self.words.weight.T

    return Model()


def texts(batch, torch):
    """Words, and the next ones: a permutation's, one in ten at random."""
    length = MODELS["gpt2"][1][0]
    follows = torch.randperm(WORDS, device="cuda")
    words = [torch.randint(WORDS, (batch,), device="cuda")]
    for _ in range(length):
        other = torch.randint(WORDS, (batch,), device="cuda")
        words.append(torch.where(torch.rand(batch, device="cuda") < 0.1, other, follows[words[-1]]))
    words = torch.stack(words, 1)
    return words[:, :-1].contiguous(), words[:, 1:].contiguous()


def cudnn_attention(name, dtype, torch):
    if name not in ("vit_b_16", "gpt2") or dtype == "float32":
        return contextlib.nullcontext()
    return torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION)


def built(name, torch):
    import torchvision

    path, _ = MODELS[name]
    if path is None:
        return gpt2(torch)
    make = torchvision.models
    for part in path.split("."):
        make = getattr(make, part)
    options = {"weights_backbone": None} if "segmentation" in path else {}
    model = make(weights=None, num_classes=10, **options)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout) or type(module).__name__ == "StochasticDepth":
            module.p = 0.0
    return model


def train(name, dtype, steps, batch, rounded, torch):
    """The losses of all steps, and the median seconds of one in the second half. rounded: images off by one rounding, by this seed."""
    torch.manual_seed(1)
    layout = torch.channels_last_3d if len(MODELS[name][1]) == 4 else torch.channels_last
    # Half precision runs channels-last, float as old code does it: NCHW.
    layout = torch.contiguous_format if dtype == "float32" else layout
    model = built(name, torch).cuda().to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == "float16")
    if name == "gpt2":
        images, labels = texts(batch, torch)
        if rounded:
            torch.manual_seed(1 + rounded)
            weight = model.words.weight.data
            weight *= 1 + 2.0**-11 * (2 * torch.randint(0, 2, weight.shape, device="cuda") - 1)
    else:
        labels = torch.arange(batch, device="cuda") % 10
        if "segmentation" in MODELS[name][0]:
            labels = labels.view(-1, 1, 1).expand(-1, *MODELS[name][1][1:]).contiguous()
        images = torch.randn(batch, *MODELS[name][1], device="cuda")
        images += labels.view(batch, -1)[:, 0].view(-1, *[1] * (images.dim() - 1)) * 0.1
        if rounded:
            torch.manual_seed(1 + rounded)
            images *= 1 + 2.0**-11 * (2 * torch.randint(0, 2, images.shape, device="cuda") - 1)
        images = images.contiguous(memory_format=layout)
    losses, times = [], []
    for step in range(steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with cudnn_attention(name, dtype, torch):
            with torch.autocast("cuda", dtype=getattr(torch, dtype), enabled=dtype != "float32"):
                y = model(images)
                y = y["out"] if isinstance(y, dict) else y
                y, expected = (y.flatten(0, 1), labels.flatten()) if name == "gpt2" else (y, labels)
                loss = torch.nn.functional.cross_entropy(y.float(), expected)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        torch.cuda.synchronize()
        if step >= steps // 2:
            times.append(time.perf_counter() - begin)
    return {"losses": losses, "seconds": statistics.median(times)}


def worker(arguments):
    import torch

    torch.backends.cudnn.benchmark = arguments.benchmark
    torch.backends.cudnn.deterministic = arguments.rounded > 1
    results = {}
    for dtype in arguments.types.split(","):
        for name in arguments.models.split(","):
            key = f"{name} {dtype}"
            begin = time.perf_counter()
            try:
                results[key] = train(name, dtype, arguments.steps, arguments.batch, arguments.rounded, torch)
            except RuntimeError as error:
                results[key] = {"error": str(error).splitlines()[0][:300]}
            torch.cuda.empty_cache()
            with open(arguments.worker + ".new", "w", encoding="utf-8") as file:
                json.dump(results, file)
            os.replace(arguments.worker + ".new", arguments.worker)
            what = results[key].get("error") or f"{1e3 * results[key]['seconds']:.2f} ms, loss {results[key]['losses'][-1]:.4f}"
            print(f"  {key}: {what} ({time.perf_counter() - begin:.1f} s)", file=sys.stderr, flush=True)
    return 0


def run(label, limit, environment, *further):
    path = f"pytorch_train.{os.getpid()}.{label}.json"
    command = [sys.executable, __file__, "--worker", path, *further, *sys.argv[1:]]
    print(f"{label}:", file=sys.stderr, flush=True)
    try:
        status = subprocess.run(command, env={**os.environ, **environment}, check=False, timeout=limit).returncode
    except subprocess.TimeoutExpired:
        print(f"{label}: cut off after {limit:.0f} s", file=sys.stderr, flush=True)
        status = 0
    results = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            results = json.load(file)
        os.unlink(path)
    return results, status


def apart(a, b):
    """The greatest difference of two series of losses, relative to the first loss."""
    if not all(map(math.isfinite, a + b)):
        return math.inf
    return max(abs(x - y) for x, y in zip(a, b)) / abs(a[0])


def row(key, nvidia, ours):
    """nvidia, ours: of each run that has this training its results."""
    first, best = nvidia[0], ours[0]
    if "error" in first:
        return None, f"{key:30} not compared: NVIDIA's run: {first['error']}", None
    for one in ours:
        if "error" in one:
            return False, f"{key:30} FAILED: {one['error']}", None
    nvidia = [one for one in nvidia if "error" not in one]
    noise = max((apart(first["losses"], other["losses"]) for other in nvidia[1:]), default=0)
    distance = apart(first["losses"], best["losses"])
    starts = abs(best["losses"][0] - first["losses"][0]) <= 2**-8 * abs(first["losses"][0])
    passed = starts and distance <= 3 * noise + 0.02
    theirs, mine = (min(one["seconds"] for one in runs[:2]) for runs in (nvidia, ours))
    ratio = mine / theirs
    text = (
        f"{key:30} {first['losses'][0]:7.4f} {first['losses'][-1]:9.4f} {best['losses'][-1]:9.4f} {noise:9.2e} {distance:9.2e}"
        f" {'ok' if passed else 'FAILED':6} {1e3 * theirs:8.2f} {1e3 * mine:8.2f} {ratio:6.3f}"
    )
    if len(nvidia) < 2 or len(ours) < 2:
        text += f" ({len(nvidia)} and {len(ours)} runs)"
    return passed, text, ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", nargs="?")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--losses")
    parser.add_argument("--out")
    parser.add_argument("--noise", type=int, default=1)
    parser.add_argument("--rounded", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return worker(arguments)
    if not arguments.library or not os.path.exists(arguments.library):
        parser.error("name libgpudnn's libcudnn.so.9")
    preload = {"LD_PRELOAD": os.path.abspath(arguments.library), "LD_BIND_NOW": "1", "GPUDNN_BACKEND": "cuda"}
    nvidia, ours, status = [], [], 0
    for i in range(max(2, 1 + arguments.noise)):
        nvidia.append(run(f"nvidia-{i + 1}", arguments.limit, {}, "--rounded", str(i))[0])
        if i < 2:
            results, ended = run(f"libgpudnn-{i + 1}", arguments.limit, preload, "--rounded", str(i))
            ours.append(results)
            status = status or ended
    lines = [
        f"{'training':30} {'loss 1':>7} {'NVIDIA':>9} {'libgpudnn':>9} {'noise':>9} {'distance':>9} {'':6}"
        f" {'ms':>8} {'ms':>8} {'ratio':>6}"
    ]
    failures, ratios = int(status != 0), []
    for key in nvidia[0]:
        theirs, mine = ([one[key] for one in runs if key in one] for runs in (nvidia, ours))
        if not mine and status == 0:
            lines.append(f"{key:30} not compared: cut off")
            continue
        passed, text, ratio = row(key, theirs, mine or [{"error": "did not run"}])
        failures += passed is False
        lines.append(text)
        if ratio is not None:
            ratios.append(ratio)
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        lines.append(f"{len(ratios)} trainings, {failures} failures; ratio: geometric mean {mean:.3f}, greatest {max(ratios):.3f}")
    print("\n".join(lines))
    if arguments.losses:
        with open(arguments.losses, "w", encoding="utf-8") as file:
            json.dump({"nvidia": nvidia, "libgpudnn": ours}, file)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
