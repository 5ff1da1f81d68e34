"""How is one layer of a model reached by its name: replaced, chosen, or watched while text runs through the model?"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from model.transformer import linear_layers

Choose = Callable[[str], bool]
"""Whether the layer of this name is meant."""


def every(name: str) -> bool:
    """Means all layers."""
    return True


def but_the_head(name: str) -> bool:
    """Means all layers but the last, which most methods leave as it is."""
    return name != "head"


def replace(model: nn.Module, name: str, layer: nn.Module) -> None:
    """Puts `layer` in the place of the layer called `name`, as in `blocks.0.mlp.up`. Raises AttributeError for an unknown name."""
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)


def set_weight(layer: nn.Linear, weight: torch.Tensor) -> None:
    """Gives a layer other numbers: weight [N, K], in any floating dtype."""
    with torch.no_grad():
        layer.weight.copy_(weight)


@torch.no_grad()
def layer_inputs(model: nn.Module, tokens: torch.Tensor, choose: Choose = every) -> dict[str, torch.Tensor]:
    """What each Linear layer is given while `model` reads tokens int64 [batch, length]: name -> fp32 [batch * length, K]."""
    seen: dict[str, torch.Tensor] = {}
    layers = {name: layer for name, layer in linear_layers(model).items() if choose(name)}
    hooks = [layer.register_forward_pre_hook(_keeper(seen, name)) for name, layer in layers.items()]
    try:
        model(tokens.to(next(model.parameters()).device))
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def relative_error(outputs: torch.Tensor, expected: torch.Tensor) -> float:
    """Frobenius norm of the difference by that of what was expected, taken in fp64; both [..., N]."""
    right = expected.detach().double().flatten()
    difference = torch.linalg.vector_norm(outputs.detach().double().flatten() - right)
    return float(difference / torch.linalg.vector_norm(right))


def weight_bytes(model: nn.Module) -> int:
    """Bytes of all parameters and buffers as they lie in memory."""
    tensors: Mapping[str, torch.Tensor] = model.state_dict()
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def _keeper(seen: dict[str, torch.Tensor], name: str) -> Callable[[nn.Module, tuple[torch.Tensor, ...]], None]:
    def keep(layer: nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        seen[name] = arguments[0].detach().flatten(0, -2).float()

    return keep
