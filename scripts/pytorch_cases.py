"""The cases of pytorch_check.py: PyTorch's operations that call cuDNN, over fixed and over random problems.

Each case has a name, a function that computes its tensors, texts that the log of the library must show, and a bound.
The function may return a second list, what the tensors should be, where NVIDIA's library is known to give something else.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import dataclasses
import random
import typing

from recurrent_reference import plain_network

# What the second run's log must show for a case, where the first run's log of NVIDIA's library shows it too.
BATCH_NORM_TRAINING = "BatchNormalizationForwardTraining"
BATCH_NORM_INFERENCE = "BatchNormalizationForwardInference"
BATCH_NORM_BACKWARD = "BatchNormalizationBackward"
EXECUTE = "BackendExecute"


@dataclasses.dataclass
class Case:
    name: str
    body: typing.Callable
    wanted: list
    bound: typing.Optional[float] = None  # relative to the greatest value; the type's where it is None


def batch_norm_cases(torch, *_):
    shapes = [(8, 16, 14, 14), (2, 3, 5, 7), (64, 256, 7, 7), (1, 1, 1, 9), (4, 32, 6, 5, 4)]
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for shape in shapes:
            for layout in ("contiguous", "channels_last"):
                for training in (True, False):
                    mode, size = "train" if training else "eval", "x".join(map(str, shape))
                    name = f"{mode} {str(dtype)[6:]} {layout} {size}"
                    wanted = [BATCH_NORM_TRAINING if training else BATCH_NORM_INFERENCE]
                    if training:
                        wanted.append(BATCH_NORM_BACKWARD)
                    # PyTorch takes its own kernels for bfloat16.
                    wanted = wanted if dtype != torch.bfloat16 else []
                    yield Case(name, batch_norm(torch, dtype, shape, layout, training), wanted)


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


def sampler_cases(torch, *_):
    for dtype in (torch.float32, torch.float64, torch.float16):
        for n, c, height, width, out in ((2, 3, 8, 9, 6), (1, 16, 32, 32, 32)):
            name = f"affine_grid, grid_sample {str(dtype)[6:]} {n}x{c}x{height}x{width}"
            yield Case(name, sampler(torch, dtype, n, c, height, width, out), ["SpatialTfGridGenerator", "SpatialTfSampler"])


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


def ctc_cases(torch, *_):
    for steps, batch, classes, length in ((20, 4, 10, 6), (50, 16, 28, 12), (5, 1, 3, 2)):
        yield Case(f"{steps}x{batch}x{classes}", ctc(torch, steps, batch, classes, length), ["CTCLoss"])


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


@contextlib.contextmanager
def cudnn_flags(torch, benchmark, deterministic, tf32):
    flags = torch.backends.cudnn
    before = flags.benchmark, flags.deterministic, flags.allow_tf32
    flags.benchmark, flags.deterministic, flags.allow_tf32 = benchmark, deterministic, tf32
    try:
        yield
    finally:
        flags.benchmark, flags.deterministic, flags.allow_tf32 = before


CHANNELS_LAST = {3: None, 4: "channels_last", 5: "channels_last_3d"}


def random_convolution(torch, draw):
    """A legal convolution: (description, function of its forward and backward pass, bound)."""
    rank = draw.choice((1, 2, 2, 2, 3))
    dtype = draw.choice((torch.float32, torch.float16, torch.bfloat16, torch.float16, torch.float64))
    groups = draw.choice((1, 1, 1, 2, 4, 8))
    depthwise = draw.random() < 0.1
    per_group_in = 1 if depthwise else draw.choice((1, 3, 4, 8, 16, 17, 32, 64))
    per_group_out = draw.choice((1, 2)) if depthwise else draw.choice((1, 5, 8, 16, 32, 48, 64))
    if depthwise:
        groups = draw.choice((16, 24, 64, 96))
    transposed = draw.random() < 0.2
    size = [draw.randint(5, {1: 200, 2: 40, 3: 12}[rank]) for _ in range(rank)]
    kernel = [draw.choice((1, 2, 3, 3, 5, 7) if rank < 3 else (1, 2, 3)) for _ in range(rank)]
    dilation = [draw.choice((1, 1, 1, 2)) for _ in range(rank)]
    kernel = [min(k, (extent - 1) // d + 1) for k, d, extent in zip(kernel, dilation, size)]
    stride = [draw.choice((1, 1, 2, 3)) for _ in range(rank)]
    padding = [draw.randint(0, (k - 1) * d) for k, d in zip(kernel, dilation)]
    batch = draw.choice((1, 2, 5, 8))
    layout = draw.choice(("contiguous", "channels_last"))
    bias = draw.random() < 0.5
    flags = {"benchmark": draw.random() < 0.2, "deterministic": draw.random() < 0.3, "tf32": draw.random() < 0.4}
    autocast = dtype == torch.float16 and draw.random() < 0.3
    mode = draw.choices(("eager", "captured", "compiled"), (0.86, 0.12, 0.02))[0]
    text = (
        f"conv{rank}d{' transposed' if transposed else ''} {str(dtype)[6:]}{' autocast' if autocast else ''} {mode} {layout}"
        f" n{batch} c{groups * per_group_in} k{groups * per_group_out} g{groups} size{size} kernel{kernel}"
        f" stride{stride} padding{padding} dilation{dilation}{' bias' if bias else ''}"
        f" {' '.join(name for name, on in flags.items() if on)}"
    )
    memory = CHANNELS_LAST[rank + 2] if layout == "channels_last" else None

    def placed(tensor):
        return tensor.contiguous(memory_format=getattr(torch, memory)) if memory else tensor

    def body():
        channels = (groups * per_group_in, groups * per_group_out)
        kept = torch.float32 if autocast else dtype
        x = placed(torch.randn(batch, channels[0], *size, device="cuda", dtype=torch.float64).to(kept))
        rows = (channels[0], per_group_out) if transposed else (channels[1], per_group_in)
        # Sums of about unit variance: the bound is relative to the greatest value, at least 1.
        taps = per_group_in
        for k in kernel:
            taps *= k
        w = placed((torch.randn(*rows, *kernel, device="cuda", dtype=torch.float64) / taps**0.5).to(kept))
        b = torch.randn(channels[1], device="cuda", dtype=torch.float64).to(kept) if bias else None
        leaves = [t.detach().requires_grad_() for t in (x, w, b) if t is not None]
        operation = getattr(torch.nn.functional, f"conv{'_transpose' if transposed else ''}{rank}d")
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

        def convolution(*operands):
            return operation(*operands, **options)

        called = torch.compile(convolution, dynamic=False) if mode == "compiled" else convolution
        with cudnn_flags(torch, **flags), torch.autocast("cuda", torch.float16, autocast, cache_enabled=False):
            with torch.no_grad():
                y = convolution(*leaves)
            dy = torch.randn(y.shape, device="cuda", dtype=torch.float64) / max(1.0, (y.numel() / max(1, y.shape[1])) ** 0.5)
            dy = dy.to(y.dtype)

            def step():
                y = called(*leaves)
                return [y, *torch.autograd.grad(y, leaves, dy)]

            return captured(torch, step, leaves[0]) if mode == "captured" else step()

    # TF32 and the 16-bit products under autocast round each factor to 11 bits.
    return text, body, 4e-3 if (flags["tf32"] and dtype == torch.float32) or autocast else None


def captured(torch, step, x):
    """What a CUDA graph of `step` gives when x has twice the values that it was captured with."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    with torch.no_grad():
        x.mul_(2)
    graph.replay()
    torch.cuda.synchronize()
    return [t.clone() for t in results]


