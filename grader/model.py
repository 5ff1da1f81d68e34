"""What travels along the road from a submission to a report: plain dataclasses, one section an arrow.

read -> Submission -> build -> KernelBundle -> run -> Outcome / SpeedSample -> check -> TestResult -> score -> Report
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

LabStatus = Literal["graded", "not_attempted", "build_error", "rejected", "timeout", "crash", "not_graded"]
"""not_graded: the grader came to no verdict, so there are no points to enter, not even 0."""

TestKind = Literal["correctness", "speed", "memory", "build"]
TestStatus = Literal["passed", "failed", "skipped", "error"]


@dataclass(frozen=True)
class Dtype:
    """An element type as the value of a constexpr parameter: `tl.float32`, by the name that Triton prints (fp32)."""

    name: str

    def __str__(self) -> str:
        return self.name


Constant = int | float | bool | str | Dtype | None


def as_data(constants: Mapping[str, Constant]) -> dict[str, Any]:
    """Constants as a sandbox is told them, in JSON."""
    return {name: {"dtype": value.name} if isinstance(value, Dtype) else value for name, value in constants.items()}


# ---------------------------------------------------------------- read


@dataclass(frozen=True)
class SourceLine:
    """Where a line of a kernel's module came from: file or notebook cell, and its line there.

    name, step: in a notebook, what its top-level statement defines, and which step asks for that, 0 for none. A line is called by
    these, since a cell has one number while it runs and another in the file.
    """

    place: str
    line: int
    name: str = ""
    step: int = 0

    def __str__(self) -> str:
        if not self.name:
            return f"{self.place} line {self.line}"
        return f"`{self.name}`{f' (step {self.step})' if self.step else ''}, line {self.line}"


@dataclass(frozen=True)
class KernelSource:
    """One lab's kernel as source text: the kernel, its grid, helpers and constants; nothing else. profile: whether its author asks where
    the time goes."""

    lab_id: str
    kernel: str
    grid: str | None
    module: str
    lines: tuple[SourceLine, ...]
    path: Path
    profile: bool = False

    def locate(self, module_line: int) -> str:
        """The student's place for a 1-based line of `module`."""
        if 1 <= module_line <= len(self.lines):
            return str(self.lines[module_line - 1])
        return self.path.name


@dataclass(frozen=True)
class Refusal:
    """Why a lab cannot be built: its status and one clear sentence."""

    status: LabStatus
    message: str


@dataclass(frozen=True)
class Submission:
    """What was handed in: for every lab asked for, a kernel's source or the reason why there is none."""

    name: str
    path: Path
    labs: Mapping[str, KernelSource | Refusal]
    notes: tuple[str, ...] = ()


# ---------------------------------------------------------------- labs


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter; `type` is Triton's: "*fp16", "*i8", "*i32", "*fp32", "int" or "constexpr".

    `sizes`: a pointer's shape in the words of the kernel, such as ("M", "K").
    """

    name: str
    type: str
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One correctness or speed case. M, N, K are the logical sizes; the other fields pick a recipe of the lab's inputs.

    `about` finishes the sentence "this case checks ...". `configs` is "one" (the cases take the student's configs
    in turn) or "all". Of a hidden case a student learns the verdict, not the data. Speed cases set `launches`: how
    many launches one timed graph holds, each on its own inputs. `group_size`: how many neighbours along K share a
    scale, in labs that have groups; 0 means all K of them.
    """

    name: str
    about: str
    M: int
    N: int
    K: int
    x: str = "normal"
    w: str = "normal"
    x_layout: str = "contiguous"
    y_layout: str = "contiguous"
    configs: Literal["one", "all"] = "one"
    launches: int = 0
    hidden: bool = False
    group_size: int = 0

    @property
    def kind(self) -> TestKind:
        return "speed" if self.launches else "correctness"


@dataclass(frozen=True)
class Problem:
    """A case made concrete: a tensor for each pointer parameter (strided views allowed), an int for each scalar.

    `tensors["y_ptr"]` gives shape, dtype, strides and device of the output; its contents mean nothing.
    """

    tensors: Mapping[str, torch.Tensor]
    scalars: Mapping[str, int]


@dataclass(frozen=True)
class Reference:
    """The fp64 answer for a problem and how far from it a right kernel may be.

    y: float64 [M, N]. bound: float64 [M, N], elementwise, absolute. frobenius: bound on ||y - y*|| / ||y*||.
    """

    y: torch.Tensor
    bound: torch.Tensor
    frobenius: float


