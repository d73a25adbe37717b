#!/usr/bin/env python3
"""Trains published networks by PyTorch, with NVIDIA's cuDNN and with libgpudnn preloaded in its place, and compares.

usage: pytorch_train.py LIBCUDNN [--models NAME,...] [--types TYPE,...] [--steps N] [--batch N] [--benchmark]
                        [--planted] [--runs N] [--times] [--limit SECONDS] [--out FILE] [--losses FILE]

  LIBCUDNN   libgpudnn's libcudnn.so.9; its libgpudnn.so.1 must be beside it or in the folder above
  --models   of MODELS below; the networks for images by default
  --types    float32, float16, bfloat16; the 16-bit ones by autocast, float16 with loss scaling
  --steps    steps of each training (default 30, with --times 10, behind WARM_UP others)
  --batch    images of a step (default 16, with --times 64, so that the GPU and not Python is what is waited for)
  --planted  trains with wrong gradients, too: does the comparison find them?
  --runs     trainings by each library (default 12)
  --times    compares how long a step takes, and not the losses; the GPU should have nothing else to do. The two
             processes take turns: while one trains, the other waits
  --limit    of both processes together; trainings that it cuts off are left out of the table
  --losses   writes losses and errors of all runs there, as JSON
  --out      also writes the table there

Needs a GPU, PyTorch 2.11 and torchvision. Each library trains in a process of its own. The data are random images of
ten classes.

Each library trains a network --runs times from the same weights, every second time held to deterministic algorithms, and
each time with other images (gpt2: embeddings): off by one rounding to half precision, a factor of 1 +- 2^-11 for each
value at random. No two of all runs have the same. A training passes where

  losses     the libraries' runs can be told apart no better than by chance. The distance of two runs is the greatest
             difference of their losses at any step, relative to the first loss, less 2^-8. The mean distance between the
             libraries, less half of the mean distances within each, is compared with that of 9,999 random divisions of
             all runs into two halves (a permutation test of the energy distance): p is the share with as great a value.
             It must be LEVEL at least, which one training in 500 misses by chance, and one of 27 in 19 series of them;
  jumps      as many runs of either library jump, by Fisher's exact test at LEVEL: have a loss that is above the least until
             then by an eighth of the first one. A mean distance does not see what one run in fifty does;
  errors     no convolution of a first step has a result or gradient that is off by more than FACTOR times NVIDIA's of the
             same place, and 2^-10, relative to the norm, from what PyTorch's own kernels give in double of the very operands
             that the convolution had. The column is the share of what is allowed.

The rule of losses and the level were fixed before a training was judged by them, that of jumps after the first 26 trainings
had run and before VGG-16-BN's jumps were counted in fresh runs. Rare jumps want more runs than twelve.

The column "control" is p of NVIDIA's runs alone, those held to deterministic algorithms against the others, and is not
judged; "within" and "between" are the greatest distance of two of NVIDIA's runs and of one of NVIDIA's and one of ours;
"left out" counts steps whose gradients overflowed, by NVIDIA's and by our runs, "jumps" runs.

Errors are by layer, as a network's first gradients in 16 bits say little: they are off by 1.3 of their norm in the first
layers of a ResNet, by either library. --planted multiplies the gradients of all convolutions' weights, and of one alone,
by 1.01 in libgpudnn's process: errors must find either. It does so by 1.25 in as many runs as there are others: the
last column is p of their losses.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import contextlib
import copy
import json
import math
import os
import statistics
import subprocess
import sys
import threading
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
FACTOR = 2
LEVEL = 0.002
SETTINGS = ("plain", "deterministic")  # of every second run
PLANTED = {"planted": 1.01, "planted-one": 1.01, "planted-much": 1.25}
WARM_UP = 4  # steps before any is timed
TURNS = 2  # of each process; the first step of a turn is not timed


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


class Layer:
    """A convolution of one step: its operands and what the library made of them."""

    def __init__(self, name, module, torch):
        self.name, self.module, self.torch = name, module, torch
        self.hooks = [module.register_forward_pre_hook(self.before), module.register_forward_hook(self.after)]

    def before(self, _, operands):
        self.x, self.dx = operands[0], None
        if not self.x.requires_grad:
            return None
        seen = self.x.view_as(self.x)  # has the gradient of this layer alone
        seen.register_hook(lambda gradient: setattr(self, "dx", gradient.detach()))
        return (seen,)

    def after(self, _, __, y):
        self.y, self.x = y.detach().clone(), self.x.detach().clone()  # what follows may work in place
        y.register_hook(lambda gradient: setattr(self, "dy", gradient.detach()))

    def errors(self):
        """Of the result and the gradients of input and weights, relative to the norm, from double by PyTorch's own kernels."""
        torch, module, dtype = self.torch, self.module, self.y.dtype
        x = self.x.to(dtype).double().contiguous().requires_grad_(self.dx is not None)
        weight = module.weight.detach().to(dtype).double().contiguous().requires_grad_()
        bias = None if module.bias is None else module.bias.detach().to(dtype).double()
        convolution = torch.nn.functional.conv3d if weight.dim() == 5 else torch.nn.functional.conv2d
        with torch.backends.cudnn.flags(enabled=False):
            y = convolution(x, weight, bias, module.stride, module.padding, module.dilation, module.groups)
            y.backward(self.dy.double().contiguous())
        pairs = {"y": (self.y, y), "dx": (self.dx, x.grad), "dw": (module.weight.grad, weight.grad)}
        return {
            f"{self.name} {what}": ((found.double() - true).norm() / true.norm()).item()
            for what, (found, true) in pairs.items()
            if found is not None and true.norm() > 0
        }

    def remove(self):
        for hook in self.hooks:
            hook.remove()


