"""A new lab: a skeleton that is green as it is (Y = X W^T in fp16), to be changed step by step; and what a lab still lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

from grader.authoring.slip_runs import CATALOGUE
from grader.labs import all_labs, optional
from grader.labs.expected import relation_of
from grader.labs.wrong_kernels import wrong_kernels
from grader.model import Case
from grader.unusable import Unusable

HERE = Path(__file__).parent
SKELETON = {
    "grader/labs/ID/lab.py": "lab.py.txt",
    "grader/labs/ID/relation.py": "relation.py.txt",
    "solutions/ID.py": "solution.py.txt",
    "notebooks/source/ID.py": "notebook.py.txt",
}
MOST_TO_RECORD = 1 << 23
"""Products of a case that the diagnosis records first."""


def make_lab(lab_id: str, root: Path) -> list[Path]:
    """Writes the lab's folder, solution and notebook source below `root`, and returns the files. Raises Unusable."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", lab_id):
        raise Unusable(f"{lab_id!r} is not a valid id for a lab; use lower-case letters and digits, such as w8a16")
    names = {
        "ID": lab_id,
        "KERNEL": f"{lab_id.upper()}_MM",
        "LAYER": f"Linear_{lab_id}",
        "TITLE": f"{lab_id.upper()}: fp16 x fp16 matrix product",
        "ORDER": str(max((lab.order for lab in all_labs().values()), default=0) + 1),
    }
    files = {root / "grader" / "labs" / lab_id / "__init__.py": ""}
    for name, template in SKELETON.items():
        skeleton = Template((HERE / "skeleton" / template).read_text(encoding="utf-8"))
        files[root / name.replace("ID", lab_id)] = skeleton.substitute(names)
    there = [path for path in files if path.exists()]
    if there:
        raise Unusable(f"{there[0].relative_to(root)} exists already; choose another id, or remove it first")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)


REQUIRED = {
    "solutions/ID.py": ", its reference kernel and layer",
    "notebooks/source/ID.py": ", its notebook",
    "assignment/ID.py": "; run `make release`",
}
STEPS = "grader/labs/ID/steps.py"
OPTIONAL = {
    "grader/labs/ID/relation.py": "a wrong kernel's author learns that it is wrong, not where",
    STEPS: "its notebook has no small steps to check",
    f"grader/labs/ID/{CATALOGUE}": "no wrong step is explained by a common mistake",
    "grader/labs/ID/questions.py": "no question has numbers of each student's own",
    "grader/labs/ID/speed_steps.py": "its notebook has no checked way from a right kernel to a fast one",
    "grader/labs/ID/mistakes.toml": "no wrong kernel shows that its cases catch one",
    "tests/broken/ID.toml": "no broken kernel shows what its author is told",
    "tests/styles/ID_*.py": "no second right kernel shows that its tolerance is fair",
    "bench/labs/ID.py": "it races against cuBLAS only in its speed cases",
}
"""Files of a lab, and what it means that one is missing."""


def missing(lab_id: str, root: Path) -> Iterator[tuple[bool, str]]:
    """What this lab lacks: (whether it must have it, a sentence). Its definition is sound, or labs could not be looked up."""
    lacking = [name for name in (*REQUIRED, *OPTIONAL) if not any(root.glob(name.replace("ID", lab_id)))]
    for name in lacking:
        if name in REQUIRED:
            yield True, name.replace("ID", lab_id) + REQUIRED[name]
        elif not (name.endswith(CATALOGUE) and STEPS in lacking):  # without steps there are no wrong steps
            yield False, f"{name.replace('ID', lab_id)}: {OPTIONAL[name]}"
    for module in ("relation", "steps", "questions", "speed_steps"):
        try:
            optional(lab_id, module)
        except Exception as error:  # it is the author's code
            yield True, f"a grader/labs/{lab_id}/{module}.py that can be imported ({type(error).__name__}: {error})"
            return
    if (relation := relation_of(lab_id)) is not None:
        first = [all_labs()[lab_id].case(name) for name in relation.first]
        yield from ((True, sentence) for sentence in _recorded_first(first))
    try:
        wrong_kernels(all_labs()[lab_id], root)
    except Unusable as problem:
        yield True, str(problem)


def _recorded_first(cases: Sequence[Case]) -> Iterator[str]:
    """Whether the cases that the diagnosis records first are small, and share no size that a number could have its name from in both."""
    for case in cases:
        if case.M * case.N * case.K > MOST_TO_RECORD:
            yield f"a smaller case in `first` of its relation: {case.name} has more than {MOST_TO_RECORD} products"
    shared = [size for size in ("M", "N", "K") if len({getattr(case, size) for case in cases}) < len(cases)]
    if shared:
        yield f"two cases in `first` of its relation that share no size: they have the same {', '.join(shared)}"