# ---------------------------------------------------------------- build


@dataclass(frozen=True)
class Config:
    """One autotune config as data. `constants` holds every constexpr parameter except heuristics' values."""

    index: int
    constants: Mapping[str, Constant]
    num_warps: int
    num_stages: int
    maxnreg: int | None = None

    @property
    def split_k(self) -> int:
        value = self.constants.get("SPLIT_K", 1)
        return value if isinstance(value, int) and value > 1 else 1

    def __str__(self) -> str:
        sizes = ", ".join(f"{k}={v}" for k, v in self.constants.items())
        registers = f", maxnreg={self.maxnreg}" if self.maxnreg else ""
        return f"config {self.index} ({sizes}, num_warps={self.num_warps}, num_stages={self.num_stages}{registers})"


@dataclass(frozen=True)
class Launch:
    """How one case is launched with one config: grid, heuristics' values and the specialisation of its integers.

    `signature` maps the non-constexpr parameters that reach the binary to Triton types; `divisible` names those
    that are multiples of 16 (for pointers: 16-byte aligned); `folded` holds integers equal to 1 and heuristics'
    values, which Triton compiles in as constants.
    """

    grid: tuple[int, int, int]
    signature: tuple[tuple[str, str], ...]
    divisible: tuple[str, ...]
    folded: tuple[tuple[str, Constant], ...]

    @property
    def key(self) -> str:
        """Equal for launches that can share one binary."""
        return repr((self.signature, self.divisible, self.folded))


@dataclass(frozen=True)
class BuildFacts:
    """What a kernel author wants to know about one binary. Sizes in bytes per thread (spills) or per program."""

    registers: int
    spill_bytes: int
    shared_bytes: int
    matrix_instruction: Literal["wgmma", "mma.sync", "tcgen05", "none"]
    int8_matrix: bool
    widest_load_bytes: int
    programs_per_sm: int
    warps_per_sm: int


@dataclass(frozen=True)
class LoopFacts:
    """What one thread does in one iteration of the innermost loop that multiplies, counted in PTX.

    An instruction on two fp16 values at once counts once. to_float: an integer turned into a float, sums_to_float: one
    from the matrix units; to_float_outside: any, outside the loop. to_integer: a float turned into an integer, or rounded to a whole
    number. float_instructions: all arithmetic on floats and conversions of them, products of
    the matrix units left out. shared_store_bytes: written to shared memory by ordinary stores. async_copies: copies
    from global to shared memory that run ahead. products: multiply-adds of the matrix units, of the whole program.
    """

    divisions: int
    multiplications: int
    sums_to_float: int
    to_float: int
    to_float_outside: int
    to_integer: int
    float_instructions: int
    shared_store_bytes: int
    async_copies: int
    products: int


@dataclass(frozen=True)
class Binary:
    """One compiled specialisation of one config. loop: None where no loop multiplies on the matrix units."""

    config: int
    capability: int
    cubin: bytes
    entry: str
    num_warps: int
    shared_bytes: int
    scratch_bytes_per_program: int
    parameters: tuple[str, ...]
    facts: BuildFacts
    loop: LoopFacts | None = None


@dataclass(frozen=True)
class BuildFailure:
    """One config that does not compile: the sentence says which and why.

    ours: why that is no fault of the kernel's: the compiler was ended from outside, or the grader itself failed.
    """

    config: int
    capability: int
    message: str
    ours: str = ""


@dataclass(frozen=True)
class MadeModule:
    """The module that is compiled and interpreted: jit functions of the submission's text and constants, written by the grader.

    `lines` holds for each line of `text` the 1-based line of KernelSource.module that it was taken from, 0 for our own.
    """

    text: str
    kernel: str
    lines: tuple[int, ...]

    def origin(self, line: int) -> int | None:
        """The line of KernelSource.module that a 1-based line of `text` was taken from; None for a line of our own."""
        return (self.lines[line - 1] or None) if 1 <= line <= len(self.lines) else None


