"""count_traffic: a kernel, a case and a config -> what its launch does to memory, counted on Triton's interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from grader.building import BuildOptions, describe
from grader.judging.checking import check
from grader.judging.memory_sentences import sentences
from grader.labs import Lab
from grader.labs.problems import make_problem
from grader.model import Case, Config, KernelBundle, KernelSource, Outcome, Problem, Refusal
from grader.running.cpu import InterpretOptions, interpret
from grader.traffic.accesses import Access, parse
from grader.traffic.caching import AS_LAUNCHED, Cache, CacheReplay, Missed, Order
from grader.traffic.cases import sized_case, tiled_case
from grader.traffic.coalescing import Coalescing, coalesce
from grader.traffic.counting import ProgramTraffic, TensorLayout, TensorTraffic, count_programs, count_tensor, layout_of

SEED = 1
MOST_ELEMENTS = 1 << 21
"""M N, M K or N K of a case may be this large."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """What one launch does to memory.

    grid: programs along each axis. output: the tensor that is written. layouts, tensors: by the name of the pointer, in the
    order of the kernel's parameters. programs: in the order in which a GPU starts them. accesses: program after program. wrong:
    what is wrong with the output, "" when nothing; then the numbers are those of a kernel that does not do its work.
    """

    lab_id: str
    case: Case
    config: Config
    grid: tuple[int, int, int]
    output: str
    layouts: Mapping[str, TensorLayout]
    tensors: Mapping[str, TensorTraffic]
    programs: tuple[ProgramTraffic, ...]
    accesses: tuple[Access, ...]
    wrong: str = ""
    lines: Mapping[int, str] = field(default_factory=dict)

    @property
    def requested(self) -> int:
        """Bytes that all lanes of all loads asked for."""
        return sum(tensor.loaded for tensor in self.tensors.values())

    @property
    def distinct(self) -> int:
        """Bytes of all elements that were loaded, each once: what must come from DRAM at least."""
        return sum(tensor.distinct_loaded for tensor in self.tensors.values())

    @cached_property
    def _replay(self) -> CacheReplay:
        vectors = [layout.name for layout in self.layouts.values() if len(layout.shape) < 2]
        return CacheReplay(self.accesses, self.programs, vectors)

    def missed(self, cache: Cache, order: Order = AS_LAUNCHED, repeats: int = 1) -> Missed:
        """What misses in L2 when the programs run in this order and K is `repeats` times as long; see grader.traffic.caching."""
        return self._replay.missed(cache, order, repeats)

    @cached_property
    def coalescing(self) -> tuple[Coalescing, ...]:
        """For each line that loads, stores or adds to a tensor the access with the most active lanes, in the order of lines."""
        best: dict[tuple[int, str, str, tuple[int, ...]], Access] = {}
        for access in self.accesses:
            key = (access.line, access.kind, access.tensor, access.offsets.shape)
            if key not in best or access.active.size > best[key].active.size:
                best[key] = access
        return tuple(coalesce(best[key], self.config.num_warps) for key in sorted(best))


def uncounted(message: str) -> Refusal:
    """Why there is nothing to count."""
    return Refusal("not_graded", message)


def describe_case(lab: Lab, source: KernelSource, case: Case, options: BuildOptions) -> KernelBundle | Refusal:
    """The bundle of one case, of the lab or made up, for `count_traffic`; nothing is compiled."""
    return describe(only(lab, case), source, options)


def only(lab: Lab, case: Case) -> Lab:
    """The lab with a single case."""
    return replace(lab, cases=(case,), speed_cases=())


def count_tiles(
    lab: Lab,
    source: KernelSource,
    options: InterpretOptions,
    *,
    config: int = 0,
    sizes: tuple[int, int, int] | None = None,
    tiles: tuple[int, int] = (4, 4),
    steps: int = 2,
) -> Traffic | Refusal:
    """The traffic of a kernel on these M, N, K, or else on so many tiles of the config and steps along K."""
    build = BuildOptions((90,), "check", 1, options.confined, options.start)
    known = describe_case(lab, source, lab.cases[0], build)
    if isinstance(known, Refusal):
        return known
    if not 0 <= config < len(known.configs):
        return uncounted(f"there is no config {config}; CONFIGS has {len(known.configs)}, counted from 0")
    case = sized_case(lab, sizes) if sizes else tiled_case(lab, known.configs[config], tiles, steps)
    bundle = describe_case(lab, source, case, build)
    if isinstance(bundle, Refusal):
        return bundle
    return count_traffic(lab, source, bundle, case, config, options)


def count_traffic(
    lab: Lab,
    source: KernelSource,
    bundle: KernelBundle,
    case: Case,
    config: int,
    options: InterpretOptions,
) -> Traffic | Refusal:
    """What the launch of `case` with the bundle's config number `config` does to memory.

    bundle: described for that case at least (`describe_case`, or the one that a grading made). A kernel that fails, does not
    finish, goes outside its tensors or asks for more than 8 M elements is refused; one whose output is wrong is
    counted, and Traffic.wrong says what is wrong.
    """
    lab = only(lab, case)
    if not 0 <= config < len(bundle.configs):
        return uncounted(f"there is no config {config}; CONFIGS has {len(bundle.configs)}, counted from 0")
    if (case.name, config) in bundle.refused:
        return uncounted(bundle.refused[case.name, config])
    largest = max(case.M * case.N, case.M * case.K, case.N * case.K)
    if largest > MOST_ELEMENTS:
        return uncounted(
            f"M = {case.M}, N = {case.N}, K = {case.K} is too large to count access by access: a matrix has {largest} "
            f"elements; use sizes for which none has more than {MOST_ELEMENTS}"
        )
    problem = make_problem(lab, case, SEED)
    (outcome,) = interpret(
        lab, source, bundle, {case.name: problem}, [(case.name, config)], replace(options, accesses=True)
    )
    beyond = tuple(finding for finding in outcome.memory or () if finding.out_of_bounds)
    outside = sentences(lab, source, {case.name: problem}, [replace(outcome, memory=beyond)])
    if outside:
        return uncounted(f"it accesses memory outside its tensors, so the traffic cannot be counted: {outside[0]}")
    if outcome.status != "ran":
        return uncounted(outcome.message)
    try:
        return _counted(lab, source, bundle, problem, outcome)
    except ValueError as error:
        return uncounted(f"the log of its accesses cannot be read ({error})")


def _counted(lab: Lab, source: KernelSource, bundle: KernelBundle, problem: Problem, outcome: Outcome) -> Traffic:
    grid = bundle.launches[outcome.case, outcome.config].grid
    pointers = [parameter for parameter in lab.parameters if parameter.name in problem.tensors]
    layouts = {
        pointer.name: layout_of(pointer.name, pointer.sizes, problem.tensors[pointer.name]) for pointer in pointers
    }
    accesses = parse(outcome.flow, [(layout.name, layout.extent) for layout in layouts.values()], grid)
    finding = check(lab, problem, outcome, bundle)
    by_tensor: dict[str, list[Access]] = {name: [] for name in layouts}
    for access in accesses:
        by_tensor[access.tensor].append(access)
    origins = {line: bundle.made.origin(line) for line in {access.line for access in accesses}}
    return Traffic(
        lab.id,
        lab.case(outcome.case),
        bundle.configs[outcome.config],
        grid,
        lab.output,
        layouts,
        {name: count_tensor(layout, by_tensor[name]) for name, layout in layouts.items()},
        count_programs(layouts, lab.output, grid, accesses),
        accesses,
        "" if finding.ok else finding.message,
        {line: source.locate(origin) for line, origin in origins.items() if origin is not None},
    )
