"""Where are the weights, and how did they come about? `weights/base.safetensors` in fp16, and `weights/base.json` beside it."""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from grader.reporting.atomic import write_whole
from grader.unusable import Unusable
from model.perplexity import Quality
from model.training import Course, Recipe
from model.transformer import Sizes, Transformer

WEIGHTS = Path(__file__).with_name("weights") / "base.safetensors"
LARGEST_BYTES = 12_000_000
"""What the repository can bear for weights."""


@dataclass(frozen=True)
class Origin:
    """How weights came about, and how good they are in fp16: what the card says."""

    sizes: Sizes
    recipe: Recipe
    course: Course
    quality: Quality
    parameters: int
    training_bytes: int
    differing: tuple[str, ...]
    device: str
    threads: int
    versions: dict[str, str]
    date: str


def origin_of(
    model: Transformer, recipe: Recipe, course: Course, quality: Quality, training_bytes: int, differing: tuple[str, ...]
) -> Origin:
    """The record of a model that was just trained on this machine."""
    device = next(model.parameters()).device
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Origin(
        model.sizes, recipe, course, quality, parameters, training_bytes, differing, device_name(device),
        torch.get_num_threads(), versions(), today(),
    )


def device_name(device: torch.device) -> str:
    """What a reader calls the device: the GPU's name, or the CPU's architecture."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU ({platform.machine()})"


def versions() -> dict[str, str]:
    """What numbers may depend on."""
    return {"python": platform.python_version(), "torch": torch.__version__}


def today() -> str:
    """The date in UTC, as in 2026-01-31."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def save(model: Transformer, origin: Origin, weights: Path = WEIGHTS) -> None:
    """Writes the weights in fp16 and their record. Raises ValueError for weights that are too large for the repository."""
    halves = {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()}
    size = sum(tensor.numel() * 2 for tensor in halves.values())
    if size > LARGEST_BYTES:
        raise ValueError(f"found {size} bytes of weights, expected at most {LARGEST_BYTES}; take fewer layers")
    weights.parent.mkdir(parents=True, exist_ok=True)
    save_file(halves, weights)
    os.chmod(weights, 0o644)
    write_whole(weights.with_suffix(".json"), json.dumps(asdict(origin), indent=2) + "\n")


def load_origin(weights: Path = WEIGHTS) -> Origin:
    """The record beside the weights. Raises Unusable."""
    path = weights.with_suffix(".json")
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        parts: dict[str, Any] = {
            "sizes": Sizes(**data.pop("sizes")), "recipe": Recipe(**data.pop("recipe")), "course": Course(**data.pop("course")),
            "quality": Quality(**data.pop("quality")), "differing": tuple(data.pop("differing")),
        }
        return Origin(**parts, **data)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise Unusable(f"{path} cannot be used ({problem}); run `make model`") from None


def load(weights: Path = WEIGHTS, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> Transformer:
    """The trained model, for inference. Raises Unusable where there is none, or not of this model."""
    model = Transformer(load_origin(weights).sizes)
    if not weights.is_file():
        raise Unusable(f"{weights} is not there; run `make model`")
    try:
        model.load_state_dict(load_file(weights))
    except SafetensorError as problem:
        raise Unusable(f"{weights} is no safetensors file or is cut off ({problem}); fetch it again") from None
    except RuntimeError as problem:
        raise Unusable(f"{weights} does not fit {weights.with_suffix('.json')}: {problem}; run `make model`") from None
    return model.to(device=device, dtype=dtype).eval()


def default_device() -> torch.device:
    """The GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() and sys.platform == "linux" else "cpu")
