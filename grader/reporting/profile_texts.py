"""What a profile says, in sentences beside the lines."""

from __future__ import annotations

from collections.abc import Sequence

from grader.labs import Lab
from grader.model import BuildFacts, KernelBundle, KernelSource, Profile, SpeedSample
from grader.reporting.advice import advice, describe_facts

MAX_LINE = 60
WORTH_TELLING = 1.2
"""Accesses that take more than this many times what their bytes need are spoken of."""

REASONS = {
    "barrier": "for other warps of the program, at a barrier",
    "branch_resolving": "for the target of a branch",
    "dispatch": "for the dispatcher",
    "drain": "for their stores, at the end",
    "gmma": "for the tensor cores (wgmma)",
    "imc": "for a constant from its cache",
    "lg": "for room in the queue of global loads and stores",
    "long_sb": "for global memory (long scoreboard)",
    "math": "for a busy arithmetic unit (math pipe throttle)",
    "membar": "for a memory barrier",
    "mio": "for room in the queue of shared memory and special functions (MIO throttle)",
    "no_inst": "for instructions that are not in the cache",
    "not_selected": "for their turn: another warp was ready too",
    "short_sb": "for shared memory or a special function (short scoreboard)",
    "tex": "for room in the queue of texture reads",
    "wait": "for an instruction of a fixed latency",
    "warpgroup_arrive": "for the other warps of the group, before wgmma",
}
"""What a warp waits for, by ncu's names of stalls. `selected` is none: it goes on."""


def profile_texts(source: KernelSource, profiles: Sequence[Profile]) -> tuple[str, ...]:
    """A text a launch: a line of the whole, then one of each line where its warps were met."""
    return tuple("\n".join([_whole(one), *_lines(source, one)]) for one in profiles)


def build_texts(
    why: str, lab: Lab, source: KernelSource, built: KernelBundle, samples: Sequence[SpeedSample], capability: int
) -> tuple[str, ...]:
    """What there is without a profile: why there is none, then a text for each config that is the fastest of a case, of its binary and
    of what stands out in it."""
    cases: dict[tuple[int, BuildFacts], list[str]] = {}
    for one in samples:
        binary = None if one.config is None else built.binary(one.case, one.config, capability)
        if binary is not None and one.status == "timed":
            cases.setdefault((binary.config, binary.facts), []).append(one.case)
    texts = [f"no profile: {why}{'. What the compiler made of the fastest configs:' if cases else ''}"]
    for (index, facts), names in cases.items():
        config = next(one for one in built.configs if one.index == index)
        found = advice(facts, config, lab, source, capability)
        texts.append("\n".join([f"{', '.join(names)}, config {index}: {describe_facts(facts)}", *found]))
    return tuple(texts)


def _whole(profile: Profile) -> str:
    peaks = ", ".join(f"{name} {share:.0%}" for name, share in profile.peaks.items() if share == share)
    counted = (
        f"{profile.us:.1f} us, {profile.warps:.1f} warps on an SM; share of the GPU's peak: {peaks}. Where its warps were sampled:"
        if peaks
        else "where its warps were sampled, by Proton (ncu would also read the GPU's counters):"
    )
    return f"{profile.case}, config {profile.config}: {counted}"


def _lines(source: KernelSource, profile: Profile) -> list[str]:
    text, said = source.module.splitlines(), []
    for one in profile.lines:
        words = [f"{source.locate(one.line)}, `{_cut(text[one.line - 1].strip())}`: {one.share:.0%} of the samples"]
        if reason := REASONS.get(one.reason):
            words.append(f"{one.reason_share:.0%} of these wait {reason}")
        if one.shared > WORTH_TELLING:
            words.append(
                f"its shared memory takes {one.shared:.1f} times the cycles that its bytes need (bank conflicts)"
            )
        if one.sectors > WORTH_TELLING:
            words.append(
                f"its accesses touch {one.sectors:.1f} times the sectors that their bytes need (not coalesced)"
            )
        said.append("; ".join(words))
    return said


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} ..."
