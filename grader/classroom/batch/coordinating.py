"""batch: from hand-ins to verdicts, through an engine and a journal; nothing that is known is graded again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import as_completed
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from grader.classroom.batch.accounts import Accounted, Came, account, with_ungraded_named
from grader.classroom.batch.archives import MAX_STUDENT_BYTES, RefusedMember, unpack_if_readable
from grader.classroom.batch.engine import Done, Engine, EngineFailed, Failed, Reached, Starter
from grader.classroom.batch.exports import rehearse
from grader.classroom.batch.hand_in import HandIn
from grader.classroom.batch.intake import Intake, collect
from grader.classroom.batch.journal import Journal, JournalFull, verdict_key, work_key
from grader.classroom.batch.readings import reading_key, recall, remember
from grader.classroom.batch.standing import Graded, Standing
from grader.classroom.batch.tasks import Content, Setup, read_hand_in
from grader.classroom.batch.verdicts import anonymous, placed
from grader.classroom.batch.workers import FIRST, NEXT, SHORT_SECONDS, TASK_SECONDS, WorkerPool, WorkFailed
from grader.classroom.batch.workspace import workspace
from grader.classroom.gradebook import BONUS
from grader.classroom.roster import Roster, on_roster
from grader.judging.points import measured_for, with_points
from grader.judging.rubric import Tiers, load_rubric, load_tiers
from grader.judging.scoring import refused
from grader.labs import get_lab
from grader.model import Device, KernelSource, LabReport, Refusal, Report
from grader.plain_files import UnreadableFile, in_brief
from grader.reading import MISSING
from grader.reading.answers import NO_ANSWERS, Answers
from grader.unusable import Unusable

POLL_SECONDS = 0.25
NOT_CHOSEN = "not graded in this run, which was for others only (--only, --since), and nothing was known of it"


@dataclass(frozen=True)
class BatchProgress:
    """Where a run stands: hand-ins read, then distinct kernels by stage. `known` were in the journal already."""

    hand_ins: int = 0
    read: int = 0
    kernels: int = 0
    known: int = 0
    built: int = 0
    ran: int = 0
    graded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Plan:
    """What a run is asked for. `only` and `since` choose what is graded: the others keep the verdicts that they have. `regrade` takes
    no verdict of what is chosen from the journal. `collected`: what gives the hand-ins, below a folder, in place of `path`."""

    path: Path
    labs: tuple[str, ...]
    setup: Setup
    assignment: str | None = None
    only: frozenset[str] = frozenset()
    since: datetime | None = None
    regrade: bool = False
    roster: Roster = field(default_factory=Roster)
    collected: Callable[[Path], Intake] | None = None


@dataclass
class _Work:
    """One distinct kernel, what it was graded on, and once it is known its scored report, or why there is none."""

    source: KernelSource
    device: Device
    outcome: LabReport | Refusal | None = None


@dataclass
class _Read:
    """A hand-in that was read: what was in it, or why it is none, and the key of each lab's work."""

    hand_in: HandIn
    content: Content | Refusal
    chosen: bool = True
    keys: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GradedClass:
    """What a run comes to: the hand-ins, graded and in order; all hand-ins; and every file that came in."""

    graded: Sequence[Graded]
    hand_ins: Sequence[HandIn]
    came: Sequence[Came]

    def accounts(self, standings: Sequence[Standing]) -> list[Accounted]:
        """What became of every file."""
        return account(self.came, self.hand_ins, standings)


Listener = Callable[[BatchProgress], None]
Receiver = Callable[[Sequence[Graded]], None]


