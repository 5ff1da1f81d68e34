"""How is the small model trained? AdamW with warm-up and a cosine to zero, for a number of steps or of minutes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from model.perplexity import as_tokens
from model.transformer import Sizes, Transformer

WARM_UP = 0.02
"""The share of the training in which the learning rate rises."""

BETAS = (0.9, 0.95)
LARGEST_GRADIENT = 1.0
REPORT_EVERY = 100

Listener = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """How a model is trained. The training ends after `steps`, or after `minutes` where they are given."""

    steps: int = 4000
    minutes: float | None = None
    batch: int = 64
    learning_rate: float = 2e-3
    weight_decay: float = 0.1
    seed: int = 1


@dataclass(frozen=True)
class Course:
    """How a training went: its steps, seconds, and the mean loss of its last steps in nats a byte."""

    steps: int
    seconds: float
    loss: float


def learning_rate(peak: float, progress: float) -> float:
    """The rate when a share `progress` of the training, 0 to 1, is over: linear up to the peak, then a cosine down to 0."""
    if progress < WARM_UP:
        return peak * progress / WARM_UP
    return peak * 0.5 * (1.0 + math.cos(math.pi * min(1.0, (progress - WARM_UP) / (1.0 - WARM_UP))))


def batches(text: bytes, context: int, batch: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Endless batches int64 [batch, context + 1]. Each pass cuts the text at other places and goes through it in another order.

    Raises ValueError for a text that does not fill a batch.
    """
    tokens = as_tokens(text)
    if len(tokens) < (batch + 1) * context + 1:
        raise ValueError(f"found {len(tokens)} bytes, expected a batch of {batch} windows of {context}; take a longer text")
    while True:
        shift = int(torch.randint(context, (), generator=generator))
        cut = tokens[shift:].unfold(0, context + 1, context)
        order = torch.randperm(len(cut), generator=generator)
        for rows in order[: len(order) // batch * batch].view(-1, batch):
            yield cut[rows]


def optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter 2019); matrices decay, the norms' gains do not."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() == 2]
    gains = [parameter for parameter in model.parameters() if parameter.dim() != 2]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": gains, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=BETAS, fused=True)


def train(
    sizes: Sizes, text: bytes, recipe: Recipe, device: torch.device, listen: Listener = lambda text: None
) -> tuple[Transformer, Course]:
    """A new model trained on a text: weights in fp32, products in bf16. Raises ValueError for a text that is too short."""
    torch.manual_seed(recipe.seed)
    model = Transformer(sizes).to(device)
    return model, continue_training(model, text, recipe, listen)


def continue_training(model: Transformer, text: bytes, recipe: Recipe, listen: Listener = lambda text: None) -> Course:
    """Trains a model on, in place. Raises ValueError for a text that is too short."""
    device = next(model.parameters()).device
    rule = optimiser(model, recipe)
    source = batches(text, model.sizes.context, recipe.batch, torch.Generator().manual_seed(recipe.seed))
    started, recent, step, progress = time.monotonic(), [], 0, 0.0
    model.train()
    while progress < 1.0:
        for group in rule.param_groups:
            group["lr"] = learning_rate(recipe.learning_rate, progress)
        recent.append(_step(model, rule, next(source).to(device)))
        step += 1
        progress = _progress(recipe, step, time.monotonic() - started)
        if step % REPORT_EVERY == 0 or progress >= 1.0:
            loss = torch.stack(recent[-REPORT_EVERY:]).mean().item()
            recent = recent[-REPORT_EVERY:]
            listen(f"step {step}, {time.monotonic() - started:.0f} s: {loss / math.log(2.0):.3f} bits per byte")
    model.eval()
    return Course(step, time.monotonic() - started, loss)


def _progress(recipe: Recipe, step: int, seconds: float) -> float:
    return step / recipe.steps if recipe.minutes is None else seconds / (60.0 * recipe.minutes)


def _step(model: nn.Module, rule: torch.optim.Optimizer, batch: torch.Tensor) -> torch.Tensor:
    with torch.autocast(batch.device.type, dtype=torch.bfloat16):
        logits = model(batch[:, :-1])
    loss = F.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
    rule.step()
    rule.zero_grad()
    return loss.detach()
