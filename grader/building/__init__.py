"""build: from a kernel's source to a KernelBundle, in sandboxes. No GPU is needed.

describe runs the submission's Python and returns data; from the text of the jit functions the grader generates a module of its own;
compile turns that module into binaries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import replace

from grader.building.binary_cache import BinaryCache, own_folder
from grader.building.compiler import NO_TIME_LEFT, Compiled, Compiler, Complaint, Wanted, front_end, made_request
from grader.building.describing import describe, load_request, made_module
from grader.building.options import BuildOptions, Scope
from grader.building.sentences import describe_error
from grader.labs import Lab
from grader.labs.contract import taller
from grader.model import Case, KernelBundle, KernelSource, Refusal

__all__ = [
    "BinaryCache",
    "BuildOptions",
    "Compiled",
    "Complaint",
    "Scope",
    "assignments",
    "build",
    "compile_described",
    "describe",
    "describe_error",
    "front_end",
    "load_request",
    "made_module",
    "made_request",
    "own_folder",
    "read_by_triton",
    "with_binaries",
]  # fmt: skip

MOST_PROGRAMS = 4096
"""Programs; the interpreter takes half a second for these where they run together, and else maybe longer than a case is given."""
PIECES = 2
"""Programs of the case of one small tile, 64 x 64: of tiles that are smaller, other cases have several a program."""
WORKERS = 16
"""Programs; of so few each makes several tiles in other cases, however large these are."""

Specialised = tuple[int, str]
"""A config, and the key of a launch."""


def build(
    lab: Lab, source: KernelSource, options: BuildOptions, compiled: Compiled = lambda done, total: None
) -> KernelBundle | Refusal:
    """Describes and compiles one lab's kernel. A kernel with no config that compiles is a `build_error`."""
    described = describe(lab, source, options)
    if isinstance(described, Refusal):
        return described
    return compile_described(lab, source, described, options, compiled)


def read_by_triton(lab: Lab, source: KernelSource, options: BuildOptions) -> KernelBundle | Refusal:
    """Described, and read by Triton's front end for every launch of a correctness case; nothing is compiled yet."""
    described = describe(lab, source, options)
    if isinstance(described, Refusal):
        return described
    pairs = [
        (case, index) for case, indices in assignments(lab, described, compiled=False).items() for index in indices
    ]
    wanted = [(max(options.capabilities), described.configs[index], case) for case, index in pairs]
    with Compiler(lab, source, options) as compiler:
        bundle = compiler.read(described, wanted)
    if ours := _fault_of_ours(bundle):
        return ours
    if all(pair in bundle.refused for pair in pairs):
        return _nothing_builds(bundle)
    return bundle


def compile_described(
    lab: Lab,
    source: KernelSource,
    bundle: KernelBundle,
    options: BuildOptions,
    compiled: Compiled = lambda done, total: None,
) -> KernelBundle | Refusal:
    """The second half of `build`: the bundle that `describe` made, with binaries."""
    first, newest = _small_case(lab), max(options.capabilities)
    wanted = [(newest, config, first) for config in bundle.configs]
    older = [capability for capability in options.capabilities if capability != newest]
    with Compiler(lab, source, options, compiled) as compiler:
        bundle = _verdicts(compiler, bundle, wanted) if options.scope == "verdict" else compiler.compile(bundle, wanted)
        bundle = compiler.allocate(
            bundle, [(capability, config, first) for capability in older for config in bundle.configs]
        )
        if ours := _fault_of_ours(bundle):
            return ours
        if not bundle.working:
            return _nothing_builds(bundle)
        assigned = assignments(lab, bundle)
        assigned |= {case.name: bundle.working for case in lab.speed_cases if options.scope == "all"}
        wanted = [(newest, bundle.configs[index], case) for case, indices in assigned.items() for index in indices]
        if options.scope == "all":
            bundle = compiler.compile(bundle, wanted, refuse=True)
        else:
            built = {index: launch for index in bundle.working if (launch := bundle.launches.get((first, index)))}
            bundle = compiler.drop_uncompilable(bundle, wanted, built)
    return _fault_of_ours(bundle) or bundle


def _verdicts(compiler: Compiler, bundle: KernelBundle, wanted: Sequence[Wanted]) -> KernelBundle:
    """The bundle with which configs compile, and a binary of the first, and of each whose LLVM IR leaves something open."""
    bundle, plain = compiler.lower(bundle, wanted)
    whole = [one for one in wanted if one[1].index not in plain or one[1].index == min(plain)]
    bundle = compiler.compile(bundle, whole)
    return replace(bundle, lowered=plain - {failure.config for failure in bundle.failures})


def with_binaries(lab: Lab, source: KernelSource, bundle: KernelBundle, options: BuildOptions) -> KernelBundle:
    """The bundle that was built for a verdict with a binary of each config that compiles, as it is timed."""
    wanted = [(max(options.capabilities), bundle.configs[index], lab.timed) for index in bundle.working]
    with Compiler(lab, source, options) as compiler:
        return compiler.compile(bundle, wanted)