def run_batch(
    plan: Plan,
    journal: Journal,
    pool: WorkerPool,
    start_engine: Starter,
    listen: Listener = lambda progress: None,
    receive: Receiver = lambda attempts: None,
) -> GradedClass:
    """Grades what is chosen; the outcome has every hand-in, in order. `receive` gets all of a student's for an assignment, once known.

    Raises Unusable for a path without any, JournalFull and EngineFailed when it cannot go on; what was
    graded until then is in the journal.
    """
    with workspace() as unpacked:
        if plan.collected is not None:
            intake = plan.collected(unpacked)
        else:
            intake = collect(plan.path, unpacked, assignment=plan.assignment, unpack=partial(_unpack, pool))
        hand_ins = on_roster(intake.hand_ins, plan.roster)
        chosen = {hand_in.key: hand_in for hand_in in _chosen(plan, hand_ins)}
        others = [hand_in for hand_in in hand_ins if hand_in.key not in chosen]
        with start_engine() as engine:
            assignments = {one.assignment for one in (*hand_ins, *intake.others)}
            run = _Run(plan, journal, engine, listen, receive, BatchProgress(hand_ins=len(hand_ins)), assignments)
            for hand_in in hand_ins:
                run.attempts.setdefault((hand_in.student, hand_in.assignment), []).append(hand_in.key)
            for part in (chosen.values(), others):
                for hand_in, content in _read_all(part, plan.labs, pool, journal):
                    run.take(_Read(hand_in, content, hand_in.key in chosen))
            while len(run.graded) < len(run.read):
                run.step(POLL_SECONDS)
        graded = [run.graded[hand_in.key] for hand_in in hand_ins]
        return GradedClass(graded, [*hand_ins, *intake.others], with_ungraded_named(intake.came, graded, plan.labs))


def _unpack(pool: WorkerPool, archive: Path, target: Path, max_bytes: int) -> list[RefusedMember]:
    """Unpacks in a process that can be killed, and that dies alone."""
    seconds = SHORT_SECONDS if max_bytes <= MAX_STUDENT_BYTES else TASK_SECONDS
    answer = pool.submit(FIRST, unpack_if_readable, archive, target, max_bytes, seconds=seconds, light=True).result()
    if isinstance(answer, UnreadableFile):
        raise answer
    return answer


def _chosen(plan: Plan, hand_ins: Sequence[HandIn]) -> list[HandIn]:
    def names(hand_in: HandIn) -> set[str]:
        return {hand_in.student, hand_in.label, hand_in.name}

    unknown = sorted(plan.only.difference(*map(names, hand_ins)))
    if unknown:
        count = len({hand_in.student for hand_in in hand_ins})
        raise Unusable(f"{plan.path} has no student {unknown[0]!r}; it has {count} others")
    chosen = [hand_in for hand_in in hand_ins if not plan.only or plan.only & names(hand_in)]
    if plan.since is not None:
        since = plan.since
        chosen = [hand_in for hand_in in chosen if hand_in.submitted is None or hand_in.submitted >= since]
        if not chosen:
            raise Unusable(f"nothing in {plan.path} was handed in since {since:%Y-%m-%d %H:%M}")
    return chosen


def _read_all(
    hand_ins: Iterable[HandIn], labs: tuple[str, ...], pool: WorkerPool, journal: Journal
) -> Iterator[tuple[HandIn, Content | Refusal]]:
    """Reads in processes of their own, unless the same was read before: a file that takes one down costs its student alone."""
    futures = {}
    for hand_in in hand_ins:
        if hand_in.failed or hand_in.refused:
            yield hand_in, Refusal("not_graded" if hand_in.failed else "rejected", hand_in.failed or hand_in.refused)
            continue
        key = reading_key(hand_in.path, labs)
        if key is not None and (known := recall(journal, key, hand_in.path)) is not None:
            yield hand_in, known
        else:
            futures[pool.submit(NEXT, read_hand_in, hand_in.path, labs, seconds=SHORT_SECONDS)] = hand_in, key
    for future in as_completed(futures):
        hand_in, key = futures[future]
        try:
            content = future.result()
        except WorkFailed as failure:
            yield hand_in, Refusal("not_graded", f"{hand_in.place} could not be read: {failure}")
            continue
        if key is not None:
            remember(journal, key, hand_in.path, content)
        yield hand_in, content


