"""Many networks of one architecture, evaluated together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F  # noqa: N812
from torch.nn.modules.conv import _ConvNd

from drpu.exceptions import ParameterError

__all__ = ["Forward", "Stack"]

ALIGNED = 64  # on a GPU, parameter offsets are multiples of 64 elements

Forward: TypeAlias = Callable[[Tensor], Tensor]


class Stack:
    """Networks of one architecture, trained and evaluated together.

    The trainable weights are one matrix with one line per model, so an optimiser step, an
    average or a copy is an operation on one tensor, with a column for settings that differ.
    Other registered tensors (batch-norm statistics, frozen weights) are stacked by name.

    Parameters
    ----------
    modules : sequence of torch.nn.Module
        Networks of one architecture, each mapping (n, ...) to (n,) or (n, 1). They
        are copied and not changed.
    device, dtype
        Device and type of the weights.

    Attributes
    ----------
    weights : Tensor of shape (models, n_weights)
        On a GPU every parameter starts at a multiple of 256 bytes, which kernels require;
        the gaps are 0.
    fixed : dict of str to Tensor of shape (models, ...)
    batched : bool
        Whether all models are evaluated in one batched call. It is False for a single model,
        for modules that cannot be batched (recurrent ones), and for convolutions, because
        grouped convolutions are slower than separate calls, which use one stream per model
        on a GPU.
    """

    def __init__(
        self, modules: Sequence[nn.Module], *, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> None:
        copies = [deepcopy(module).to(device=device, dtype=dtype) for module in modules]
        self.module = copies[0]
        self.device = device
        self.dtype = dtype
        self.shapes = {name: p.shape for name, p in self.module.named_parameters() if p.requires_grad}
        for copy in copies[1:]:
            self._check_shape(copy)
        if not self.shapes:
            raise ParameterError("module must have weights to train, got none that require a gradient.")

        self.aligned = ALIGNED if device.type == "cuda" else 1
        self.weights = torch.stack([_flat(copy, self.shapes, self.aligned) for copy in copies])
        # leaves for autograd: one per parameter, views of the matrix
        self.leaves = {k: v.detach().requires_grad_() for k, v in self._named(self.weights).items()}
        self.slopes = torch.zeros_like(self.weights)
        self.slope_parts = list(self._named(self.slopes).values())
        others = [_others(copy, self.shapes) for copy in copies]
        self.fixed = {name: torch.stack([other[name] for other in others]) for name in others[0]}
        convolves = any(isinstance(part, _ConvNd) for part in self.module.modules())
        self.batched = len(copies) > 1 and not convolves
        self.streams = [torch.cuda.Stream(device) for _ in copies] if device.type == "cuda" else []  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return self.weights.shape[0]

    def train(self, mode: bool = True) -> None:
        """Switch dropout and batch norm to training, or to scoring."""
        self.module.train(mode)

    def __call__(
        self, rows: Tensor, weights: Tensor | None = None, fixed: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Outputs of shape (models, n) for rows of shape (models, n, ...)."""
        named = self.leaves if weights is None else self._named(weights)
        named = named | (self.fixed if fixed is None else dict(fixed))
        if self.batched:
            output = vmap(self._one, randomness="different")(named, rows)
        elif len(self) == 1:  # views only, so that gradients need no copy
            output = self._one({k: v.squeeze(0) for k, v in named.items()}, rows.squeeze(0))[None]
        else:
            lines = {name: value.unbind() for name, value in named.items()}
            each = [{name: parts[i] for name, parts in lines.items()} for i in range(len(self))]
            output = torch.stack(self._in_turn(each, rows))
        return self._outputs(output, rows)

    def gradient(self, loss: Tensor) -> Tensor:
        """Gradient of ``loss`` in the shape of ``weights``; the next call overwrites it."""
        leaves = list(self.leaves.values())
        found = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        torch._foreach_copy_(self.slope_parts, list(found))
        return self.slopes

    def probe(self, rows: Tensor) -> None:
        """Test on a few rows whether the models can be batched."""
        if not self.batched:
            return
        self.train(False)
        try:
            with torch.no_grad():
                self(rows)
        except (
            RuntimeError,
            ValueError,
        ):  # messages of vmap for unsupported operations; other errors will be raised again
            self.batched = False

    def extract(self, model: int, weights: Tensor, fixed: Mapping[str, Tensor]) -> nn.Module:
        """One model as a separate module in evaluation mode."""
        module = deepcopy(self.module).eval()
        values = {k: v[model] for k, v in (self._named(weights) | dict(fixed)).items()}
        with torch.no_grad():
            for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
                tensor.copy_(values[name])
        return module

    def _in_turn(self, each: Sequence[dict[str, Tensor]], rows: Tensor) -> list[Tensor]:
        """Outputs of the models in sequence, or on a GPU concurrently."""
        if not self.streams:
            return [self._one(*one) for one in zip(each, rows, strict=True)]
        main = torch.cuda.current_stream(self.device)
        outputs = []
        for stream, named, own in zip(self.streams, each, rows, strict=True):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):  # autograd uses the same stream for the backward pass
                outputs.append(self._one(named, own))
        for stream in self.streams:
            main.wait_stream(stream)
        return outputs

    def _one(self, named: dict[str, Tensor], rows: Tensor) -> Tensor:
        output: Tensor = functional_call(self.module, named, (rows,))
        return output

    def _named(self, weights: Tensor) -> dict[str, Tensor]:
        parts = torch.split(weights, [_padded(shape, self.aligned) for shape in self.shapes.values()], dim=1)
        return {
            name: part[:, : shape.numel()].view(len(self), *shape)
            for part, (name, shape) in zip(parts, self.shapes.items(), strict=True)
        }

    def _outputs(self, output: Tensor, rows: Tensor) -> Tensor:
        models, n = rows.shape[:2]
        if output.shape not in ((models, n), (models, n, 1)):
            raise ParameterError(
                f"module must map {n} rows to shape ({n},) or ({n}, 1), got {tuple(output.shape[1:])}: "
                "its last layer needs one output."
            )
        return output.reshape(models, n)

    def _check_shape(self, other: nn.Module) -> None:
        shapes = {name: p.shape for name, p in other.named_parameters() if p.requires_grad}
        if shapes != self.shapes or type(other) is not type(self.module):
            raise ParameterError("models must have one architecture to be trained together.")


def _flat(module: nn.Module, shapes: Mapping[str, torch.Size], aligned: int) -> Tensor:
    values = dict(module.named_parameters())
    lines = [values[name].detach().flatten() for name in shapes]
    return torch.cat([F.pad(line, (0, _padded(line.shape, aligned) - line.numel())) for line in lines])


def _padded(shape: torch.Size, aligned: int) -> int:
    return -(-shape.numel() // aligned) * aligned


def _others(module: nn.Module, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return {name: tensor.detach() for name, tensor in tensors if name not in shapes}
