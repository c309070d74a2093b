"""Maxima of 2 by 2 pixels, with a fast gradient on a GPU.

With channels last, torch's gradient of max pooling takes longer than the convolutions of the same
network. Where no gradient is needed, torch still writes the position of each maximum as an integer of eight
bytes. Two kernels, each of which reads and writes every pixel once, replace both. Without a GPU or without
Triton, torch's layer is used, which computes the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:
    triton = None

__all__ = ["MaxPool2"]

BLOCK = 1024

if triton is not None:

    @triton.jit
    def _corner(i, H, W, C):  # offset of the upper left of four pixels, for the i-th number of the result
        c, at = i % C, i // C
        w, line = at % (W // 2), at // (W // 2)
        image, h = line // (H // 2), line % (H // 2)
        return ((image * H + 2 * h) * W + 2 * w) * C + c

    @triton.jit
    def _forward(x, out, which, n, H, W, C, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ok = i < n
        corner = x + _corner(i, H, W, C)
        best = tl.load(corner, mask=ok)
        arg = tl.zeros([BLOCK], dtype=tl.int32)
        other = tl.load(corner + C, mask=ok)
        arg = tl.where(other > best, 1, arg)
        best = tl.where(other > best, other, best)
        other = tl.load(corner + W * C, mask=ok)
        arg = tl.where(other > best, 2, arg)
        best = tl.where(other > best, other, best)
        other = tl.load(corner + W * C + C, mask=ok)
        arg = tl.where(other > best, 3, arg)
        best = tl.where(other > best, other, best)
        tl.store(out + i, best, mask=ok)
        tl.store(which + i, arg.to(tl.uint8), mask=ok)

    @triton.jit
    def _backward(gradient, which, out, n, H, W, C, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ok = i < n
        corner = out + _corner(i, H, W, C)
        g = tl.load(gradient + i, mask=ok)
        arg = tl.load(which + i, mask=ok)
        none = tl.zeros_like(g)
        tl.store(corner, tl.where(arg == 0, g, none), mask=ok)
        tl.store(corner + C, tl.where(arg == 1, g, none), mask=ok)
        tl.store(corner + W * C, tl.where(arg == 2, g, none), mask=ok)
        tl.store(corner + W * C + C, tl.where(arg == 3, g, none), mask=ok)


class _Maximum(torch.autograd.Function):
    """The layer on a GPU; only the position of each maximum is stored for the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        n, channels, height, width = x.shape
        shape = n, channels, height // 2, width // 2
        out = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
        which = torch.empty_like(out, dtype=torch.uint8)
        size = out.numel()
        grid = (triton.cdiv(size, BLOCK),)
        _forward[grid](x, out, which, size, height, width, channels, BLOCK=BLOCK)
        ctx.save_for_backward(which)
        ctx.shape = x.shape
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        (which,) = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        _, channels, height, width = ctx.shape
        out = torch.empty(
            ctx.shape, dtype=gradient.dtype, device=gradient.device, memory_format=torch.channels_last
        )
        if height % 2 or width % 2:  # a last line of pixels has no maximum
            out.zero_()
        size = gradient.numel()
        grid = (triton.cdiv(size, BLOCK),)
        _backward[grid](gradient, which, out, size, height, width, channels, BLOCK=BLOCK)
        return out


class MaxPool2(nn.Module):
    """Maxima of 2 by 2 pixels; of equal pixels the first is used, and an odd last line is left out."""

    def forward(self, x: Tensor) -> Tensor:
        """Images of half the side."""
        if triton is not None and x.is_cuda:
            pooled: Tensor = _Maximum.apply(x)  # type: ignore[no-untyped-call]
            return pooled
        return F.max_pool2d(x, 2)
