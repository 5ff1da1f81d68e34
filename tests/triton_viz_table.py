"""What triton-viz's sanitizer and the watched interpreter say of the same launches, side by side; docs/triton-viz.md has the table.

    pip install -e '.[viz]'        into an environment of its own: triton-viz 3.0 needs Triton 3.6
    python -m tests.triton_viz_table --out tests/triton_viz.json [NAME ...]
    python -m tests.triton_viz_table --page --out tests/triton_viz.json          writes docs/triton-viz.md

Each kernel is launched once by each, in a process of its own: the module that the grader generates from its text, the first config, and the
smallest public case whose M, N and K end inside a tile (of a wrong kernel, the smallest that it fails). The sanitizer runs as it does by
default, but goes on after its first finding.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 120.0
"""By the clock, for a launch of either."""

RECORD, PAGE = Path(__file__).with_name("triton_viz.json"), Path(__file__).parents[1] / "docs" / "triton-viz.md"
OF_DATA = (
    "the sanitizer is symbolic: it stops at a value computed from loaded data, at an operation it cannot represent, "
    "or at a symbolic loop bound"
)
NO_ANSWER = {
    "MakeBlockPtr": "it has no block pointers",
    "SymbolicExprDataWrapper": OF_DATA,
    "Unsupported const value": OF_DATA,
    "Concretize for op": OF_DATA,
    "to_py must be": OF_DATA,
    "equal ranks": OF_DATA,
    "axes don't match": OF_DATA,
    "is not implemented": OF_DATA,
    "object has no attribute 'to'": "Triton's own interpreter: an assigned number is no tensor there; corrected here in `control_flow`",
    "cannot evaluate": OF_DATA,
    "Unsupported ternary operation": OF_DATA,
    "cannot convert None": "Triton's own interpreter: it has no libdevice; added here in `libdevice_on_host`",
    "`_semantic` argument": "a function of the language is called there that it does not patch",
    "not done after": "its solver, or its walk through every iteration, was not done in time",
}
"""By words of its error, why triton-viz says nothing of a launch."""

NOT_SEEN = {
    "programs run in no fixed order": "a race: triton-viz 3.0 has no race detector (its clients are sanitizer, profiler and tracer)",
    "debug_barrier": "a race of threads: triton-viz 3.0 has no race detector",
    "undefined: mask all lanes": "a race of lanes: triton-viz 3.0 has no race detector",
    "never stored to": "an element that nobody stores to is no access",
    "nothing has been stored yet": "triton-viz does not track the contents of memory",
    "promises": "promises to the compiler are not checked",
    "outside its shape": "the address lies in the storage of one of the tensors, in which a symbolic address may be",
    "between the elements": "it takes contiguous tensors only, and was given the storage",
}
"""By words of a sentence of the watched interpreter, why triton-viz does not have it."""

FALSE_ALARM = (
    "a false alarm of triton-viz, on the right kernel as well: its solver lets the loop variable in the mask take any value, "
    "while the pointer belongs to one iteration"
)

HEAD = """# The watched interpreter and triton-viz

