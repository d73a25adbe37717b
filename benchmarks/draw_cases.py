#!/usr/bin/env python3
"""Draws convolution problems from layers of published networks: types, layouts, directions, batches and odd sizes at random.

    benchmarks/draw_cases.py --seed 7 --count 300 > cases.txt
    gpudnn-tune cases.txt          how good the first choice is on them

They judge the choice of an engine on problems that no model was fitted to. The models are fitted to seeds 11 to 23: report another one.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import random
from math import prod

# name: channels, input size, filters, filter size, padding, stride, dilation, groups. Sizes have one to three dimensions.
LAYERS = """
alexnet.conv1       3    227x227     96    11x11  0  4  1  1
alexnet.conv2       96   27x27       256   5x5    2  1  1  2
alexnet.conv3       256  13x13       384   3x3    1  1  1  1
zfnet.conv1         3    224x224     96    7x7    1  2  1  1
overfeat.conv1      3    231x231     96    11x11  0  4  1  1
vgg.conv1_1         3    224x224     64    3x3    1  1  1  1
vgg.conv2_2         128  112x112     128   3x3    1  1  1  1
vgg.conv4_1         256  28x28       512   3x3    1  1  1  1
googlenet.conv1     3    224x224     64    7x7    3  2  1  1
googlenet.3a_5x5    16   28x28       32    5x5    2  1  1  1
googlenet.4d_3x3    144  14x14       288   3x3    1  1  1  1
googlenet.5b_1x1    832  7x7         384   1x1    0  1  1  1
inception3.stem1    3    299x299     32    3x3    0  2  1  1
inception3.mix6_1x7 160  17x17       160   1x7    0x3 1  1  1
inception3.mix7     448  8x8         384   3x3    1  1  1  1
resnet.conv1        3    224x224     64    7x7    3  2  1  1
resnet.l1           64   56x56       64    3x3    1  1  1  1
resnet.l2.down      256  56x56       512   1x1    0  2  1  1
resnet.l3.3x3s2     256  28x28       256   3x3    1  2  1  1
resnet.l4.expand    512  7x7         2048  1x1    0  1  1  1
wideresnet.g2       320  16x16       320   3x3    1  1  1  1
cifar.resnet.l1     16   32x32       16    3x3    1  1  1  1
cifar.stem          3    32x32       64    3x3    1  1  1  1
lenet.conv1         1    28x28       20    5x5    0  1  1  1
lenet.conv2         20   12x12       50    5x5    0  1  1  1
densenet.growth     384  14x14       48    3x3    1  1  1  1
densenet.bottleneck 608  14x14       128   1x1    0  1  1  1
squeezenet.fire3    16   55x55       64    3x3    1  1  1  1
mobilenet2.expand   24   56x56       144   1x1    0  1  1  1
mobilenet2.project  384  14x14       96    1x1    0  1  1  1
mobilenet2.dw       144  56x56       144   3x3    1  2  1  144
mobilenet3.dw5      240  14x14       240   5x5    2  1  1  240
efficientnet.stem   3    240x240     40    3x3    1  2  1  1
efficientnet.dw     672  14x14       672   5x5    2  1  1  672
efficientnet2.fused 48   80x80       192   3x3    1  1  1  1
convnext.stem       3    224x224     96    4x4    0  4  1  1
convnext.dw7        192  28x28       192   7x7    3  1  1  192
convnext.down       192  28x28       384   2x2    0  2  1  1
regnetx.stage2      96   28x28       96    3x3    1  1  1  12
resnext.32x4d       256  28x28       256   3x3    1  1  1  32
shufflenet.g3       240  28x28       240   1x1    0  1  1  3
xception.dw         728  19x19       728   3x3    1  1  1  728
senet.3x3           384  14x14       384   3x3    1  1  1  1
vit.patch16         3    224x224     768   16x16  0  16 1  1
swin.patch4         3    224x224     96    4x4    0  4  1  1
yolo3.conv52        128  52x52       256   3x3    1  1  1  1
yolo5.stem          3    640x640     32    6x6    2  2  1  1
yolo5.head20        512  20x20       255   1x1    0  1  1  1
ssd.extra8          512  10x10       128   1x1    0  1  1  1
retinanet.box       256  50x84       36    3x3    1  1  1  1
fpn.lateral5        2048 25x42       256   1x1    0  1  1  1
maskrcnn.logits     256  28x28       81    1x1    0  1  1  1
deeplab.aspp12      512  33x33       256   3x3    12 1  12 1
pspnet.l4           512  60x60       512   3x3    4  1  4  1
unet.enc1           64   252x252     64    3x3    0  1  1  1
unet.up             512  36x36       256   2x2    0  2  1  1
hrnet.w18           18   64x64       18    3x3    1  1  1  1
openpose.7x7        185  46x46       128   7x7    3  1  1  1
crnn.conv4          256  8x25        512   3x3    1  1  1  1
srcnn.conv1         1    128x128     64    9x9    4  1  1  1
edsr.body           256  96x96       256   3x3    1  1  1  1
edsr.tail           64   192x192     3     3x3    1  1  1  1
stylegan.rgb        128  128x128     3     1x1    0  1  1  1
dcgan.up            512  8x8         256   4x4    1  2  1  1
pix2pix.first       6    256x256     64    4x4    1  2  1  1
cyclegan.last       64   262x262     3     7x7    0  1  1  1
sd.in               4    64x64       320   3x3    1  1  1  1
sd.res640           640  32x32       640   3x3    1  1  1  1
sd.skip             1920 16x16       1280  1x1    0  1  1  1
vae.res128          128  256x256     128   3x3    1  1  1  1
dqn.conv1           4    84x84       32    8x8    0  4  1  1
dqn.conv2           32   20x20       64    4x4    0  2  1  1
alphazero.body      256  19x19       256   3x3    1  1  1  1
flownet.conv2       64   192x256     128   5x5    2  2  1  1
raft.update         384  55x128      128   1x5    0x2 1  1  1
pointpillars.down   64   248x216     64    3x3    1  2  1  1
resnet3d.stem       3    16x112x112  64    3x7x7  1x3x3 1x2x2 1 1
c3d.conv4           256  4x14x14     512   3x3x3  1  1  1  1
i3d.mix             96   8x28x28     128   3x3x3  1  1  1  1
r2plus1d.time       230  8x28x28     128   3x1x1  1x0x0 1 1 1
unet3d.level1       32   64x64x64    64    3x3x3  1  1  1  1
vnet.down           32   32x64x64    64    2x2x2  0  2  1  1
wavenet.d16         64   8000        128   2      16 1  16 1
wav2vec.layer0      1    64000       512   10     0  5  1  1
wav2vec.layer3      512  3999        512   3      0  2  1  1
whisper.conv1       80   3000        384   3      1  1  1  1
deepspeech.conv1    1    161x400     32    41x11  20x5 2 1 1
tcn.d8              150  1024        150   3      8  1  8  1
mamba.conv          1536 1027        1536  4      3  1  1  1536
encodec.res         64   12000       32    3      1  1  1  1
""".strip().splitlines()

ARITHMETIC = [("f16", "tensor"), ("bf16", "tensor"), ("f32", "tensor"), ("f32", "fma")]
BATCHES = [1, 2, 3, 4, 7, 8, 16, 24, 32, 50, 64, 96, 128, 256]
MOST_BYTES = 400e6
MOST_FLOPS = 1e12


def numbers(text, rank):
    values = [int(v) for v in text.split("x")]
    return values * rank if len(values) == 1 else values


def joined(letter, values):
    return letter + "x".join(str(v) for v in values)


def draw(line, rng):
    """One problem of this layer, or None where it is too large to be worth a GPU's time."""
    name, c, size, k, window, padding, stride, dilation, groups = line.split()
    size = [int(v) for v in size.split("x")]
    rank = len(size)
    window, padding = numbers(window, rank), numbers(padding, rank)
    stride, dilation = numbers(stride, rank), numbers(dilation, rank)
    c, k, groups = int(c), int(k), int(groups)
    if rng.random() < 0.25:  # an odd size
        size = [max(window[i], v + rng.randint(-5, 5)) for i, v in enumerate(size)]
    if groups == 1 and rng.random() < 0.15:  # a pruned layer
        k = max(1, k - rng.randint(1, 9))
        c = c if c < 16 else c - rng.randint(1, 9)
    batch = rng.choice(BATCHES)
    dtype, math = rng.choice(ARITHMETIC)
    direction = rng.choice(["fwd", "dgrad", "wgrad"])
    layout = rng.choice(["nhwc", "nhwc", "nchw"])
    out = []
    for i in range(rank):
        extent = (size[i] + 2 * padding[i] - dilation[i] * (window[i] - 1) - 1) // stride[i] + 1
        if extent < 1:
            return None
        out.append(extent)
    elements = batch * (c * prod(size) + k * prod(out))
    flops = 2 * batch * k * prod(out) * (c // groups) * prod(window)
    if elements * (2 if dtype != "f32" else 4) > MOST_BYTES or flops * (4 if math == "fma" else 1) > MOST_FLOPS:
        return None
    spaces, filters = {1: ("w", "s"), 2: ("hw", "rs"), 3: ("dhw", "trs")}[rank]
    x = f"n{batch}c{c}" + "".join(f"{s}{v}" for s, v in zip(spaces, size))
    w = f"k{k}" + "".join(f"{s}{v}" for s, v in zip(filters, window))
    text = f"conv {direction} {dtype} {layout} {x} {w} {joined('p', padding)} {joined('t', stride)} {joined('d', dilation)}"
    return f"{name}.{direction}.{dtype}.{math}.{layout}.n{batch} = {text} g{groups} acc=f32 math={math}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    print(f"# benchmarks/draw_cases.py --seed {options.seed} --count {options.count}")
    drawn = 0
    while drawn < options.count:
        problem = draw(rng.choice(LAYERS), rng)
        if problem is not None:
            print(problem)
            drawn += 1


if __name__ == "__main__":
    main()