def assignments(lab: Lab, bundle: KernelBundle, *, compiled: bool = True) -> dict[str, tuple[int, ...]]:
    """Which configs each correctness case runs with: one of those that compile, in turn; where the case says so three of them, all, all
    that make at most MOST_PROGRAMS of it, or, of persistent kernels, those of large tiles: there may be none. Of the cases that take one in
    turn and have one specialisation, the smallest, by which a mistake is explained, has its turn, and the others its config.

    compiled=False: before anything was compiled, as if every config did.
    """
    working = bundle.working if compiled else tuple(range(len(bundle.configs)))
    assigned = {case.name: _named(lab, bundle, case, working) for case in lab.cases}
    needed = {case.name: assigned.get(case.name, working) for case in lab.all_cases if not case.hidden}
    built = {_specialised(bundle, name, index) for name, indices in needed.items() for index in indices}
    single = [one for one in enumerate(lab.cases) if not assigned[one[1].name] and one[1].configs != "few"]
    for number, case in sorted(single, key=lambda one: (one[1].hidden, one[1].M * one[1].N * one[1].K)):
        first = number % len(working)
        config = _next_config(bundle, case.name, (*working[first:], *working[:first]), built)
        assigned[case.name] = (config,)
        built.add(_specialised(bundle, case.name, config))
    return assigned


def _named(lab: Lab, bundle: KernelBundle, case: Case, working: tuple[int, ...]) -> tuple[int, ...]:
    """The configs that the case itself says; none where it takes one in turn."""
    if case.configs == "three":
        return (working[0], working[len(working) // 2], working[-1]) if len(working) > 3 else working
    if case.configs == "most":
        return tuple(index for index in working if bundle.programs(case.name, index) <= MOST_PROGRAMS)
    if case.configs == "few":
        return tuple(index for index in working if _is_persistent(lab, bundle, case, index))
    return working if case.configs == "all" else ()


def _next_config(bundle: KernelBundle, case: str, order: Sequence[int], built: Set[Specialised]) -> int:
    """The config whose turn it is, or the first after it whose binary for this case another case needs too; where the one whose turn it is
    launches too many programs for the interpreter, the one that launches the fewest."""
    if bundle.programs(case, order[0]) > MOST_PROGRAMS:
        return min(order, key=lambda index: bundle.programs(case, index) or math.inf)
    if (case, order[0]) not in bundle.launches:  # it was refused, which is to be told
        return order[0]
    alike = (
        one for one in order if _specialised(bundle, case, one) in built and bundle.programs(case, one) <= MOST_PROGRAMS
    )
    return next(alike, order[0])


def _specialised(bundle: KernelBundle, case: str, config: int) -> Specialised:
    """What tells the binary of a launch from others; one that was refused is alike to none."""
    launch = bundle.launches.get((case, config))
    return config, launch.key if launch else case


def _is_persistent(lab: Lab, bundle: KernelBundle, case: Case, config: int) -> bool:
    """Whether a launch has as many programs as one of twice the rows; not if its tiles are so small that other cases have several a
    program."""
    programs, of_twice, fewest = (
        bundle.programs(name, config) for name in (case.name, taller(case).name, _small_case(lab))
    )
    return WORKERS < programs == of_twice and (fewest <= PIECES or fewest == programs)


def _small_case(lab: Lab) -> str:
    """The name of the first case of all configs, which is one small tile compiled as the timed ones are; of some cases alone, else
    the first."""
    return next((case.name for case in lab.cases if case.configs == "all"), lab.cases[0].name)


def _fault_of_ours(bundle: KernelBundle) -> Refusal | None:
    return next((Refusal("not_graded", failure.ours) for failure in bundle.failures if failure.ours), None)


def _nothing_builds(bundle: KernelBundle) -> Refusal:
    """No verdict where a config might have been built by a compiler that does not fail itself."""
    own = next((failure.message for failure in bundle.failures if not failure.gradable), None)
    return Refusal("not_graded", own) if own else Refusal("build_error", _why_nothing_builds(bundle))


def _why_nothing_builds(bundle: KernelBundle) -> str:
    if bundle.failures:
        several = len(bundle.configs) > 1
        failures = [failure for failure in bundle.failures if NO_TIME_LEFT not in failure.message] or bundle.failures
        reasons = [
            (f"{bundle.configs[failure.config]} for sm_{failure.capability}: " if several else "", failure.message)
            for failure in failures
        ]
        count = len({failure.config for failure in bundle.failures})
        whole = f"none of the {count} configs compiles" if count > 1 else "the config does not compile"
        return f"{whole}: {_common_reason(reasons)}"
    refused = [(f"{bundle.configs[index]} on {case}: ", sentence) for (case, index), sentence in bundle.refused.items()]
    return f"no config can be launched: {_common_reason(refused or [('', 'there is none')])}"


def _common_reason(reasons: Sequence[tuple[str, str]]) -> str:
    """The first of several sentences; without the words that it begins with if all are about the same place. reasons: these words, and
    the sentence."""
    places = {sentence.removeprefix(beginning).split(": ")[0] for beginning, sentence in reasons}
    beginning, first = reasons[0]
    return first.removeprefix(beginning) if len(places) == 1 else first