@dataclass
class _Run:
    """A run on its way. assignments: those of the class. attempts: the keys of what a student handed in for an assignment; texts: of the
    kernels that it grades."""

    plan: Plan
    journal: Journal
    engine: Engine
    listen: Listener
    receive: Receiver
    progress: BatchProgress
    assignments: AbstractSet[str]
    attempts: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    works: dict[str, _Work] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    read: dict[str, _Read] = field(default_factory=dict)
    graded: dict[str, Graded] = field(default_factory=dict)

    def take(self, read: _Read) -> None:
        """Sends the kernels of a hand-in on their way."""
        self.read[read.hand_in.key] = read
        try:
            if isinstance(read.content, Content):
                self._dispatch(read, read.content)
        except (EngineFailed, JournalFull):
            raise
        except Exception as error:  # a kernel that cannot be sent on is its student's alone
            read.content, read.keys = Refusal("not_graded", gave_up(error)), {}
        self._count("read")
        self.step(0.0)

    def step(self, seconds: float) -> None:
        """Takes what the engine has to tell within some seconds, and puts the hand-ins together whose last kernel is known now."""
        while (event := self.engine.next_event(seconds)) is not None:
            seconds = 0.0
            if isinstance(event, Reached):
                self._count(event.stage)
            else:
                self._conclude(event)
        self.listen(self.progress)
        self._collect()

    def _count(self, *stages: str) -> None:
        self.progress = replace(self.progress, **{stage: getattr(self.progress, stage) + 1 for stage in stages})

    def _dispatch(self, read: _Read, content: Content) -> None:
        """Sends each kernel on its way that is neither in the journal nor on its way already; of a hand-in that was not chosen, none."""
        setup, journal = self.plan.setup, self.journal
        for lab_id, source in content.submission.labs.items():
            if isinstance(source, Refusal):
                continue
            text = work_key(source)
            grading = read.chosen or text in self.texts
            key = read.keys[lab_id] = verdict_key(source, setup.device, setup.secrets) if grading else text
            if grading:
                self.texts.add(text)
            if key in self.works:
                continue
            work = self.works[key] = _Work(source, setup.device)
            if not grading:  # it has the verdict that it had
                if before := journal.in_force(text):
                    work.device, work.outcome = before[1], points_today(*before)
                else:
                    work.outcome = Refusal("not_graded", NOT_CHOSEN)
                continue
            known = None if self.plan.regrade else journal.get(key)
            if known is not None and measured_for(known, tiers_of(work.device)):
                work.outcome = points_today(known, work.device)
                journal.use(text, key, work.device)
                self._count("kernels", "known", "graded")
            else:
                self._count("kernels")
                self.engine.submit(key, anonymous(source))

    def _conclude(self, event: Done | Failed) -> None:
        """Keeps what the engine says at last; a verdict is in the journal before anybody hears of it."""
        work = self.works[event.key]
        try:
            if isinstance(event, Done):
                self.journal.put(event.key, event.report)
                self.journal.use(work_key(work.source), event.key, work.device)
                work.outcome = points_today(event.report, work.device)
            else:
                work.outcome = Refusal("not_graded", event.reason)
        except JournalFull:
            raise
        except Exception as error:  # a report that cannot be kept is that kernel's alone
            work.outcome = Refusal("not_graded", gave_up(error))
        self._count("failed" if isinstance(work.outcome, Refusal) else "graded")

    def _collect(self) -> None:
        """Puts the hand-ins together whose last kernel is known now."""
        for key, read in self.read.items():
            if key in self.graded or not all(self.works[work].outcome for work in read.keys.values()):
                continue
            try:
                graded = _graded(self.plan, read, self.works, self.assignments)
                rehearse(graded)
            except Exception as error:  # a report that cannot be written is one student's alone
                failed = replace(read, content=Refusal("not_graded", gave_up(error)))
                graded = _graded(self.plan, failed, {}, self.assignments)
            self.graded[key] = graded
            attempts = self.attempts[graded.hand_in.student, graded.hand_in.assignment]
            if all(attempt in self.graded for attempt in attempts):
                self.receive([self.graded[attempt] for attempt in attempts])


def tiers_of(device: Device) -> Tiers | None:
    return load_tiers(device.name, device.capability) if device.kind == "cuda" else None


def points_today(report: LabReport, device: Device) -> LabReport:
    """A verdict with the points that the rubric gives it today."""
    return with_points(report, load_rubric(), tiers_of(device))


def gave_up(error: Exception) -> str:
    """Why there is no verdict, when the grader itself failed, and what to do."""
    reason = f"{type(error).__name__}: {in_brief(error)}"
    return f"the grader failed on it ({reason}); grade it by itself, and report this with its file"