@dataclass(frozen=True)
class KernelBundle:
    """Everything a runner needs, as data: configs, launches of every case, the module that was made, binaries by
    (capability, config, specialisation).

    A launch that cannot be made (a grid that is not a grid) has a sentence in `refused` instead.
    """

    lab_id: str
    configs: tuple[Config, ...]
    launches: Mapping[tuple[str, int], Launch]
    refused: Mapping[tuple[str, int], str]
    made: MadeModule
    binaries: Mapping[tuple[int, int, str], Binary] = field(default_factory=dict)
    failures: tuple[BuildFailure, ...] = ()
    lowered: frozenset[int] = frozenset()
    """Configs, by index, that compile for the newest capability as LLVM IR tells it, with a binary or without."""

    @property
    def working(self) -> tuple[int, ...]:
        """Configs, by index, that compile."""
        return tuple(sorted({config for _, config, _ in self.binaries} | self.lowered))

    def binary(self, case: str, config: int, capability: int) -> Binary | None:
        """The binary that runs `case` with `config` on compute capability `capability` (90 for 9.0)."""
        launch = self.launches.get((case, config))
        return self.binaries.get((capability, config, launch.key)) if launch else None


# ---------------------------------------------------------------- run

OutcomeStatus = Literal["ran", "timeout", "crash", "unsupported", "refused", "lost"]
"""lost: what ran it was ended from outside, again and again; nobody's doing, and no verdict."""


@dataclass(frozen=True)
class MemoryFinding:
    """One line of a kernel that touched memory it may not, or promised what is not so, as the interpreter saw it.

    kind: "load", "store", "atomic" or "promise". fault: "beyond" (the end of a tile that begins inside lies past a dimension's end),
    "past" (the tile begins there, or before the tensor), "gap" (between the elements of a strided view), "outside" (elsewhere), "wild"
    (outside every tensor), "race" (an element that another program wrote), "mixed" (a store to one that others add to), "lanes" (an element
    to which one store brings different numbers), "thread" (an element that another thread of the program stored, or loaded before this
    store, and no barrier since), "unwritten" (an element of Y that holds nothing yet). `index` is where the access pointed, `offset` the
    same in elements from the first, `dimension` the one whose end was passed, `steps` the elements by which the tile moves along its
    axes, where that is even, `programs` the linear program ids of a race; `lanes` counts the accesses. `callers`: the lines of the calls
    that led to `line`, the innermost first. `meant`: of a race beyond the end of a row, where the element was to go. `differs`: of a race
    between stores, that they bring different numbers. `misled`: the tensor outside which an index or bound had been read before, "" for
    none.

    Of a promise to the compiler, fault is "assumed" (a condition that is false), "multiple", "contiguous" or "constant" (a number or
    tile that is not); `offset` is what was promised, and `index` holds numbers that break it.
    """

    kind: Literal["load", "store", "atomic", "promise"]
    fault: Literal[
        "beyond",
        "past",
        "gap",
        "outside",
        "wild",
        "race",
        "mixed",
        "lanes",
        "thread",
        "unwritten",
        "assumed",
        "multiple",
        "contiguous",
        "constant",
    ]
    line: int | None
    tensor: str = ""
    index: tuple[int, ...] = ()
    dimension: int | None = None
    programs: tuple[int, ...] = ()
    lanes: int = 1
    offset: int | None = None
    steps: tuple[int, ...] = ()
    callers: tuple[int, ...] = ()
    meant: tuple[int, ...] = ()
    differs: bool = False
    misled: str = ""

    @property
    def out_of_bounds(self) -> bool:
        """Whether it is about an access outside the tensors, whose place is certain."""
        return self.kind != "promise" and self.fault not in ("race", "mixed", "lanes", "thread", "unwritten")

    @property
    def promise(self) -> bool:
        """Whether the compiler was told what is not so: then what the compiled kernel does is undefined."""
        return self.kind == "promise"

    @property
    def unordered(self) -> bool:
        """Whether what the kernel computes depends on which program comes first, or which lane of one store: one reads, adds to or
        changes what another stores.

        Two stores of the same number do not.
        """
        return self.fault in ("mixed", "lanes", "thread") or (
            self.fault == "race" and (self.kind != "store" or self.differs)
        )


NOT_RUN = "not run: "
"""How the message of a launch begins that was never made, because of others before it."""