[triton-viz](https://github.com/Deep-Learning-Profiling-Tools/triton-viz) 3.0 runs Triton kernels on the same interpreter; its
sanitizer asks a solver whether an address can lie outside every tensor. `python -m tests.triton_viz_table` launches styles
(right kernels) and wrong kernels under both, each once: a wrong one in the smallest case that it fails, a right one in the smallest
whose sizes all end inside a tile. It needs an environment of its own with the extra `viz` (Triton 3.6: with 3.9 triton-viz 3.0 does
not import). The sanitizer takes contiguous tensors only, so it was given each tensor's storage. PyPI's 3.0 has no race detector.
The record has a part of all styles and wrong kernels; more are added by name.

Lines are those of the generated module. Written by `python -m tests.triton_viz_table --page`.

"""


def kernels() -> Iterator[tuple[str, str, str, str, tuple[str, ...]]]:
    """Lab, name, text, suffix, and the cases that it fails: every style, and every wrong kernel of the labs' lists."""
    from tests.submissions import all_mistakes, styles

    for path in styles():
        yield path.stem.split("_")[0], path.stem, path.read_text(encoding="utf-8"), path.suffix, ()
    for one in all_mistakes():
        yield one.lab, f"{one.lab}_{one.name}", one.source, ".py", one.fails


def prepare(lab_id: str, text: str, suffix: str, fails: tuple[str, ...], folder: Path) -> str:
    """Writes a kernel's module and one launch into a folder; why not, where there is none."""
    from grader.building import BuildOptions, read_by_triton
    from grader.labs import get_lab
    from grader.labs.problems import make_problem
    from grader.model import KernelBundle
    from grader.pipeline.grading import launch_pairs
    from grader.reading import read
    from grader.running.cpu import arrives_zeroed

    lab, source = get_lab(lab_id), folder / f"{lab_id}{suffix}"
    source.write_text(text, encoding="utf-8")
    bundle = read_by_triton(lab, read(source, [lab]).labs[lab_id], BuildOptions((90,), "check", 1))
    if not isinstance(bundle, KernelBundle):
        return str(bundle)
    tails = [case for case in lab.cases if case.M % 16 and case.N % 32 and case.K % 32] or [case for case in lab.cases if case.M % 16]
    cases = {case.name: case for case in ([lab.case(name) for name in fails] or tails)}
    pairs = [pair for pair in launch_pairs(lab, bundle, compiled=False) if pair[0] in cases and pair not in bundle.refused]
    if not pairs:
        return "no launch of a small case"
    name, config = min(pairs, key=lambda pair: (cases[pair[0]].M * cases[pair[0]].N * cases[pair[0]].K, pair[1]))
    problem, launch = make_problem(lab, cases[name], 3), bundle.launches[name, config]
    (folder / "generated.py").write_text(bundle.made.text, encoding="utf-8")
    header = {
        "kernel": bundle.made.kernel, "case": name, "grid": list(launch.grid), "scalars": dict(problem.scalars), "output": lab.output,
        "constants": {**lab.constants, **bundle.configs[config].constants}, "zeroed": arrives_zeroed(lab, bundle.configs[config]),
        "strides": {key: list(tensor.stride()) for key, tensor in problem.tensors.items()},
    }
    (folder / "launch.json").write_text(json.dumps(header), encoding="utf-8")
    np.savez(folder / "tensors.npz", **{key: tensor.numpy() for key, tensor in problem.tensors.items()})
    return ""


def asked(tool: str, folder: Path) -> dict[str, Any]:
    """What a tool says of the launch in the folder: {"lines": {line: words}} or {"error": why it says nothing}."""
    command = [sys.executable, "-m", "tests.triton_viz_table", "--one", tool, str(folder)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {SECONDS:.0f} s"}
    answer = folder / f"{tool}.json"
    if answer.is_file():
        return json.loads(answer.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    ends = [line for line in done.stderr.splitlines() if re.match(r"[\w.]+(Error|Exception|Exit)\b", line)]
    return {"error": (ends or [f"exit status {done.returncode}"])[-1][:300]}


def one(tool: str, folder: Path) -> dict[str, Any]:
    """In a process of its own: the launch, by one of the tools."""
    import torch

    from grader.interpreter.child_process import module_at

    header = json.loads((folder / "launch.json").read_text(encoding="utf-8"))
    module = module_at(folder / "generated.py", "__main__")
    kernel = getattr(module, header["kernel"])
    kernel.fn.__annotations__.update(dict.fromkeys(header["constants"], "constexpr"))
    tensors = {}
    with np.load(folder / "tensors.npz") as held:
        for name, strides in header["strides"].items():
            data = torch.from_numpy(held[name])
            extent = 1 + sum((size - 1) * step for size, step in zip(data.shape, strides, strict=True))
            tensors[name] = torch.zeros(extent, dtype=data.dtype).as_strided(data.shape, strides).copy_(data)
    arguments = {**tensors, **header["scalars"], **header["constants"]}
    if tool == "watched":
        from grader.interpreter.watched_launch import watched_launch

        empty = [] if header["zeroed"] else [header["output"]]
        result = watched_launch(kernel, header["grid"], arguments, empty=empty, seconds=SECONDS)
        return {"lines": _by_line(text.split("generated.py", 1)[1] for text in result.sentences)}
    import triton_viz
    from triton_viz.clients import Sanitizer

    sanitizer = Sanitizer(abort_on_error=False)
    traced = triton_viz.trace(client=sanitizer)(kernel)
    storage = {
        name: tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,))
        for name, tensor in tensors.items()
    }
    traced[tuple(header["grid"])](**{**arguments, **storage})  # it takes contiguous tensors only
    return {"lines": _by_line(_viz_sentence(record) for record in sanitizer.records)}


def _by_line(texts: Any) -> dict[str, str]:
    """The first of the sentences on each line; "" is the launch as a whole."""
    found: dict[str, str] = {}
    for text in texts:
        line, _, words = (
            text.removeprefix(":").partition(": ") if text.startswith(":") and text[1:2].isdigit() else ("", "", text)
        )
        found.setdefault(line, words.removeprefix(": "))
    return found


def _viz_sentence(record: Any) -> str:
    place = next((str(at.lineno) for at in record.user_code_tracebacks if at.filename.endswith("generated.py")), "")
    return f":{place}: {record.op_type.__name__} of {getattr(record, 'tensor_name', None) or 'a tensor'} out of bounds"


def difference(row: dict[str, Any], right: dict[str, Any]) -> str:
    """Why the two say something else of a launch; "same" where they do not, "" where nobody knows. right: the lab's plain style."""
    watched, viz = row["watched"], row["viz"]
    if "error" in watched:
        return ""
    if "error" in viz:
        return next((why for words, why in NO_ANSWER.items() if words in viz["error"]), "")
    reasons = []
    for line, words in watched["lines"].items():
        if line not in viz["lines"]:
            reasons.append(next((why for part, why in NOT_SEEN.items() if part in words), ""))
    accused = {words for line, words in viz["lines"].items() if line not in watched["lines"]}
    if accused:
        reasons.append(FALSE_ALARM if row["right"] or accused <= set(right["viz"].get("lines", {}).values()) else "")
    return "; ".join(dict.fromkeys(reasons)) if all(reasons) and reasons else "" if reasons else "same"


def page(rows: dict[str, dict[str, Any]]) -> str:
    """docs/triton-viz.md: what each says, and why they differ."""
    launched = {name: row for name, row in rows.items() if not row["launch"]}
    answers = [row for row in launched.values() if "error" not in row["viz"]]
    why = {name: difference(row, rows[f"{row['lab']}_plain"]) for name, row in launched.items()}
    same = sum(one == "same" for one in why.values())
    lines = [
        f"{len(launched)} launches, {sum(row['right'] for row in launched.values())} of right kernels; triton-viz comes to an end in "
        f"{len(answers)} of them, and both say the same in {same}.",
        "",
        "| kernel | | watched interpreter | triton-viz | why they differ |",
        "|---|---|---|---|---|",
    ]
    for name, row in launched.items():
        kind = "right" if row["right"] else "wrong"
        lines.append(
            f"| `{name}` | {kind} | {_cell(row['watched'])} | {_cell(row['viz'])} | {why[name].replace('same', '')} |"
        )
    return HEAD + "\n".join(lines) + "\n"


def _cell(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return f"no answer: {answer['error'][:90]}".replace("|", "/")
    return (
        "; ".join(f"{f'line {line}: ' if line else ''}{words.split(';')[0]}" for line, words in answer["lines"].items())
        or "nothing"
    )


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="kernels; all without any")
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("TOOL", "FOLDER"))
    options = parser.parse_args()
    if options.one:
        tool, folder = options.one[0], Path(options.one[1])
        answer = one(tool, folder)
        (folder / f"{tool}.json").write_text(json.dumps(answer), encoding="utf-8")
        return
    if options.page:
        PAGE.write_text(page(json.loads(options.out.read_text(encoding="utf-8"))), encoding="utf-8")
        return
    known = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else {}
    for lab, name, text, suffix, fails in kernels():
        if (options.names and name not in options.names) or name in known:
            continue
        with tempfile.TemporaryDirectory() as place:
            why = prepare(lab, text, suffix, fails, Path(place))
            row = {"lab": lab, "right": not fails, "launch": why}
            if not why:
                row.update({tool: asked(tool, Path(place)) for tool in ("watched", "viz")})
        known[name] = row
        options.out.write_text(json.dumps(known, indent=1), encoding="utf-8")
        print(name, *(_short(row.get(tool)) for tool in ("watched", "viz")), flush=True)


def _short(answer: dict[str, Any] | None) -> str:
    if answer is None:
        return "-"
    return answer["error"] if "error" in answer else f"{len(answer['lines'])} lines"


if __name__ == "__main__":
    main()
