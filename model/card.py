"""The model's card, model/README.md, from the record beside the weights and the table's results."""

from __future__ import annotations

from pathlib import Path

from model.store import WEIGHTS, Origin
from model.table import CostTable, markdown
from model.times import TIMED_LAYER, TIMED_TOKENS, LayerTimes

CARD = Path(__file__).with_name("README.md")

TEXT = """# A small language model to quantise

Written by `python -m model card` from `{record}` and `results.json`; change those, or `model/card.py`.

`{weights}` holds a decoder-only transformer over bytes, {parameters:.2f} million parameters in fp16: {layers} blocks of width {width} with
{heads} heads, a context of {context} bytes. `model/transformer.py` is all of it. It writes Python badly; it is here to be quantised.

    from model.store import load
    from model.swap import swap

    model = load()                    # on the CPU in fp32; load(device="cuda") on a GPU
    swap(model, "w8a8")               # its Linear layers become those of a lab

| | |
|---|---|
| text | the standard library of Python {python}, {megabytes:.1f} MB; `model/corpus.py` says which files, and which are held out |
| training | {steps} steps of {batch} windows, {seen:.1f} MB seen, {minutes:.0f} minutes; AdamW, peak rate {rate:g}, seed {seed} |
| command | `{command}` |
| device | {device}{threads}, torch {torch} |
| date | {date} |
| last training loss | {loss:.3f} nats a byte |
| held-out text | **{bits:.3f} bits per byte, perplexity {perplexity:.3f}**, over {predicted} bytes{differing} |
{remark}
`make model` trains it anew on whatever device there is; without `ARGS` that is {default_layers} blocks and {default_steps} steps of
{default_batch} windows, sized for a GPU. It overwrites the weights and their record, so that results measured before no longer fit: run
`python -m model table` and `python -m model card` after it.

## What quantising it costs

{table}
Measured by `python -m model table` on {table_device}, torch {table_torch}, {table_date}: perplexity over {sample} held-out bytes,
embedding and last layer left in 16 bits. Bits a weight include scales and zero points. `model/quantisers/` has a page for each method
with its formula and source, `model/methods.py` says how each is applied, `model/outliers.py` what planted outliers are. The labs' layers
run their kernels on a GPU and their `naive` on a CPU. The time is that of `{layer}` on {tokens} tokens through the lab's kernel for
weights that are stored so (`model/times.py`). {times}

`python -m model evaluate` measures the committed weights again, on the whole held-out text and with every lab's layers, and compares both
with the record.
"""

NO_TIMES = "It needs a GPU, and was not measured yet; `python -m model times` measures it."
TIMES = "Measured by `python -m model times` on {gpu}, driver {driver}, {versions}, {date}."

ON_A_CPU = """
These weights were trained on a CPU for {minutes:.0f} minutes. That is enough for the comparisons below; a GPU's `make model` goes
further, how far was not measured.
"""


def command(origin: Origin) -> str:
    """What trains such a model again."""
    recipe = origin.recipe
    length = f"--steps {recipe.steps}" if recipe.minutes is None else f"--minutes {recipe.minutes:g}"
    threads = f" --threads {origin.threads}" if origin.device.startswith("CPU") else ""
    return (
        f"python -m model{threads} train --layers {origin.sizes.layers} {length} --batch {recipe.batch} "
        f"--learning-rate {recipe.learning_rate:g} --seed {recipe.seed}"
    )


def card(origin: Origin, results: CostTable, times: LayerTimes | None = None) -> str:
    """The card's text. times: None where none were measured."""
    sizes, recipe, course, quality = origin.sizes, origin.recipe, origin.course, origin.quality
    minutes = course.seconds / 60
    on_cpu = origin.device.startswith("CPU")
    defaults, default_sizes = type(recipe)(), type(sizes)()
    return TEXT.format(
        record=f"weights/{WEIGHTS.with_suffix('.json').name}", weights=f"weights/{WEIGHTS.name}", parameters=origin.parameters / 1e6,
        layers=sizes.layers, width=sizes.width, heads=sizes.heads, context=sizes.context, python=origin.versions["python"],
        megabytes=origin.training_bytes / 1e6, steps=course.steps, batch=recipe.batch, minutes=minutes,
        seen=course.steps * recipe.batch * sizes.context / 1e6, rate=recipe.learning_rate, seed=recipe.seed, device=origin.device,
        threads=f", {origin.threads} thread{'s' * (origin.threads > 1)}" if on_cpu else "", torch=origin.versions["torch"],
        date=origin.date, loss=course.loss, bits=quality.bits_per_byte, perplexity=quality.perplexity, predicted=quality.predicted,
        differing=f"; held-out files that differed: {len(origin.differing)}" if origin.differing else "", command=command(origin),
        remark=ON_A_CPU.format(minutes=minutes) if on_cpu else "", default_layers=default_sizes.layers, default_steps=defaults.steps,
        default_batch=defaults.batch, table=markdown(results, times), times=_times(times),
        table_device=results.device, table_torch=results.versions["torch"], table_date=results.date,
        sample=results.sample_bytes, layer=TIMED_LAYER, tokens=TIMED_TOKENS,
    )


def _times(times: LayerTimes | None) -> str:
    if times is None:
        return NO_TIMES
    versions = ", ".join(f"{name} {version}" for name, version in times.versions.items())
    return TIMES.format(gpu=times.gpu, driver=times.driver, versions=versions, date=times.date)