@dataclass(frozen=True)
class Outcome:
    """One launch of one case, judged by nobody yet. `y` is on the host, [M, N] fp16, when the status is "ran".

    `overrun` names tensors whose guard regions were written, `changed` inputs that were modified; `memory` is what
    the interpreter's memory checker found, `written` whether each element of Y was stored to, `additions` how often atomics
    added to an element of it; all are None where there is no checker. `left_open`: which orders Triton leaves open in it, as
    grader.judging.checking names them, and the line of the module's text. `contributions`: what each slice added to it, see
    grader.judging.slice_sums; `rounded`: how often additions rounded an element of it on a GPU, see grader.labs.offsets.
    `flow`: the record of a launch that was recorded, see grader.diagnosis.tape, or its accesses, see
    grader.traffic.accesses. `printed`: lines that its first program printed, where its prints were kept.
    """

    case: str
    config: int
    status: OutcomeStatus
    y: torch.Tensor | None = None
    overrun: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    memory: tuple[MemoryFinding, ...] | None = None
    written: bool | None = None
    additions: int | None = None
    left_open: tuple[tuple[str, int | None], ...] = ()
    contributions: bytes = b""
    rounded: float | None = None
    message: str = ""
    seconds: float = 0.0
    flow: bytes = b""
    printed: tuple[str, ...] = ()

    @property
    def not_run(self) -> bool:
        """Whether the launch was never made."""
        return self.message.startswith(NOT_RUN)

    def stored_inputs(self, output: str) -> tuple[str, ...]:
        """Tensors besides `output` that were stored to: those that changed, and those that programs wrote at odds with others."""
        raced = (
            found.tensor
            for found in self.memory or ()
            if found.fault in ("race", "mixed", "lanes") and found.tensor != output
        )
        return tuple(dict.fromkeys((*self.changed, *raced)))


@dataclass(frozen=True)
class ToolWatch:
    """What a tool on the GPU saw of the accesses of one launch: "" where all were in their allocations, else what was not."""

    case: str
    config: int
    fault: str = ""


@dataclass(frozen=True)
class HotLine:
    """A line of KernelSource.module at which warps were met, in a share of all samples. reason: why they did not go on, most often, as
    ncu calls it, and in which share of its samples. shared, sectors: how many times as many cycles of shared memory, or sectors of
    global memory, its accesses take as their bytes need."""

    line: int
    share: float
    reason: str
    reason_share: float
    shared: float = 1.0
    sectors: float = 1.0


@dataclass(frozen=True)
class Profile:
    """What is known of one launch: the lines where its warps were met most often, and by the GPU's counters, where those were read,
    microseconds, shares of what the GPU can do by name, and warps on an SM on average."""

    case: str
    config: int
    lines: tuple[HotLine, ...]
    us: float = math.nan
    peaks: Mapping[str, float] = field(default_factory=dict)
    warps: float = math.nan


@dataclass(frozen=True)
class SpeedSample:
    """One speed case, timed: per-round log-ratios of baseline to student, and what was seen on the way.

    Times are medians per launch in microseconds; `bytes_moved` and `operations` are the fewest that one launch can
    make do with, and `floor_us` is the time those bytes take at the device's peak bandwidth.
    `message`: why it was not timed, or a note beside the time. `gpu_seconds`: what the kernel's launches took in all. `gpu`: which one
    timed it, as CUDA_VISIBLE_DEVICES names it.
    """

    case: str
    config: int | None
    status: Literal["timed", "failed", "error"]
    log_ratios: tuple[float, ...] = ()
    control_log_ratios: tuple[float, ...] = ()
    student_us: float = 0.0
    baseline_us: float = 0.0
    floor_us: float = 0.0
    bytes_moved: int = 0
    operations: int = 0
    config_us: Mapping[int, float] = field(default_factory=dict)
    message: str = ""
    gpu_seconds: float = 0.0
    gpu: str = ""


# ---------------------------------------------------------------- check, score, report


class Verdict(IntEnum):
    """What became of one element of Y, from best to worst."""

    RIGHT = 0
    NEAR = 1
    FAR = 2
    UNWRITTEN = 3


NEAR_BOUNDS = 10.0
"""A wrong element within this many times its bound is NEAR: that smells of rounding, not of a wrong index."""


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """Where one output is wrong, small enough to keep beside a verdict.

    cells: uint8 [rows, columns] of Verdict; a cell is the worst of step[0] x step[1] elements of Y [M, N].
    counts: elements of Y by Verdict. tile: rows and columns of Y that one program makes, where the config tells.
    UNWRITTEN is NaN: the output starts as NaN, so that is what an element nobody wrote still is.
    """

    case: str
    config: int
    M: int
    N: int
    step: tuple[int, int]
    cells: np.ndarray[Any, np.dtype[np.uint8]]
    counts: tuple[int, int, int, int]
    tile: tuple[int, int] | None = None

    @property
    def wrong(self) -> int:
        """How many elements of Y are wrong."""
        return sum(self.counts) - self.counts[Verdict.RIGHT]