def _graded(plan: Plan, read: _Read, works: Mapping[str, _Work], assignments: AbstractSet[str]) -> Graded:
    """A hand-in's report, put together from the verdicts of its kernels. assignments: those of the class; where bonus labs are one of
    them, they count in no other."""
    hand_in, content, device = read.hand_in, read.content, plan.setup.device
    bonus_only, gpu = hand_in.assignment.endswith(BONUS), device.kind == "cuda"
    apart = bonus_only or hand_in.assignment + BONUS in assignments
    sources = _sources(plan.labs, content, bonus_only=bonus_only)
    if isinstance(content, Refusal):
        review, notes = (
            [*hand_in.notes, _words_of(content)],
            tuple(n for n in hand_in.notes if n not in content.message),
        )
    else:
        review, notes = [*hand_in.notes, *content.submission.doubts], hand_in.notes + content.submission.notes
    labs: dict[str, LabReport] = {}
    for lab_id, source in sources.items():
        if apart and get_lab(lab_id).bonus != bonus_only:
            if not (isinstance(source, Refusal) and source.status == "not_attempted"):
                review.append(f"{lab_id} is none of this assignment's labs: it does not count here")
            continue
        if isinstance(source, Refusal):
            refusal, kernel = source, None
        elif isinstance(outcome := (work := works[read.keys[lab_id]]).outcome, Refusal):
            refusal, kernel = outcome, source
        else:
            assert outcome is not None
            labs[lab_id], device = placed(outcome, source), work.device
            if outcome.status in ("crash", "timeout"):
                review.append(f"{lab_id}: {labs[lab_id].message}")
            continue
        labs[lab_id] = without_verdict(lab_id, refusal, kernel, gpu=gpu)
        if refusal.status in ("rejected", "not_graded") and refusal is not content:
            review.append(f"{lab_id}: {_words_of(refusal)}")
    whole = Report(submission=hand_in.place, device=device, seed=None, labs=labs, notes=notes)
    if isinstance(content, Refusal):
        return Graded(hand_in, whole, _once(review), unread=dict.fromkeys(hand_in.sources, content.message))
    files = {lab_id: source.path for lab_id, source in sources.items() if source.path is not None}
    answers = _answers_that_count(hand_in, content, labs, apart=apart)
    return Graded(hand_in, whole, _once(review), answers, files, content.submission.unread)


def _sources(
    lab_ids: Sequence[str], content: Content | Refusal, *, bonus_only: bool
) -> Mapping[str, KernelSource | Refusal]:
    """Of each lab that is asked for the kernel, or why there is none: of bonus labs where one was begun, or all are asked for."""
    asked = [lab_id for lab_id in lab_ids if get_lab(lab_id).bonus == bonus_only]
    if isinstance(content, Refusal):  # nobody began a bonus lab in what cannot be read
        return dict.fromkeys(asked or lab_ids, content)
    return {**dict.fromkeys(asked if bonus_only else (), MISSING), **content.submission.labs}


def _answers_that_count(
    hand_in: HandIn, content: Content, labs: Mapping[str, LabReport], *, apart: bool
) -> dict[str, Answers]:
    """The answers to the questions of an assignment's labs, and of bonus labs of which only the questions were begun, unless these are an
    assignment apart."""
    answers = content.answers.items()
    found = {lab_id: one for lab_id, one in answers if lab_id in labs or (not apart and one.given(lab_id))}
    if hand_in.assignment:  # nbgrader puts the cells back that a student removed
        found |= {lab_id: NO_ANSWERS for lab_id in labs.keys() - found if (hand_in.path / f"{lab_id}.ipynb").is_file()}
    return found


def _once(review: Sequence[str]) -> tuple[str, ...]:
    """Reasons for a look, without those that another one says too."""
    return tuple(one for one in dict.fromkeys(review) if not any(one in other and one != other for other in review))


def without_verdict(lab_id: str, refusal: Refusal, source: KernelSource | None = None, *, gpu: bool) -> LabReport:
    """A lab without a verdict on its kernel; of what was not graded nothing counts as gradable."""
    report = refused(get_lab(lab_id), refusal, source, gpu=gpu)
    return replace(report, gradable_points=0.0) if refusal.status == "not_graded" else report


def _words_of(refusal: Refusal) -> str:
    return f"not graded: {refusal.message}" if refusal.status == "not_graded" else refusal.message
