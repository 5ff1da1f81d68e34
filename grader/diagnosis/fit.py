"""fit: a column as an integer combination of a few variables, exactly, or not at all; and names for its coefficients."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from grader.diagnosis.observation import Number
from grader.diagnosis.provenance import Array
from grader.diagnosis.relation import Run

ASKED = 400
"""How many rows are solved for; all are verified."""


def fit(target: Array, variables: Mapping[str, Array]) -> dict[str, int] | None:
    """Coefficients by variable, and that of "" for the constant, which give every entry of `target`; None where none do.

    A variable that does not vary has the coefficient 0, and its share is in the constant.
    """
    flat = target.reshape(-1).astype(np.int64)
    columns = {name: np.broadcast_to(one, target.shape).reshape(-1).astype(np.int64) for name, one in variables.items()}
    varying = {name: values for name, values in columns.items() if len(values) and (values != values[0]).any()}
    if not len(flat):
        return None
    chosen = np.unique(np.linspace(0, len(flat) - 1, min(len(flat), ASKED)).astype(int))
    matrix = np.stack([*(values[chosen] for values in varying.values()), np.ones(len(chosen), dtype=np.int64)], axis=1)
    solved, _, rank, _ = np.linalg.lstsq(matrix.astype(np.float64), flat[chosen].astype(np.float64), rcond=None)
    if rank < matrix.shape[1] or not np.isfinite(solved).all():
        return None
    whole = [int(coefficient) for coefficient in np.round(np.atleast_1d(solved))]
    made: Array = np.full(flat.shape, whole[-1])
    for at, values in enumerate(varying.values()):
        made = made + values * whole[at]
    if (made != flat).any():
        return None
    found = dict.fromkeys(variables, 0)
    found.update({name: whole[at] for at, name in enumerate(varying)})
    return {**found, "": whole[-1]}


def named(run: Run, value: int) -> Number:
    """A coefficient with the names of the contract's integers, the student's constants, and their products and quotients."""
    if abs(value) < 2:
        return Number(value)
    known = {name: number for name, number in run.problem.scalars.items() if number > 1}
    constants = {**run.lab.constants, **run.config.constants}
    known |= {name: number for name, number in constants.items() if type(number) is int and number > 1}
    names = {name for name, number in known.items() if number == value}
    for (one, a), (other, b) in itertools.permutations(known.items(), 2):
        if a * b == value and one < other:
            names.add(f"{one} * {other}")
        if not one.startswith("stride") and a // b == value and a > b:
            names.add(f"{one} // {other}")
    return Number(value, frozenset(names))
