"""The data that travels from a submission to a report: plain dataclasses, one section per stage.

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
    """Constants as JSON, for a request to a sandbox."""
    return {name: {"dtype": value.name} if isinstance(value, Dtype) else value for name, value in constants.items()}


# ---------------------------------------------------------------- read


@dataclass(frozen=True)
class SourceLine:
    """Where a line of a kernel's module came from: file or notebook cell, and its line there.

    name, step: in a notebook, the function that contains the line, or else what its cell is known by, and the step that asks for this
    function (0: none). Students read these instead of a cell's number, which is one thing while the notebook runs and another in the file.
    """

    place: str
    line: int
    name: str = ""
    step: int = 0

    @property
    def holder(self) -> str:
        """What the line is a line of."""
        return f"`{self.name}`{f' (step {self.step})' if self.step else ''}" if self.name else self.place

    def __str__(self) -> str:
        return f"{self.holder}{',' if self.name else ''} line {self.line}"


@dataclass(frozen=True)
class KernelSource:
    """One lab's kernel as source text: only the kernel, its grid, its helpers and constants. profile: whether the student asked for a
    profile on the GPU. note: on a statement that is left out, though it may change what is graded, or ""."""

    lab_id: str
    kernel: str
    grid: str | None
    module: str
    lines: tuple[SourceLine, ...]
    path: Path
    profile: bool = False
    note: str = ""

    def locate(self, module_line: int) -> str:
        """Where a 1-based line of `module` is in the student's file or notebook."""
        if 1 <= module_line <= len(self.lines):
            return str(self.lines[module_line - 1])
        return self.path.name


@dataclass(frozen=True)
class Refusal:
    """Why a lab cannot be built: its status and one clear sentence. path: the file that has the kernel, if one was read. files: the names
    of those that the message is about, if none was."""

    status: LabStatus
    message: str
    path: Path | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Submission:
    """What was handed in: for every requested lab, a kernel's source or the reason why there is none. doubts: those of the notes that
    say which of several kernels was taken, or what could not be read. unread: the names of files of which nothing could, or in which a
    kernel was begun that could not, and why."""

    name: str
    path: Path
    labs: Mapping[str, KernelSource | Refusal]
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)


# ---------------------------------------------------------------- labs


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter; `type` is Triton's: "*fp16", "*i8", "*i32", "*fp32", "int" or "constexpr".

    `sizes`: a pointer's shape in the kernel's own names, such as ("M", "K").
    """

    name: str
    type: str
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One correctness or speed case. M, N, K are the logical sizes; the other fields select a recipe for the lab's inputs.

    `about` finishes the sentence "this case checks ...". `configs` is "one" (the cases take the student's configs in turn, those of one
    specialisation the same), "three": the first, the last and one between, "all", "most": all but those whose tiles are so small that the
    case has many programs, or "few": only those of persistent kernels, perhaps none. Of a hidden case a student learns the verdict, not
    the data. Speed cases set `launches`: how many launches one timed graph holds, each on its own inputs.
    `group_size`: how many neighbours along K share a scale, in labs that have groups; 0 means all K of them.
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
    configs: Literal["one", "three", "few", "most", "all"] = "one"
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
    left: float64 [M, K] and right: float64 [N, K], whose product y is.
    """

    y: torch.Tensor
    bound: torch.Tensor
    frobenius: float
    left: torch.Tensor | None = None
    right: torch.Tensor | None = None


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
        options = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        options |= {"maxnreg": self.maxnreg} if self.maxnreg else {}
        return f"config {self.index} ({', '.join(f'{k}={v}' for k, v in {**self.constants, **options}.items())})"


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
    """What one thread does in one iteration of the main loop (the innermost one with tensor-core instructions), counted in PTX.

    An instruction on two packed fp16 values counts once.
    int_to_float: conversions from integer to float. accumulator_to_float: those of them whose operand comes from the tensor cores.
    int_to_float_outside: such conversions outside the loop.
    float_to_int: conversions from float to integer, and roundings to a whole number.
    float_instructions: floating-point arithmetic and conversions, without the tensor cores' own.
    shared_store_bytes: bytes that ordinary stores write to shared memory. async_copies: cp.async and TMA copies to shared memory.
    products: multiply-adds of the tensor cores, for the whole program.
    """

    divisions: int
    multiplications: int
    accumulator_to_float: int
    int_to_float: int
    int_to_float_outside: int
    float_to_int: int
    float_instructions: int
    shared_store_bytes: int
    async_copies: int
    products: int


