"""What a notebook says of the benchmark's record: numbers, a table of the ladder's times, and those of one step towards speed.

In a text cell `@ladder LAB: SHAPE ...` brings a table of the ladder's times, and `@speed LAB: STEP` what is to be predicted in a step
towards speed and what the ladder's times say of it. A Chinese cell has the words that these take from the code otherwise:
`@speed LAB: STEP | QUESTION`, and below `@ladder` a line `| IDEA` for each step but the last.
`@bench{EXPRESSION:FORMAT}` becomes a number of the record in any cell: `bytes_per_second` and `fp16_per_second` of its GPU,
`time_us(LAB, SHAPE)`, `cublas_us(LAB, SHAPE)` and `ratio(LAB, SHAPE)` of the solution (of another contestant: its name as a third
argument), or arithmetic on them. It is evaluated as Python: sources are the repository's own, like any of its modules.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from grader.judging.points import speed_points
from grader.judging.rubric import load_rubric, rung_of
from grader.labs import speed_steps_of
from grader.labs.speed_step import SpeedStep
from grader.reporting.benchmarks import SHOWN, Entry, Record, load
from grader.unusable import Unusable

Language = Literal["en", "zh"]
SPEED = re.compile(r"^@speed (?P<lab>\w+): (?P<step>\w+)(?: \| (?P<question>.+))?$", re.MULTILINE)
LADDER = re.compile(r"^@ladder (?P<lab>\w+): (?P<shapes>.+)(?P<ideas>(?:\n\| .+)*)$", re.MULTILINE)
BENCH = re.compile(r"@bench\{(?P<expression>[^:{}]+):(?P<format>[.\w]+)\}")


def with_measurements(text: str, root: Path, name: str, language: Language) -> str:
    """The text of a cell in its language, with what it takes from the record. Raises Unusable."""

    def ladder(match: re.Match[str]) -> str:
        ideas = [line.removeprefix("| ") for line in match["ideas"].splitlines() if line]
        return ladder_table(root, match["lab"], match["shapes"].split(), language, ideas)

    text = LADDER.sub(ladder, text)
    text = SPEED.sub(
        lambda match: speed_text(root, match["lab"], match["step"], name, match["question"], language), text
    )
    return _worked_out(text, root, name)


def _worked_out(text: str, root: Path, name: str) -> str:
    """The text with its `@bench{...}` worked out from the benchmark's record."""
    if "@bench{" not in text:
        return text
    record = load(root / SHOWN)
    known = {
        "bytes_per_second": record.bytes_per_second,
        "fp16_per_second": record.fp16_per_second,
        "log": math.log,
        "time_us": lambda *which: _entry(record, *which).time_us,
        "cublas_us": lambda *which: _entry(record, *which).cublas_us,
        "ratio": lambda *which: _entry(record, *which).ratio,
    }

    def number(match: re.Match[str]) -> str:
        try:
            return format(eval(match["expression"], {"__builtins__": {}}, known), match["format"])
        except (NameError, TypeError, ValueError, SyntaxError, Unusable) as error:
            raise Unusable(
                f"{name} has {match[0]}, which cannot be worked out ({error!r}); see the record's entries"
            ) from None

    return BENCH.sub(number, text)


def _entry(record: Record, lab_id: str, shape: str, contestant: str = "solution") -> Entry:
    """The time of a contestant on a shape. Raises Unusable where there is none."""
    for one in record.timed(lab_id):
        if (one.contestant, one.shape) == (contestant, shape):
            return one
    raise Unusable(f"{SHOWN} has no time of {contestant} on {shape}; run `make bench` on its GPU")


def ladder_table(
    root: Path, lab_id: str, shapes: list[str], language: Language = "en", ideas: Sequence[str] = ()
) -> str:
    """The benchmark's times of a lab's ladder as a table in Markdown, with the GPU and versions they hold for.

    ideas: what each step but the last does, where the language is not that of the steps' docstrings. Raises Unusable when the
    benchmark's record cannot be read or lacks one of the times, or the ideas are not as many as the steps.
    """
    record = load(root / SHOWN)
    folder = root / "solutions" / "ladder"
    steps = [(f"ladder/{path.stem}", path) for path in sorted(folder.glob(f"{lab_id}_*.py"))]
    steps.append(("solution", root / "solutions" / f"{lab_id}.py"))
    if language != "en" and len(ideas) != len(steps) - 1:
        raise Unusable(
            f"@ladder {lab_id} has {len(ideas)} lines `| IDEA` in {language}, expected {len(steps) - 1}: one for each step"
        )
    words = LADDER_WORDS[language]
    last = [_entry(record, lab_id, shape) for shape in shapes]
    head = " | ".join(_shape(entry, language) for entry in last)
    points = speed_points(record.gpu, lab_id)
    rows = [
        f"| | {words['changes']} | {head} | {words['points'].format(load_rubric().speed)} |",
        "|---|---|" + "---:|" * (len(shapes) + 1),
    ]
    for number, (name, path) in enumerate(steps, start=1):
        idea = words["last"] if path.parent != folder else _idea(path) if language == "en" else ideas[number - 1]
        entries = [_entry(record, lab_id, shape, name) for shape in shapes]
        cells = [f"{entry.time_us:.1f} ({entry.ratio:.2f})" for entry in entries]
        cells.append(f"{points[rung]:.0f}" if (rung := rung_of(path)) in points else "–")
        rows.append(f"| {number} | {idea} | " + " | ".join(cells) + " |")
    rows.append(f"| | {words['cublas']} | " + " | ".join(f"{entry.cublas_us:.1f}" for entry in last) + " | |")
    versions = f"{record.gpu}, torch {record.versions['torch']}, triton {record.versions['triton']}, {record.date}"
    return "\n".join([*rows, "", words["legend"].format(versions)])


