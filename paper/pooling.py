"""Maxima of 2x2 pixels, with a fast way back on a GPU.

Half of what a step of the CIFAR-10 network costs beyond its products is the gradient of
max pooling with colours last. Two kernels of one pass each remove most of it. Elsewhere,
and without Triton, torch's own layer does the same.
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
    def _forward(x, out, which, n, W, C, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ok = i < n
        c, at = i % C, i // C
        w, line = at % (W // 2), at // (W // 2)
        corner = x + (line * 2 * W + 2 * w) * C + c
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
    def _backward(gradient, which, out, n, W, C, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ok = i < n
        c, at = i % C, i // C
        w, line = at % (W // 2), at // (W // 2)
        corner = out + (line * 2 * W + 2 * w) * C + c
        g = tl.load(gradient + i, mask=ok)
        arg = tl.load(which + i, mask=ok)
        none = tl.zeros_like(g)
        tl.store(corner, tl.where(arg == 0, g, none), mask=ok)
        tl.store(corner + C, tl.where(arg == 1, g, none), mask=ok)
        tl.store(corner + W * C, tl.where(arg == 2, g, none), mask=ok)
        tl.store(corner + W * C + C, tl.where(arg == 3, g, none), mask=ok)


class _Maximum(torch.autograd.Function):
    """The layer on a GPU: the place of each maximum is all that the way back needs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        n, colours, height, width = x.shape
        shape = n, colours, height // 2, width // 2
        out = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
        which = torch.empty_like(out, dtype=torch.uint8)
        _forward[(triton.cdiv(out.numel(), BLOCK),)](x, out, which, out.numel(), width, colours, BLOCK=BLOCK)
        ctx.save_for_backward(which)
        ctx.shape = x.shape
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        (which,) = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        out = torch.empty(
            ctx.shape, dtype=gradient.dtype, device=gradient.device, memory_format=torch.channels_last
        )
        _, colours, _, width = ctx.shape
        size = gradient.numel()
        _backward[(triton.cdiv(size, BLOCK),)](gradient, which, out, size, width, colours, BLOCK=BLOCK)
        return out


class MaxPool2(nn.Module):
    """Maxima of 2x2 pixels; sides must be even. Of equal pixels the first counts."""

    def forward(self, x: Tensor) -> Tensor:
        """Images of half the side."""
        if triton is not None and x.is_cuda and x.requires_grad:
            pooled: Tensor = _Maximum.apply(x)
            return pooled
        return F.max_pool2d(x, 2)
