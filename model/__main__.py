"""`python -m model train`: the small language model of the labs, from the standard library's sources."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer

from grader.cli.arguments import refuse
from model.corpus import NoText, held_out_text, training_text
from model.perplexity import measure
from model.store import WEIGHTS, default_device, origin_of, save
from model.training import Recipe
from model.training import train as train_model
from model.transformer import Sizes

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def threads(threads: Annotated[int | None, typer.Option(help="Threads of a CPU; default: PyTorch's choice.")] = None) -> None:
    """A small language model, ways of quantising it, and what each costs."""
    if threads:
        torch.set_num_threads(threads)


@app.command()
def train(
    layers: Annotated[int, typer.Option(help="Blocks of the transformer.")] = Sizes.layers,
    steps: Annotated[int, typer.Option(help="Steps of the training.")] = Recipe.steps,
    minutes: Annotated[float | None, typer.Option(help="End after so many minutes instead.")] = None,
    batch: Annotated[int, typer.Option(help="Windows in a step.")] = Recipe.batch,
    learning_rate: Annotated[float, typer.Option(help="The highest learning rate.")] = Recipe.learning_rate,
    seed: Annotated[int, typer.Option(help="For the first weights and the order of the text.")] = Recipe.seed,
    weights: Annotated[Path, typer.Option(help="Where the weights go; their record lies beside them.")] = WEIGHTS,
) -> None:
    """Train the model on this Python's standard library, on the GPU where there is one."""
    try:
        text, held_out = training_text(), held_out_text()
    except NoText as problem:
        raise refuse(str(problem)) from None
    recipe = Recipe(steps, minutes, batch, learning_rate, seed=seed)
    model, course = train_model(Sizes(layers=layers), text, recipe, default_device(), typer.echo)
    quality = measure(model.half().float(), held_out.text, model.shape.context)
    save(model, origin_of(model, recipe, course, quality, len(text), held_out.differing), weights)
    typer.echo(f"wrote {weights}: {quality.bits_per_byte:.3f} bits per byte on {quality.predicted} held-out bytes")


if __name__ == "__main__":
    app(prog_name="python -m model")