def convolution_cases(torch, share=1.0, seed=0):
    draw = random.Random(20 + seed)
    for index in range(round(500 * share)):
        text, body, bound = random_convolution(torch, draw)
        yield Case(f"{index}: {text}", body, [EXECUTE], bound)
    yield Case("captured convolutions", captured_convolutions(torch), [EXECUTE])


def captured_convolutions(torch):
    def body():
        torch.manual_seed(3)
        network = torch.nn.Sequential(
            torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(32, 8, 1, stride=2)
        ).cuda().half().to(memory_format=torch.channels_last)  # fmt: skip
        x = torch.randn(4, 16, 24, 24, device="cuda").half().contiguous(memory_format=torch.channels_last)
        with torch.no_grad():
            return captured(torch, lambda: [network(x)], x)

    return body


def random_recurrent(torch, draw):
    kind = draw.choice(("LSTM", "LSTM", "GRU", "RNN"))
    dtype = draw.choice((torch.float32, torch.float16, torch.bfloat16, torch.float64))
    hidden, features = draw.choice((8, 16, 29, 64, 128, 256)), draw.choice((3, 16, 40, 128))
    options = {
        "num_layers": draw.choice((1, 1, 2, 3)),
        "bidirectional": draw.random() < 0.4,
        "batch_first": draw.random() < 0.3,
        "bias": draw.random() < 0.8,
    }
    if kind == "LSTM" and hidden > 8 and draw.random() < 0.25:
        options["proj_size"] = hidden // 2
    if kind == "RNN":
        options["nonlinearity"] = draw.choice(("tanh", "relu"))
    steps, batch = draw.randint(1, 30), draw.choice((1, 3, 8, 20, 64))
    packed = draw.random() < 0.35
    state = draw.random() < 0.5
    flattened = draw.random() < 0.8
    text = (
        f"{kind} {str(dtype)[6:]} steps{steps} batch{batch} in{features} hidden{hidden}"
        f" {' '.join(f'{name}={value}' for name, value in options.items())}"
        f"{' packed' if packed else ''}{' state' if state else ''}{'' if flattened else ' scattered'}"
    )

    # cuDNN 9.19's gradients of both directions of a plain network of halves are wrong from two steps on: by half of the
    # greatest, where bfloat16, float and one direction are right (H200; docs/rnn.md). ReLU's slope is 0 or 1: where two
    # roundings of a sum lie on both sides of 0, a gradient is there or is not, and two right libraries differ by much.
    flips = options.get("nonlinearity") == "relu" and dtype in (torch.float16, torch.bfloat16)
    judged_by_float64 = flips or (kind == "RNN" and dtype == torch.float16 and options["bidirectional"])

    def body():
        network = getattr(torch.nn, kind)(features, hidden, **options).double().to(dtype).cuda()
        if not flattened:
            for parameter in network.parameters():
                parameter.data = parameter.data.clone()
        shape = (batch, steps, features) if options["batch_first"] else (steps, batch, features)
        x = torch.randn(shape, device="cuda", dtype=torch.float64).to(dtype).requires_grad_()
        given = None
        leaves = [x]
        if state:
            rows = options["num_layers"] * (2 if options["bidirectional"] else 1)
            sizes = [options.get("proj_size") or hidden] + ([hidden] if kind == "LSTM" else [])
            states = [torch.randn(rows, batch, size, device="cuda", dtype=torch.float64).to(dtype) for size in sizes]
            leaves += [s.requires_grad_() for s in states]
            given = tuple(states) if kind == "LSTM" else states[0]
        sequence = x
        if packed:
            lengths = torch.randint(1, steps + 1, (batch,))
            lengths[0] = steps
            sequence = torch.nn.utils.rnn.pack_padded_sequence(
                x, lengths, batch_first=options["batch_first"], enforce_sorted=False
            )
        y, last = network(sequence, given)
        y = y.data if packed else y
        finals = list(last) if kind == "LSTM" else [last]
        loss_weights = [torch.randn(t.shape, device="cuda") for t in [y] + finals]
        sum((t.float() * w).sum() for t, w in zip([y] + finals, loss_weights)).backward()
        values = [y] + finals + [t.grad for t in leaves] + [p.grad for p in network.parameters()]
        if not judged_by_float64:
            return values
        return values, plain_network(torch, network, x, given, lengths if packed else None, loss_weights)

    # Gradients are sums over the steps and the batch, each term rounded in the type.
    bound = {torch.float16: 1e-2, torch.bfloat16: 8e-2, torch.float64: 1e-9, torch.float32: 1e-4}[dtype]
    if judged_by_float64:  # six roundings; the worst of 1,200 networks with libgpudnn was 4.3
        bound = {torch.float16: 6 / 2048, torch.bfloat16: 6 / 256}[dtype]
    return text, body, bound


