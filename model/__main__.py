"""`python -m model train`, `evaluate`, `table`, `times` and `card`: the small language model, and what quantising it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer

from grader.cli.arguments import application, graphics_card
from grader.reporting.atomic import write_whole
from model.card import CARD
from model.card import card as card_text
from model.corpus import HeldOut, held_out_text, training_text
from model.perplexity import measure
from model.store import WEIGHTS, default_device, load, load_origin, origin_of, save
from model.table import RESULTS, again, digest_of, tabulate, to_json, with_labs
from model.table import load as load_results
from model.times import TIMES, load_times, measure_times
from model.times import to_json as times_to_json
from model.training import Recipe
from model.training import train as train_model
from model.transformer import Sizes

app = application(__doc__ or "")


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
    text, held_out = _texts()
    recipe = Recipe(steps, minutes, batch, learning_rate, seed=seed)
    model, course = train_model(Sizes(layers=layers), text, recipe, default_device(), typer.echo)
    quality = measure(model.half().float(), held_out.text, model.sizes.context)
    save(model, origin_of(model, recipe, course, quality, len(text), held_out.differing), weights)
    typer.echo(f"wrote {weights}: {quality.bits_per_byte:.3f} bits per byte on {quality.predicted} held-out bytes")


@app.command()
def evaluate(weights: Annotated[Path, typer.Option(help="Weights with their record beside them.")] = WEIGHTS) -> None:
    """Measure bits per byte on the whole held-out text, and perplexity with every lab's layers, and compare with the record."""
    model, (_, held_out) = load(weights, default_device()), _texts()
    found, said = measure(model, held_out.text, model.sizes.context), load_origin(weights).quality
    typer.echo(f"{found.bits_per_byte:.4f} bits per byte, perplexity {found.perplexity:.4f}, over {found.predicted} held-out bytes")
    typer.echo(f"the record says {said.bits_per_byte:.4f} over {said.predicted}")
    results = load_results()
    if results.weights_sha256 != digest_of(weights):
        typer.echo("the table is of other weights; `python -m model table` measures it for these")
        return
    for row, quality in again(results, model, held_out.text):
        typer.echo(f"{row.method}: perplexity {quality.perplexity:.4f}, the table says {row.perplexity:.4f}")


@app.command()
def table(
    weights: Annotated[Path, typer.Option(help="Weights with their record beside them.")] = WEIGHTS,
    out: Annotated[Path, typer.Option(help="Where the results go.")] = RESULTS,
    labs: Annotated[bool, typer.Option("--labs", help="Measure the labs' rows alone, and keep the others.")] = False,
) -> None:
    """Measure bits and perplexity of every method and of every lab's layers."""
    model, (text, held_out) = load(weights, default_device()), _texts()
    if labs:
        results = with_labs(load_results(out), model, weights, held_out.text, typer.echo)
    else:
        results = tabulate(model, weights, text, held_out, listen=typer.echo)
    write_whole(out, to_json(results))
    typer.echo(f"wrote {out}; `python -m model card` shows it")


@app.command()
def times(
    weights: Annotated[Path, typer.Option(help="Weights with their record beside them.")] = WEIGHTS,
    out: Annotated[Path, typer.Option(help="Where the times go.")] = TIMES,
) -> None:
    """Time a layer through every lab's kernel on this GPU, raced against fp16."""
    device = graphics_card("timing a layer")
    measured = measure_times(load(weights, default_device()), device, typer.echo)
    write_whole(out, times_to_json(measured))
    typer.echo(f"wrote {out}; `python -m model card` shows it")


@app.command()
def card(
    weights: Annotated[Path, typer.Option(help="Weights with their record beside them.")] = WEIGHTS,
    out: Annotated[Path, typer.Option(help="The page to write.")] = CARD,
) -> None:
    """Write the model's card from its record and the table's results."""
    write_whole(out, card_text(load_origin(weights), load_results(), load_times()))
    typer.echo(f"wrote {out}")


def _texts() -> tuple[bytes, HeldOut]:
    text, held_out = training_text(), held_out_text()
    if held_out.differing:
        names = ", ".join(held_out.differing)
        typer.echo(f"{len(held_out.differing)} of {held_out.files} held-out files are not those of the record: {names}")
    return text, held_out


if __name__ == "__main__":
    app(prog_name="python -m model")