@dataclass(frozen=True)
class Binary:
    """One compiled specialisation of one config. loop: None where no loop uses the tensor cores."""

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

    ours: if the kernel is not to blame, what is: the compiler was killed from outside, or the grader itself failed.
    gradable: False where Triton's compiler itself failed and said nothing of the kernel.
    """

    config: int
    capability: int
    message: str
    ours: str = ""
    gradable: bool = True


@dataclass(frozen=True)
class GeneratedModule:
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
    """Everything a runner needs, as data: configs, launches of every case, the generated module, binaries by
    (capability, config, specialisation).

    A launch that cannot be made (its grid is no tuple of positive integers, say) has a sentence in `refused` instead. Where that is no
    fault of the kernel's it is in `ungradable` too: its cases give no points, and a class's pages ask the instructor to look.
    """

    lab_id: str
    configs: tuple[Config, ...]
    launches: Mapping[tuple[str, int], Launch]
    refused: Mapping[tuple[str, int], str]
    made: GeneratedModule
    binaries: Mapping[tuple[int, int, str], Binary] = field(default_factory=dict)
    failures: tuple[BuildFailure, ...] = ()
    ungradable: frozenset[tuple[str, int]] = frozenset()
    lowered: frozenset[int] = frozenset()
    """Configs, by index, that are known from their LLVM IR to compile for the newest capability, whether or not a binary was made."""

    @property
    def working(self) -> tuple[int, ...]:
        """Configs, by index, that compile."""
        return tuple(sorted({config for _, config, _ in self.binaries} | self.lowered))

    def refusal(self, case: str, config: int) -> Outcome | None:
        """What becomes of a launch that cannot be made; None of one that can."""
        if (case, config) not in self.refused:
            return None
        status: OutcomeStatus = "unsupported" if (case, config) in self.ungradable else "refused"
        return Outcome(case, config, status, message=self.refused[case, config])

    def binary(self, case: str, config: int, capability: int) -> Binary | None:
        """The binary that runs `case` with `config` on compute capability `capability` (90 for 9.0)."""
        launch = self.launches.get((case, config))
        return self.binaries.get((capability, config, launch.key)) if launch else None

    def programs(self, case: str, config: int) -> int:
        """How many programs a launch has; 0 where there is none."""
        launch = self.launches.get((case, config))
        return math.prod(launch.grid) if launch else 0


# ---------------------------------------------------------------- run

OutcomeStatus = Literal["ran", "timeout", "crash", "unsupported", "refused", "lost"]
"""lost: the process that ran it was killed from outside several times, so there is no verdict; the kernel is not to blame."""


AccessFault = Literal["beyond", "past", "gap", "outside", "wild", "race", "mixed", "lanes", "thread", "unwritten"]
PromiseFault = Literal["assumed", "multiple", "contiguous", "constant"]


def place_in(grid: tuple[int, int, int], program: int) -> str:
    """A program as a student's program_id calls it: a number, or one for each axis that the grid has."""
    _, height, depth = grid
    axes = (program // (height * depth), program // depth % height, program % depth)
    return str(program) if height * depth == 1 else f"({', '.join(map(str, axes[: 2 + (depth > 1)]))})"


@dataclass(frozen=True)
class MemoryFinding:
    """One line of a kernel with an invalid access, or with a false promise to the compiler, as the interpreter saw it.

    fault of an access:
        beyond      the tile begins inside the tensor and ends past the end of a dimension
        past        the tile begins past the end, or before the tensor
        gap         between the elements of a strided view
        outside     elsewhere outside the tensor
        wild        outside every tensor
        race        an element that another program wrote
        mixed       an ordinary store to an element that other programs add to atomically
        lanes       one store writes different numbers to one element
        thread      another thread of the program stored the element, or loaded it before this store, with no barrier in between
        unwritten   an element of Y that nothing was stored to yet
    fault of a promise: assumed (the condition is false), multiple, contiguous, constant (the value or tile is not).

    index: where the access pointed; of a promise, numbers that break it. offset: the same in elements from the first one; of a
    promise, what was promised. dimension: the one whose end was passed. lanes: how many elements were accessed wrongly.
    steps: distance in elements between neighbours along each axis of the tile, where that is constant. programs: those in a race, as
    `place_in` calls them. callers: the lines of the calls that led to `line`, innermost first. meant: in a race past the end of a row, the
    element that was probably intended. differs: whether the racing stores write different numbers. misled: the tensor outside which an
    index or loop bound had been read before; "" for none.
    """

    kind: Literal["load", "store", "atomic", "promise"]
    fault: AccessFault | PromiseFault
    line: int | None
    tensor: str = ""
    index: tuple[int, ...] = ()
    dimension: int | None = None
    programs: tuple[str, ...] = ()
    lanes: int = 1
    offset: int | None = None
    steps: tuple[int, ...] = ()
    callers: tuple[int, ...] = ()
    meant: tuple[int, ...] = ()
    differs: bool = False
    misled: str = ""

    @property
    def out_of_bounds(self) -> bool:
        """Whether this is an access outside the tensors."""
        return self.kind != "promise" and self.fault not in ("race", "mixed", "lanes", "thread", "unwritten")

    @property
    def promise(self) -> bool:
        """Whether this is a false promise to the compiler: the compiled kernel's behaviour is undefined."""
        return self.kind == "promise"

    @property
    def unordered(self) -> bool:
        """Whether the result depends on which program, or which lane of one store, comes first.

        It does not when all of them store the same number.
        """
        return self.fault in ("mixed", "lanes", "thread") or (
            self.fault == "race" and (self.kind != "store" or self.differs)
        )


NOT_RUN = "not run: "
"""The beginning of the message of a launch that was never made because of earlier ones."""


@dataclass(frozen=True)
class Outcome:
    """The result of one launch of one case, before it is judged.

    y: fp16 [M, N] on the host, if the status is "ran". overrun: tensors whose guard regions were written. changed: inputs that were
    modified.
    From the interpreter only, else None: memory: what its memory check found. written: whether every element of Y was stored to.
    additions: how often atomics added to an element of Y.
    left_open: orders that Triton leaves undefined and that occurred (keys of LEFT_OPEN in grader.judging.checking), each with its line
    of the module. contributions: what each slice of K added (grader.judging.slice_sums). rounded: how often additions rounded an element
    of Y on a GPU (grader.labs.offsets). flow: the recording, if there is one (grader.diagnosis.tape; grader.traffic.accesses).
    printed: what the first program printed.
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
        """Tensors other than `output` that were stored to: those whose contents changed, and those with races between stores."""
        raced = (
            found.tensor
            for found in self.memory or ()
            if found.fault in ("race", "mixed", "lanes") and found.tensor != output
        )
        return tuple(dict.fromkeys((*self.changed, *raced)))


@dataclass(frozen=True)
class SanitizerResult:
    """What compute-sanitizer found in one launch. fault: "" if every access was inside its allocation."""

    case: str
    config: int
    fault: str = ""


@dataclass(frozen=True)
class HotLine:
    """A line of KernelSource.module in a profile.

    share: of all warp samples. reason: the line's most frequent stall reason, by ncu's name; reason_share: of the line's samples.
    shared, sectors: shared-memory cycles and global-memory sectors of its accesses, as multiples of the fewest that their bytes need.
    """

    line: int
    share: float
    reason: str
    reason_share: float
    shared: float = 1.0
    sectors: float = 1.0


@dataclass(frozen=True)
class Profile:
    """The profile of one launch. lines: those with the most warp samples. From the GPU's counters, where they could be read:
    us: duration in microseconds. peaks: achieved share of each peak, by name. warps: active warps per SM, on average."""

    case: str
    config: int
    lines: tuple[HotLine, ...]
    us: float = math.nan
    peaks: Mapping[str, float] = field(default_factory=dict)
    warps: float = math.nan


@dataclass(frozen=True)
class SpeedSample:
    """One timed speed case: per-round log-ratios of the baseline's time to the student's, and further measurements.

    Times are medians per launch in microseconds. bytes_moved, operations: the minimum for one launch; floor_us: the time that these
    bytes take at the device's peak bandwidth. message: why the case was not timed, or a note on the time. gpu_seconds: of all launches
    of the kernel. gpu: the one that timed it, as CUDA_VISIBLE_DEVICES names it.
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
    """How far one element of Y is off, from best to worst."""

    RIGHT = 0
    NEAR = 1
    FAR = 2
    UNWRITTEN = 3


NEAR_BOUNDS = 10.0
"""A wrong element within this many times its bound is NEAR, which suggests rounding rather than a wrong index."""


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """Where one output is wrong, at a resolution small enough to store in a report.

    cells: uint8 [rows, columns] of Verdict; a cell is the worst of step[0] x step[1] elements of Y [M, N].
    counts: elements of Y by Verdict. tile: rows and columns of Y that one program computes, if the config's names tell.
    UNWRITTEN is NaN: the output is filled with NaN before the launch.
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
    """The tile of Y that one program stores: its rows and columns, and a sentence on what is wrong there, or ""."""

    program: str
    rows: tuple[int, int]
    columns: tuple[int, int]
    wrong: str


@dataclass(frozen=True)
class WalkStep:
    """One iteration: the rows and k of X and of W that it multiplies, and a sentence that says so."""

    left: tuple[Runs, Runs]
    right: tuple[Runs, Runs]
    text: str


@dataclass(frozen=True)
class Walk:
    """One program of a small failing launch, iteration by iteration. sizes: M, N, K. at: row and column of its first wrong element."""

    case: str
    program: str
    sizes: tuple[int, int, int]
    at: tuple[int, int]
    tiles: tuple[WalkTile, ...]
    steps: tuple[WalkStep, ...]


@dataclass(frozen=True)
class TestResult:
    """One line of the report. `hidden`: it belongs to a hidden case."""

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
    """One lab's verdict. `gradable_points`: what a kernel can earn on this machine, whatever this one did.

    `facts` has those of one binary per config, built for `facts_capability`. `error_maps` shows the first failing cases.
    `defects`: sentences on failures of the diagnosis itself; no points depend on them.
    `bonus`: the points do not count towards the course's. `remarks`: advice that costs no points.
    `profile`: where the time goes, a text per timed case: a line on the whole launch, then one for each line of the kernel.
    `walk`: the launch that the first reason was found in.
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
    """What kernels ran on, "cuda" or "cpu" (Triton's interpreter), with versions for the record."""

    kind: Literal["cuda", "cpu"]
    name: str
    capability: int | None
    driver: str | None
    torch: str
    triton: str
    sandbox: str


@dataclass(frozen=True)
class Report:
    """The report on one submission. seed: of the inputs. seconds: how long grading took. None where that is secret.

    `points` are those of the course, without bonus labs.
    """

    submission: str
    device: Device
    seed: int | None
    labs: Mapping[str, LabReport]
    notes: tuple[str, ...] = ()
    seconds: float | None = None

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The submission's notes, then the remarks on each lab."""
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
    def limited_here(self) -> bool:
        """Whether every lab has a verdict, and some of the points cannot be earned on this machine."""
        verdicts = all(lab.status != "not_graded" for lab in self.labs.values())
        return verdicts and self.gradable_points < self.max_points

    @property
    def bonus_points(self) -> float:
        return sum(lab.points for lab in self.labs.values() if lab.bonus)

    @property
    def bonus_max(self) -> float:
        return sum(lab.max_points for lab in self.labs.values() if lab.bonus)