class Training:
    """A network and its data."""

    def __init__(self, name, dtype, batch, torch):
        torch.manual_seed(1)
        self.name, self.dtype, self.torch = name, dtype, torch
        # Half precision runs channels-last, float as old code does it: NCHW.
        last = torch.channels_last_3d if len(MODELS[name][1]) == 4 else torch.channels_last
        self.layout = torch.contiguous_format if dtype == "float32" else last
        with torch.device("cuda"):
            self.model = built(name, torch).to(memory_format=self.layout)
        self.start = copy.deepcopy(self.model.state_dict())
        if name == "gpt2":
            self.images, self.labels = texts(batch, torch)
        else:
            labels = torch.arange(batch, device="cuda") % 10
            images = torch.randn(batch, *MODELS[name][1], device="cuda")
            self.images = images + labels.view(-1, *[1] * (images.dim() - 1)) * 0.1
            if "segmentation" in MODELS[name][0]:
                labels = labels.view(-1, 1, 1).expand(-1, *MODELS[name][1][1:]).contiguous()
            self.labels = labels

    def loss(self, images):
        y = self.model(images)
        y = y["out"] if isinstance(y, dict) else y
        y, expected = (y.flatten(0, 1), self.labels.flatten()) if self.name == "gpt2" else (y, self.labels)
        return self.torch.nn.functional.cross_entropy(y.float(), expected)

    def is_finite(self):
        return all(p.grad.isfinite().all().item() for p in self.model.parameters() if p.grad is not None)

    def rounded(self, seed):
        """The images by one rounding off, where seed is not 0; of words the model's embeddings."""
        torch = self.torch
        self.model.load_state_dict(self.start)
        values = self.model.words.weight.data if self.name == "gpt2" else self.images.clone()
        if seed:
            torch.manual_seed(1 + seed)
            values *= 1 + 2.0**-11 * (2 * torch.randint(0, 2, values.shape, device="cuda") - 1)
        return self.images if self.name == "gpt2" else values.contiguous(memory_format=self.layout)

    def planted(self, setting):
        """Hooks that let gradients be wrong, in the runs that are for that."""
        weights = [p for p in self.model.parameters() if p.dim() > 3]
        chosen = weights[len(weights) // 2 :][:1] if setting == "planted-one" else weights
        factor = PLANTED.get(setting, 1)
        return [p.register_hook(lambda gradient: gradient * factor) for p in chosen if factor != 1]

    def begin(self):
        self.optimizer = self.torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.scaler = self.torch.amp.GradScaler("cuda", enabled=self.dtype == "float16")

    def step(self, images, measure=lambda: None):
        """The loss, and the seconds that the step took. `measure` is called between gradients and weights."""
        torch = self.torch
        torch.cuda.synchronize()
        begin = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        with cudnn_attention(self.name, self.dtype, torch):
            with torch.autocast("cuda", dtype=getattr(torch, self.dtype), enabled=self.dtype != "float32"):
                loss = self.loss(images)
            self.scaler.scale(loss).backward()
        measure()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        loss = loss.item()
        torch.cuda.synchronize()
        return loss, time.perf_counter() - begin

    def run(self, run, steps, measured):
        """The losses and loss scales of all steps; errors of the first one's convolutions, where they are to be measured."""
        torch = self.torch
        setting, seed = run.split(".")
        images = self.rounded(int(seed))
        torch.backends.cudnn.deterministic = setting == "deterministic"
        self.begin()
        hooks = self.planted(setting)
        modules = self.model.named_modules() if measured else []
        layers = [Layer(n, m, torch) for n, m in modules if isinstance(m, (torch.nn.Conv2d, torch.nn.Conv3d))]
        errors, left_out = {}, 0

        def measure():
            if not layers or not self.is_finite():  # a step whose gradients overflow is not taken
                return
            while layers:
                layer = layers.pop()
                errors.update(layer.errors())
                layer.remove()

        losses = []
        for _ in range(steps):
            scale = self.scaler.get_scale()
            losses.append(self.step(images, measure)[0])
            left_out += self.scaler.get_scale() < scale
            if setting in ("planted", "planted-one") and not layers:
                break
        for hook in hooks:
            hook.remove()
        if measured:
            torch.cuda.empty_cache()
        return {"losses": losses, "left_out": left_out, "errors": None if layers else errors}


def worker(arguments):
    import torch

    torch.backends.cudnn.benchmark = arguments.benchmark
    if arguments.times:
        return take_turns(arguments, torch)
    results = {}
    for dtype in arguments.types.split(","):
        for name in arguments.models.split(","):
            key, begin = f"{name} {dtype}", time.perf_counter()
            try:
                training = Training(name, dtype, arguments.batch, torch)
                results[key] = runs = {}
                for run in arguments.worker_runs.split(","):
                    measured = not runs or run.startswith(("planted.", "planted-one."))
                    runs[run] = training.run(run, arguments.steps, measured)
                what = f"loss {next(iter(runs.values()))['losses'][-1]:.4f}"
            except RuntimeError as error:
                what = str(error).splitlines()[0][:300]
                results[key] = {"error": what}
            training = None
            torch.cuda.empty_cache()
            with open(arguments.worker + ".new", "w", encoding="utf-8") as file:
                json.dump(results, file)
            os.replace(arguments.worker + ".new", arguments.worker)
            print(f"  {arguments.worker} {key}: {what} ({time.perf_counter() - begin:.1f} s)", file=sys.stderr, flush=True)
    return 0


def take_turns(arguments, torch):
    """Answers each line of input by one of JSON: a network and a type are made ready, a number is of steps to be timed."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what PyTorch prints is no answer
    training = images = None
    for line in sys.stdin:
        words = line.split()
        answer = {"seconds": []}
        try:
            if len(words) == 2:
                training = images = None
                torch.cuda.empty_cache()
                training = Training(*words, arguments.batch, torch)
                images = training.rounded(0)
                training.begin()
                for _ in range(WARM_UP):
                    training.step(images)
            else:
                answer["seconds"] = [training.step(images)[1] for _ in range(1 + int(words[0]))][1:]
        except RuntimeError as error:
            answer = {"error": str(error).splitlines()[0][:300]}
        print(json.dumps(answer), file=answers, flush=True)
    return 0


def started(environment, worker, **options):
    command = [sys.executable, __file__, *sys.argv[1:], *worker]
    return subprocess.Popen(command, env={**os.environ, **environment}, **options)


class Process:
    """A process that trains by one of the two libraries."""

    def __init__(self, label, runs, environment):
        self.label, self.path = label, f"pytorch_train.{os.getpid()}.{label}.json"
        self.process = started(environment, ["--worker", self.path, "--worker-runs", ",".join(runs)])

    def results(self, limit):
        """(results, exit status)"""
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            print(f"{self.label}: cut off", file=sys.stderr, flush=True)
            status = 0
        if not os.path.exists(self.path):
            return {}, status
        with open(self.path, encoding="utf-8") as file:
            results = json.load(file)
        os.unlink(self.path)
        return results, status


def timed_in_turns(arguments, preload):
    """Results of both libraries' processes, which wait for each other."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [started(environment, ["--worker", "-"], **pipes) for environment in ({}, preload)]
    timer = threading.Timer(arguments.limit or 1e6, lambda: [process.kill() for process in processes])
    timer.daemon = True
    timer.start()

    def ask(process, text):
        process.stdin.write(text + "\n")
        process.stdin.flush()

    def answer(process):
        line = process.stdout.readline()
        if not line:
            raise BrokenPipeError
        return json.loads(line)

    results = {}, {}
    try:
        for dtype in arguments.types.split(","):
            for name in arguments.models.split(","):
                key, seconds = f"{name} {dtype}", ([], [])
                for process in processes:
                    ask(process, key)
                answers = [answer(process) for process in processes]
                for _ in range(TURNS):
                    for i, process in enumerate(processes):
                        if "error" not in answers[i]:
                            ask(process, str(arguments.steps // TURNS))
                            answers[i] = answer(process)
                            seconds[i].extend(answers[i].get("seconds", []))
                for i, result in enumerate(results):
                    plain = {"seconds": statistics.median(seconds[i] or [0]), "all": seconds[i]}
                    result[key] = {"error": answers[i]["error"]} if "error" in answers[i] else {"plain": plain}
    except BrokenPipeError:
        print("cut off", file=sys.stderr, flush=True)
    for process in processes:
        process.kill()
        process.wait()
    timer.cancel()
    return results


def distances(runs, torch):
    """The greatest difference of each two series of losses, relative to the first loss."""
    losses = torch.tensor([run["losses"] for run in runs], dtype=torch.float64)
    differences = (losses[:, None] - losses).abs().amax(2) / losses[0, 0].abs()
    return differences.nan_to_num(math.inf).clamp(max=100)


def chance(between, first, torch):
    """The share of random divisions of the runs whose halves are as far apart as `first` is from the others."""
    count = len(between)
    counted = (between - 2**-8).clamp(min=0)
    order = torch.rand(9999, count, generator=torch.Generator().manual_seed(1)).argsort(1)
    chosen = torch.cat((torch.tensor([first]), order < sum(first))).double()
    ones, others = chosen.sum(1), count - chosen.sum(1)
    across = ((chosen @ counted) * (1 - chosen)).sum(1) / (ones * others)
    within = ((chosen @ counted) * chosen).sum(1) / (ones * (ones - 1)) / 2
    within += (((1 - chosen) @ counted) * (1 - chosen)).sum(1) / (others * (others - 1)) / 2
    energy = across - within
    return (energy >= energy[0] - 1e-12).double().mean().item()


def jumps(runs):
    """How many of the runs jump."""
    return sum(any(loss > min(run["losses"][: i + 1]) + run["losses"][0] / 8 for i, loss in enumerate(run["losses"])) for run in runs)


def chance_of_counts(one, other, runs):
    """Fisher's exact test, two-sided, of two counts among as many runs each."""
    total = one + other
    ways = [math.comb(runs, i) * math.comb(runs, total - i) for i in range(max(0, total - runs), min(runs, total) + 1)]
    return sum(way for way in ways if way <= math.comb(runs, one) * math.comb(runs, other)) / sum(ways)


def share_of_errors(nvidia, one):
    """(what the worst convolution takes of what is allowed, which it is)"""
    if nvidia is None or one is None:
        return math.inf, "no step with finite gradients"
    found = [(e / (FACTOR * nvidia[name] + 2**-10) if math.isfinite(e) else math.inf, name) for name, e in one.items()]
    return max(found, default=(0.0, "no convolution"))


def judged(key, nvidia, ours, torch):
    """(whether it passed, a line of the table) from each run's results."""
    for who, one in (("NVIDIA's", nvidia), ("libgpudnn's", ours)):
        if "error" in one:
            return None if one is nvidia else False, f"{key:27} {who} run: {one['error']}"
    theirs, mine = ([one[run] for run in one if run.split(".")[0] in SETTINGS] for one in (nvidia, ours))
    apart, count = distances(theirs + mine, torch), len(theirs)
    p = chance(apart, [i < count for i in range(len(apart))], torch)
    control = chance(apart[:count, :count], [run.startswith(SETTINGS[0]) for run in nvidia], torch)
    of_errors, where = share_of_errors(theirs[0]["errors"], mine[0]["errors"])
    counts = jumps(theirs), jumps(mine)
    passed = min(p, chance_of_counts(*counts, count)) >= LEVEL and of_errors <= 1
    means = (statistics.fmean(run["losses"][-1] for run in runs) for runs in (theirs, mine))
    text = f"{key:27} {theirs[0]['losses'][0]:6.3f} {next(means):9.5f} {next(means):9.5f}"
    text += f" {apart[:count, :count].max():9.2e} {apart[:count, count:].max():9.2e}"
    text += " {:3}/{:3}".format(*(sum(run["left_out"] for run in runs) for runs in (theirs, mine)))
    text += " {:3}/{:3}".format(*counts)
    text += f" {control:7.4f} {p:7.4f} {of_errors:6.2f}"
    planted = {name: [ours[run] for run in ours if run.split(".")[0] == name] for name in PLANTED}
    if planted["planted"]:
        found = [share_of_errors(theirs[0]["errors"], planted[name][0]["errors"])[0] for name in ("planted", "planted-one")]
        passed = passed and min(found) > 1
        much = distances(theirs + planted["planted-much"], torch)
        text += " {:5.2f} {:5.2f}".format(*found) + f" {chance(much, [i < count for i in range(len(much))], torch):6.4f}"
    return passed, text + (f" ok, {where}" if passed else f" FAILED, {where}")


def table_of_losses(nvidia, ours, planted):
    """(lines, failures)"""
    import torch

    lines = [
        f"{'training':27} {'loss 1':>6} {'NVIDIA':>9} {'libgpudnn':>9} {'within':>9} {'between':>9} left out   jumps"
        f" {'control':>7} {'losses':>7} {'errors':>6}" + " planted: errors, of one layer, losses" * planted + " worst convolution"
    ]
    failures = 0
    for key in [key for key in nvidia if key in ours]:
        passed, text = judged(key, nvidia[key], ours[key], torch)
        failures += passed is False
        lines.append(text)
    return [*lines, f"{len(lines) - 1} trainings, {failures} failures"], failures


def table_of_times(nvidia, ours):
    lines, ratios = [f"{'training':30} {'NVIDIA':>8} {'libgpudnn':>9} {'ratio':>6}"], []
    for key in [key for key in nvidia if key in ours]:
        if "error" in nvidia[key] or "error" in ours[key]:
            lines.append(f"{key:30} {nvidia[key].get('error', ours[key].get('error'))}")
            continue
        theirs, mine = (one[key]["plain"]["seconds"] for one in (nvidia, ours))
        ratios.append(mine / theirs)
        lines.append(f"{key:30} {1e3 * theirs:8.2f} {1e3 * mine:9.2f} {ratios[-1]:6.3f}")
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        lines.append(f"{len(ratios)} trainings; milliseconds of a step; ratio: geometric mean {mean:.3f}, greatest {max(ratios):.3f}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", nargs="?")
    parser.add_argument("--models", default=",".join(list(MODELS)[:9]))
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--losses")
    parser.add_argument("--out")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--worker-runs", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.steps = arguments.steps or (10 if arguments.times else 30)
    arguments.batch = arguments.batch or (64 if arguments.times else 16)
    if arguments.worker:
        return worker(arguments)
    if not arguments.library or not os.path.exists(arguments.library):
        parser.error("name libgpudnn's libcudnn.so.9")
    preload = {"LD_PRELOAD": os.path.abspath(arguments.library), "LD_BIND_NOW": "1", "GPUDNN_BACKEND": "cuda"}
    limit = arguments.limit
    if arguments.times:
        nvidia, ours = timed_in_turns(arguments, preload)
        lines, failures, first, second = table_of_times(nvidia, ours), 0, 0, 0
    else:
        count = arguments.runs
        runs = [f"{SETTINGS[i % 2]}.{1 + i}" for i in range(2 * count)]
        planted = [f"planted-much.{2 * count + 1 + i}" for i in range(count)] + ["planted.1", "planted-one.1"]
        end = limit and time.monotonic() + limit
        processes = Process("nvidia", runs[:count], {}), Process("libgpudnn", runs[count:] + planted * arguments.planted, preload)
        (nvidia, first), (ours, second) = (one.results(end and end - time.monotonic()) for one in processes)
        lines, failures = table_of_losses(nvidia, ours, arguments.planted)
    print("\n".join(lines))
    if arguments.losses:
        with open(arguments.losses, "w", encoding="utf-8") as file:
            json.dump({"nvidia": nvidia, "libgpudnn": ours}, file)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 1 if failures or first or second else 0


if __name__ == "__main__":
    sys.exit(main())
