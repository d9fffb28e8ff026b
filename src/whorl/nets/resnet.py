"""Residual networks: images [n, 3, s, s] to one pooled feature vector per image."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

M = TypeVar("M", bound=nn.Module)


class ConvNorm(nn.Module):
    """A convolution without bias, followed by batch norm. :func:`fold` merges the two."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv: nn.Conv2d = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve and normalise."""
        out: Tensor = self.norm(self.conv(x))
        return out


class PadShortcut(nn.Module):
    """Option A of He et al. (2016): subsample and pad the missing channels with zeros; no parameters."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.before: int = (outputs - inputs) // 2
        self.after: int = outputs - inputs - self.before

    def forward(self, x: Tensor) -> Tensor:
        """Subsample and pad."""
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.before, self.after))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut. ``relu=False`` leaves out the last non-linearity."""

    def __init__(self, inputs: int, outputs: int, stride: int, shortcut: nn.Module, relu: bool = True) -> None:
        super().__init__()
        self.first: ConvNorm = ConvNorm(inputs, outputs, 3, stride)
        self.second: ConvNorm = ConvNorm(outputs, outputs, 3)
        self.shortcut = shortcut
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        """Add the residual to the shortcut."""
        # In place where the overwritten value is not needed for the gradient: less memory, the same result.
        out: Tensor = self.second(F.relu(self.first(x), inplace=True))
        out = out.add_(self.shortcut(x))
        return F.relu(out, inplace=True) if self.relu else out


class ResNet(nn.Module):
    """A stem, stages of basic blocks, and global average pooling. ``dim`` is the number of features."""

    def __init__(
        self, stem: nn.Module, inputs: int, widths: Sequence[int], depth: int, project: bool, relu: bool
    ) -> None:
        super().__init__()
        self.dim: int = widths[-1]
        blocks: list[nn.Module] = []
        for stage, width in enumerate(widths):
            for position in range(depth):
                stride = 2 if stage > 0 and position == 0 else 1
                shortcut: nn.Module = nn.Identity()
                if stride != 1 or inputs != width:
                    shortcut = ConvNorm(inputs, width, 1, stride) if project else PadShortcut(inputs, width, stride)
                last = stage == len(widths) - 1 and position == depth - 1
                blocks.append(BasicBlock(inputs, width, stride, shortcut, relu or not last))
                inputs = width
        self.stem = stem
        self.blocks: nn.Sequential = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        """The pooled features [n, dim]."""
        out: Tensor = self.blocks(self.stem(x))
        return out.mean((2, 3))

    def draw(self, generator: torch.Generator) -> None:
        """Initialise the weights: convolutions He-normal by fan-out, batch norm with weight 1 and bias 0."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
            elif isinstance(module, nn.BatchNorm2d):
                module.reset_parameters()


def _stem(width: int, imagenet: bool = False) -> nn.Sequential:
    if imagenet:
        return nn.Sequential(ConvNorm(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
    return nn.Sequential(ConvNorm(3, width, 3), nn.ReLU(inplace=True))


def resnet32(final_relu: bool = True) -> ResNet:
    """ResNet-32 for 32×32 images, option A shortcuts: 463,504 parameters, 64 features."""
    return ResNet(_stem(16), 16, (16, 32, 64), 5, project=False, relu=final_relu)


def resnet14_wide(final_relu: bool = True) -> ResNet:
    """Two blocks per stage with twice the channels of ResNet-32: 128 features, about as fast on 32×32 images."""
    return ResNet(_stem(32), 32, (32, 64, 128), 2, project=False, relu=final_relu)


def resnet18(final_relu: bool = True) -> ResNet:
    """ResNet-18 in its ImageNet form (7×7 stem and max pool), 512 features."""
    return ResNet(_stem(64, imagenet=True), 64, (64, 128, 256, 512), 2, project=True, relu=final_relu)


def resnet18_small(final_relu: bool = True) -> ResNet:
    """ResNet-18 with a 3×3 stem and no max pool, for images of 32 to 96 pixels."""
    return ResNet(_stem(64), 64, (64, 128, 256, 512), 2, project=True, relu=final_relu)


def tiny(final_relu: bool = True) -> ResNet:
    """Two stages of one block each, for images of 8 to 16 pixels: 32 features, trains in seconds."""
    return ResNet(_stem(16), 16, (16, 32), 1, project=False, relu=final_relu)


def fold(net: M) -> M:
    """A frozen copy with every batch norm merged into its convolution: same output, less computation."""
    folded = copy.deepcopy(net).eval().requires_grad_(False)
    for module in folded.modules():
        if isinstance(module, ConvNorm):
            assert isinstance(module.norm, nn.BatchNorm2d)
            module.conv = fuse_conv_bn_eval(module.conv, module.norm)
            module.norm = nn.Identity()
    return folded