Runs = tuple[tuple[int, int], ...]
"""Indices along one dimension, as ranges (first, end)."""


@dataclass(frozen=True)
class WalkTile:
    """What one program stores to Y: its rows and columns, and in words what is wrong there, "" where nothing is."""

    program: str
    rows: tuple[int, int]
    columns: tuple[int, int]
    wrong: str


@dataclass(frozen=True)
class WalkStep:
    """One iteration: rows and k of X, rows and k of W that it multiplies, and that in words."""

    left: tuple[Runs, Runs]
    right: tuple[Runs, Runs]
    text: str


@dataclass(frozen=True)
class Walk:
    """A program of a small failing launch, iteration by iteration. sizes: M, N and K; at: row and column of its first wrong element."""

    case: str
    program: str
    sizes: tuple[int, int, int]
    at: tuple[int, int]
    tiles: tuple[WalkTile, ...]
    steps: tuple[WalkStep, ...]


@dataclass(frozen=True)
class TestResult:
    """One line of the report. `hidden`: of a case whose data stays with the instructor."""

    __test__ = False

    name: str
    kind: TestKind
    status: TestStatus
    points: float
    max_points: float
    message: str
    diagnosis: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    hidden: bool = False


@dataclass(frozen=True)
class LabReport:
    """One lab's verdict. `gradable_points`: what could have been earned on this machine.

    `facts` holds one binary a config, built for `facts_capability`. `error_maps` shows the first failing cases.
    `defects`: where the grader itself failed to find reasons, in sentences; no points depend on them.
    `bonus`: the points stand apart from those of the course. `remarks`: what costs no points and is worth knowing.
    `profile`: where the time goes, a text a timed case: a line of the whole, then one for each line of the kernel.
    `walk`: the launch from which the first reason was read.
    """

    lab_id: str
    title: str
    status: LabStatus
    message: str
    tests: tuple[TestResult, ...]
    correctness_points: float
    correctness_max: float
    speed_status: str
    speed_points: float
    speed_max: float
    gradable_points: float
    configs: tuple[Config, ...] = ()
    facts: Mapping[int, BuildFacts] = field(default_factory=dict)
    facts_capability: int | None = None
    error_maps: tuple[ErrorMap, ...] = ()
    source: KernelSource | None = None
    defects: tuple[str, ...] = ()
    bonus: bool = False
    remarks: tuple[str, ...] = ()
    profile: tuple[str, ...] = ()
    walk: Walk | None = None

    @property
    def points(self) -> float:
        return self.correctness_points + self.speed_points

    @property
    def max_points(self) -> float:
        return self.correctness_max + self.speed_max


@dataclass(frozen=True)
class Device:
    """What graded: "cuda" or "cpu" (Triton's interpreter), with versions for the record."""

    kind: Literal["cuda", "cpu"]
    name: str
    capability: int | None
    driver: str | None
    torch: str
    triton: str
    sandbox: str


@dataclass(frozen=True)
class Report:
    """The answer to one submission. `seed` of the inputs and `seconds` it took; None where they are a secret.

    Points are those of the course; what bonus labs earned stands apart.
    """

    submission: str
    device: Device
    seed: int | None
    labs: Mapping[str, LabReport]
    notes: tuple[str, ...] = ()
    seconds: float | None = None

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Those of the submission, then what is remarked of each lab."""
        return (*self.notes, *(remark for lab in self.labs.values() for remark in lab.remarks))

    @property
    def points(self) -> float:
        return sum(lab.points for lab in self.labs.values() if not lab.bonus)

    @property
    def max_points(self) -> float:
        return sum(lab.max_points for lab in self.labs.values() if not lab.bonus)

    @property
    def gradable_points(self) -> float:
        return sum(lab.gradable_points for lab in self.labs.values() if not lab.bonus)

    @property
    def bonus_points(self) -> float:
        return sum(lab.points for lab in self.labs.values() if lab.bonus)

    @property
    def bonus_max(self) -> float:
        return sum(lab.max_points for lab in self.labs.values() if lab.bonus)