LADDER_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "changes": "what changes",
        "points": "points of {:.0f}",
        "last": "the last step, yours to find",
        "cublas": "cuBLAS, dense fp16",
        "tokens": "{} tokens",
        "token": "{} token",
        "sparsity": "{}, sparsity {}",
        "legend": "*Microseconds a launch and, in brackets, how many times as fast as cuBLAS fp16 in the same race; the time of "
        "cuBLAS itself moves by 5 % from race to race, and the last row is that of the last step's. Points for speed are those that "
        "each step's own kernel earns there; a step with – is hardly faster than those before it and has no points of its own. {}.*",
    },
    "zh": {
        "changes": "改动",
        "points": "速度分（满分 {:.0f}）",
        "last": "最后一步，留给你来找",
        "cublas": "cuBLAS，稠密 fp16",
        "tokens": "{} 个 token",
        "token": "{} 个 token",
        "sparsity": "{}，稀疏度 {}",
        "legend": "每次启动的微秒数；括号内是同一轮计时中相对 cuBLAS fp16 的倍数。"
        "cuBLAS 自身的时间在各轮之间浮动 5 %，最后一行取自最后一步那一轮。速度分是每一步自己的 kernel 在这块 GPU 上得到的分数；"
        "标 – 的步骤几乎没有变快，没有单独的分数。{}。",
    },
}


def _shape(entry: Entry, language: Language) -> str:
    words = LADDER_WORDS[language]
    text = words["tokens" if entry.M != 1 else "token"].format(entry.M)
    return text if entry.sparsity is None else words["sparsity"].format(text, entry.sparsity)


SPEED_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "predict": "**Predict:** {}",
        "unmeasured": "*The table's times before and after this step were not measured yet.*",
        "times": "*The table's times before and after this step{others}{last}, on an {gpu}: {parts}.*",
        "others": " together with {}",
        "and": " and ",
        "last": ", where the last row also includes other changes",
        "part": "{shape}: {before:.1f} to {after:.1f} us",
        "join": "; ",
    },
    "zh": {
        "predict": "**预测：** {}",
        "unmeasured": "这一步前后的时间还没有测过。",
        "times": "表中的时间（{gpu}），这一步{others}之前和之后{last}：{parts}。",
        "others": "（连同 {}）",
        "and": " 和 ",
        "last": "，还包括表格最后一行的其他改动",
        "part": "{shape}，从 {before:.1f} us 到 {after:.1f} us",
        "join": "；",
    },
}


def speed_text(
    root: Path, lab_id: str, step_name: str, name: str, question: str | None = None, language: Language = "en"
) -> str:
    """What to predict in a step towards speed, and the times before and after it in the benchmark's record, in Markdown.

    question: what is asked, where the language is not the step's own. A lab whose ladder was never raced has no times, and the text
    says so. Raises Unusable when there is no such step, when the question is missing, and when the record cannot be read or lacks
    a time of a ladder that it has.
    """
    step = speed_steps_of(lab_id).get(step_name)
    if step is None:
        raise Unusable(
            f"{name} names the step {step_name} of {lab_id}, which grader/labs/{lab_id}/speed_steps.py does not have"
        )
    if language != "en" and question is None:
        raise Unusable(
            f"{name} asks nothing in {language}; write @speed {lab_id}: {step_name} | and the question behind it"
        )
    asked = SPEED_WORDS[language]["predict"].format(step.question if language == "en" else question)
    return f"{asked}\n\n{_times_of(root, lab_id, step, language)}"


def _times_of(root: Path, lab_id: str, step: SpeedStep, language: Language) -> str:
    """The times before and after a step towards speed, in a sentence. Raises Unusable where the record lacks one of them."""
    words, record = SPEED_WORDS[language], load(root / SHOWN)
    if not record.timed(lab_id, "ladder"):
        return words["unmeasured"]
    rungs = [rung if rung == "solution" else f"ladder/{rung}" for rung in step.rungs]
    parts = []
    for shape in step.shapes:
        before, after = (_entry(record, lab_id, shape, rung) for rung in rungs)
        parts.append(words["part"].format(shape=_shape(after, language), before=before.time_us, after=after.time_us))
    same = [
        f"`{other.name}`"
        for other in speed_steps_of(lab_id).values()
        if other.rungs == step.rungs and other is not step
    ]
    return words["times"].format(
        others=words["others"].format(words["and"].join(same)) if same else "",
        last=words["last"] if rungs[1] == "solution" else "",
        gpu=record.gpu,
        parts=words["join"].join(parts),
    )


def _idea(path: Path) -> str:
    """What a step of the ladder does: its docstring's first sentence, without lab and number."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    found = re.match(r"\w+, step \d+: (.+?)\.?$", text.splitlines()[0] if text else "")
    if found is None:
        raise Unusable(f"{path.name} does not begin with `LAB, step N: what it does.`; let its docstring say it")
    return found[1]