def recurrent_cases(torch, share=1.0, seed=0):
    draw = random.Random(23 + seed)
    for index in range(round(100 * share)):
        text, body, bound = random_recurrent(torch, draw)
        calls = ["RNNForward", "RNNBackwardData_v8", "RNNBackwardWeights_v8"]
        yield Case(f"{index}: {text}", body, calls, bound)


def random_attention(torch, draw):
    dtype = draw.choice((torch.float16, torch.bfloat16))
    batch, heads = draw.choice((1, 2, 3)), draw.choice((1, 2, 4, 8))
    queries, keys = draw.randint(1, 300), draw.randint(1, 300)
    depth = draw.choice((16, 32, 64, 96, 128))
    causal = draw.random() < 0.4
    if causal:
        keys = queries
    masked = not causal and draw.random() < 0.3
    grouped = heads > 1 and draw.random() < 0.3
    transposed = draw.random() < 0.5  # batch, length, heads, depth in memory, as a transformer's projections leave it
    scale = draw.choice((None, 0.2))
    text = (
        f"attention {str(dtype)[6:]} b{batch} h{heads} q{queries} kv{keys} d{depth}{' causal' if causal else ''}"
        f"{' bias' if masked else ''}{' grouped' if grouped else ''}{' bshd' if transposed else ' bhsd'} scale={scale}"
    )

    def made(count, length):
        shape = (batch, length, count, depth) if transposed else (batch, count, length, depth)
        t = torch.randn(shape, device="cuda", dtype=torch.float64).to(dtype)
        return (t.transpose(1, 2) if transposed else t).detach().requires_grad_()

    def body():
        of_keys = heads // 2 if grouped else heads
        leaves = [made(heads, queries), made(of_keys, keys), made(of_keys, keys)]
        mask = torch.randn(batch, heads, queries, keys, device="cuda").to(dtype) if masked else None
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            y = torch.nn.functional.scaled_dot_product_attention(
                *leaves, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=grouped
            )
        d_y = torch.randn(y.shape, device="cuda", dtype=torch.float64).to(dtype)
        y.backward(d_y)
        # The same by PyTorch's own sums, in double.
        wide = [t.detach().double().requires_grad_() for t in leaves]
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            expected = torch.nn.functional.scaled_dot_product_attention(
                *wide, attn_mask=mask if mask is None else mask.double(), is_causal=causal, scale=scale,
                enable_gqa=grouped,
            )
        expected.backward(d_y.double())
        return [y] + [t.grad for t in leaves], [expected] + [t.grad for t in wide]

    return text, body


def attention_cases(torch, share=1.0, seed=0):
    draw = random.Random(22 + seed)
    for index in range(round(200 * share)):
        text, body = random_attention(torch, draw)
        yield Case(f"{index}: {text}", body, [EXECUTE])


PARTS = {
    "batch_norm": batch_norm_cases,
    "sampler": sampler_cases,
    "ctc": ctc_cases,
    "convolution": convolution_cases,
    "recurrent": recurrent_cases,
    "attention": attention_cases,
}


def cases(torch, parts, share, seed):
    for part in parts:
        for case in PARTS[part](torch, share, seed):
            case.name = f"{part} {case.name}"
            yield case
