"""In a notebook: show_values(NOTEBOOK, step=STEP) puts what a step gives beside what it should give; the same as a small picture."""

from __future__ import annotations

import torch

from grader.compile_errors.excerpt import INDENT, columns_of
from grader.exercises import steps_of
from grader.model import Refusal
from grader.notebook.cells import NotYet, display, inputs, sentence
from grader.notebook.harness import StepAnswer, check_executed
from grader.notebook.language import translated
from grader.notebook.step_words import Deviation
from grader.reporting import pictures
from grader.reporting.compact import Remark
from grader.running.cpu import InterpretOptions

STEP_SECONDS = 8.0
Window = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
ROWS, COLUMNS = 8, 6
"""How much is shown: around the first wrong element, or from the beginning on."""


def step_answer(notebook: str, name: str) -> StepAnswer | Refusal:
    """What a step comes to in the cells that were run. Raises NotYet for one that there is not."""
    steps = steps_of(notebook)
    if name not in steps:
        raise NotYet(f"{notebook} has no step {name!r}; its steps are {', '.join(steps) or 'none'}")
    return check_executed(steps, name, inputs(), InterpretOptions(1, case_seconds=STEP_SECONDS), notebook)


def show_values(notebook: str, step: str) -> None:
    """Shows some of a step's result, what was expected, and the difference. Raises NotYet where there is no result."""
    answer = step_answer(notebook, step)
    if isinstance(answer, Refusal):
        raise NotYet(sentence(answer.message))
    if answer.values is None:
        raise NotYet(f"{step} gives no values yet: {answer.sentences[0]}")
    (got, expected, _, unset), (row, column) = _window(answer.values)
    rows, columns = got.shape
    head = f"{answer.step.result}, rows {row} to {row + rows - 1}, columns {column} to {column + columns - 1}"
    blocks = {"got": got, "expected": expected, "difference": got.double() - expected.double()}
    texts = {title: [[f"{value.item():.4g}" for value in row] for row in block] for title, block in blocks.items()}
    for i, j in unset.nonzero().tolist():
        texts["got"][i][j], texts["difference"][i][j] = translated("unset"), "-"
    width = 2 + max(len(text) for block in texts.values() for row in block for text in row)
    titles = map(translated, blocks)
    lines = ["".join(title + " " * (width * columns + 3 - columns_of(title)) for title in titles)]
    lines += [
        "   ".join("".join(f"{text:>{width}}" for text in block[at]) for block in texts.values()) for at in range(rows)
    ]
    display([Remark("\n".join([head, *(f"{INDENT}{line.rstrip()}" for line in lines)]))])


def grids(answer: StepAnswer) -> list[pictures.Picture]:
    """What came back beside what was expected, and what each program touched; none where nothing came back."""
    if answer.values is None:
        return []
    shown, at = _window(answer.values)
    grid = [pictures.values(answer.step.result, *shown, at)] if shown[2].any() else []
    return [*grid, pictures.footprints(answer.touched, answer.step.result)] if answer.touched else grid


def printed(lines: tuple[str, ...]) -> list[Remark]:
    """What the kernel printed, as a remark."""
    return [Remark("\n".join(["program 0 prints:", *(f"{INDENT}{line}" for line in lines)]), "dim")] if lines else []


def _window(values: Deviation) -> tuple[Window, tuple[int, int]]:
    """Rows and columns around the first wrong element, and where they begin: what came back, what was expected, what is wrong, and what
    was never stored.

    One dimension is a column, more than two are rows.
    """
    got, expected, wrong, unset = (
        one.reshape(-1, one.shape[-1]) if one.dim() > 1 else one.reshape(-1, 1)
        for one in (values.y, values.expected, values.wrong, values.left)
    )
    first = wrong.nonzero()[0].tolist() if bool(wrong.any()) else [0, 0]
    row, column = (
        max(0, min(at - 1, size - most)) for at, size, most in zip(first, wrong.shape, (ROWS, COLUMNS), strict=True)
    )
    cut = slice(row, row + ROWS), slice(column, column + COLUMNS)
    return (got[cut], expected[cut], wrong[cut], unset[cut]), (row, column)
