"""What do operands hold in kernels with a known mistake? Runs every entry of a lab's mistakes.toml once, and keeps what deviates.

The result is grader/labs/ID/mistakes.npz: numbers and sentences without the edits, which show what is right.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from grader.building import BuildOptions, describe
from grader.diagnosis.compare import whole_products
from grader.diagnosis.explaining import run_of, telling
from grader.diagnosis.provenance import Array
from grader.diagnosis.values import check_values, check_weight
from grader.labs import Lab, all_labs, get_lab
from grader.labs.expected import Relation, relation_of
from grader.labs.wrong_kernels import WrongKernel, wrong_kernels
from grader.model import Case, KernelBundle, KernelSource
from grader.reading import read
from grader.running.cpu import InterpretOptions, interpret

CASE_SECONDS = 120.0


@dataclass(frozen=True)
class CatalogueEntry:
    """One mistake as it is kept. kind: what it is called, whatever kernel it is made in. digest: of the wrong kernel's text, by which it is
    known that it need not run again."""

    name: str
    kind: str
    says: str
    hint: str
    digest: str


def write_mistakes(root: Path) -> list[Path]:
    """Writes mistakes.npz of every lab with mistakes and a relation, and returns what changed. Raises Unusable."""
    return [path for lab in all_labs().values() if (path := _write(lab, root))]


def _write(lab: Lab, root: Path) -> Path | None:
    """Kernels that the file there has already, by their text, are not run again."""
    singles = [kernel for kernel in wrong_kernels(lab, root) if len(kernel.names) == 1 and kernel.edits]
    if relation_of(lab.id) is None or not singles:
        return None
    path = root / "grader" / "labs" / lab.id / "mistakes.npz"
    before, known = _stored(path)
    entries = [
        CatalogueEntry(kernel.name, kernel.names[0], kernel.says, kernel.hint, digest_of(kernel)) for kernel in singles
    ]
    listed = json.dumps([vars(entry) for entry in entries])
    if listed == before:
        return None
    unknown = [kernel for kernel, entry in zip(singles, entries, strict=True) if entry.digest not in known]
    ran = dict(zip(map(digest_of, unknown), _all_operands(lab.id, unknown), strict=True))
    arrays = {}
    for entry in entries:
        found = known.get(entry.digest) or ran.get(entry.digest, {})
        arrays.update({f"{case} {aspect} {entry.name}": array for (case, aspect), array in found.items()})
    contents: dict[str, Any] = {"mistakes": np.array(listed), **dict(sorted(arrays.items()))}
    np.savez_compressed(path, **contents)
    return path


def _stored(path: Path) -> tuple[str, dict[str, dict[tuple[str, str], Array]]]:
    """The entries that a file has, as JSON, and by digest their operands; of a file that is not there none."""
    if not path.is_file():
        return "", {}
    with np.load(path, allow_pickle=False) as stored:
        listed = str(stored["mistakes"])
        digests = {one["name"]: one["digest"] for one in json.loads(listed)}
        found: dict[str, dict[tuple[str, str], Array]] = {digest: {} for digest in digests.values()}
        for key in stored.files:
            if key != "mistakes":
                case, aspect, name = key.split(" ", 2)
                found[digests[name]][case, aspect] = stored[key]
    return listed, found


def digest_of(kernel: WrongKernel) -> str:
    """Of the text of a wrong kernel, and of the cases that it is run on."""
    lab, expected = get_lab(kernel.lab), relation_of(kernel.lab)
    cases = [replace(lab.case(name), about="") for name in expected.first] if expected else []
    return hashlib.sha256(f"{cases}\n{kernel.source}".encode()).hexdigest()[:16]


def _all_operands(lab_id: str, kernels: Sequence[WrongKernel]) -> list[dict[tuple[str, str], Array]]:
    """Of many kernels, by as many processes as there are cores."""
    cores = min(len(os.sched_getaffinity(0)), len(kernels))
    if cores < 2:
        return [operands(lab_id, kernel) for kernel in kernels]
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(operands, [lab_id] * len(kernels), kernels))


def operands(lab_id: str, kernel: WrongKernel) -> dict[tuple[str, str], Array]:
    """By case and aspect, float32 [rows, K]: what an operand holds in a wrong kernel where that deviates, NaN where nothing was held."""
    lab, expected = get_lab(lab_id), relation_of(lab_id)
    built = _read(lab, kernel.source)
    if built is None or expected is None:
        return {}
    cases = {name: _of_case(lab, expected, *built, lab.case(name)) for name in expected.first}
    return {(name, aspect): array for name, found in cases.items() for aspect, array in found.items()}


def _read(lab: Lab, text: str) -> tuple[KernelSource, KernelBundle] | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{lab.id}.py"
        path.write_text(text, encoding="utf-8")
        source = read(path, [lab], all_labs=True).labs[lab.id]
    bundle = describe(lab, source, BuildOptions((90,), "check", 1, None)) if isinstance(source, KernelSource) else None
    return (source, bundle) if isinstance(source, KernelSource) and isinstance(bundle, KernelBundle) else None


def _of_case(
    lab: Lab, expected: Relation, source: KernelSource, bundle: KernelBundle, case: Case
) -> Mapping[str, Array]:
    problem = telling(expected, lab, case.name)
    options = InterpretOptions(1, case_seconds=CASE_SECONDS, record=range)
    (outcome,) = interpret(lab, source, bundle, {case.name: problem}, [(case.name, 0)], options)
    if not outcome.flow:
        return {}
    with np.errstate(all="ignore"):
        run = run_of(lab, bundle, case.name, 0, problem, outcome)
        if not run.wrong.any():
            return {}
        shapes = {"left": (case.M, case.K), "right": (case.N, case.K), "weight": (case.N, case.K)}
        found: dict[str, Array] = {}
        for products in whole_products(run):
            weights = check_weight(run, products)
            observed = [*check_values(run, products)[0], *(weights or ())]
            for one in observed:
                if len(one.values) and (weights is None or one.aspect != "right"):
                    operand = found.setdefault(one.aspect, np.full(shapes[one.aspect], np.nan, dtype=np.float32))
                    row, k = one.values[:, :2].astype(np.int64).T
                    operand[row, k] = one.values[:, 2]
    return found
