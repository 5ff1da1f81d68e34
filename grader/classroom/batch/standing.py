"""Which of a student's hand-ins counts, and what a human has to look at before its mark does."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from grader.classroom.batch.hand_in import HandIn
from grader.classroom.batch.marks import NOTHING, CourseMark, OutOf, Part, Parts, Points, Rules, mark, ordered
from grader.classroom.marked_answers import MarkedAnswer, marked
from grader.classroom.roster import Person, Roster
from grader.labs import all_labs, get_lab
from grader.labs.question import drawn_from
from grader.model import LabReport, Report
from grader.reading.answers import NO_ANSWERS, Answers
from grader.unusable import Unusable

Piece = tuple[str, Literal["kernel", "questions"]]
"""What comes from one hand-in as a whole: a lab's kernel, or the answers to its questions."""
MIXED = "{} has corrections for single students, and the hand-ins are for several assignments ({}); choose one with --assignment"


UNANSWERED = "no questions with numbers were handed in, which others have: the mark for these is left open"


@dataclass(frozen=True)
class Graded:
    """One hand-in with its report; `review` says why a human should look at it, if so. answers: those to each lab's questions.
    files: where each lab's kernel was read from, graded or refused. unread: as in Submission."""

    hand_in: HandIn
    report: Report
    review: tuple[str, ...] = ()
    answers: Mapping[str, Answers] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def questions(self) -> dict[str, dict[str, MarkedAnswer]]:
        """The questions with numbers of the labs whose answers were handed in, by lab and name."""
        return marked(self.answers)

    @cached_property
    def pieces(self) -> dict[Piece, tuple[int, float]]:
        """What it holds: each lab's kernel, and the answers to its questions. How far each came: 0 not begun, 1 not readable, 2 begun; and
        the points, inf without a verdict."""
        found: dict[Piece, tuple[int, float]] = {}
        for lab_id, lab in self.report.labs.items():
            unread = lab.status == "rejected" and lab_id not in self.files
            begun = 0 if lab.status == "not_attempted" else 1 if unread else 2
            found[lab_id, "kernel"] = begun, math.inf if lab.status == "not_graded" else lab.points
        for lab_id, asked in self.questions.items():
            found[lab_id, "questions"] = (
                2 * self.answers[lab_id].given(lab_id),
                sum(one.points for one in asked.values()),
            )
        return found

    @property
    def begun(self) -> str:
        """What is begun in it, for people: "w8a8 and the questions of dds"."""
        begun = [piece for piece, (far, _) in self.pieces.items() if far == 2]
        names = [lab_id if what == "kernel" else f"the questions of {lab_id}" for lab_id, what in begun]
        nothing = "nothing that could be read" if any(far for far, _ in self.pieces.values()) else "nothing begun"
        return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or nothing

    def only(self, pieces: Collection[Piece]) -> Self:
        """Itself, with no more than these."""
        if pieces == self.pieces.keys():
            return self
        labs = {lab_id: lab for lab_id, lab in self.report.labs.items() if (lab_id, "kernel") in pieces}
        answers = {lab_id: given for lab_id, given in self.answers.items() if (lab_id, "questions") in pieces}
        return replace(self, report=replace(self.report, labs=labs), answers=answers)

    def asked(self, *, bonus: bool = False) -> dict[str, float]:
        """What the questions of each lab that has answers are out of: of the course's labs, or of bonus labs."""
        most = {lab_id: sum(answer.max_points for answer in lab.values()) for lab_id, lab in self.questions.items()}
        return {lab_id: one for lab_id, one in most.items() if one and get_lab(lab_id).bonus == bonus}

    def parts(self, out_of: OutOf = "all") -> dict[Part, Points]:
        """Its points. None where a lab was not graded: a sum without it would be less than what was earned. What bonus labs ask counts
        with them."""
        report, asked, extra = self.report, self.asked(), self.asked(bonus=True)
        unknown = {lab.bonus for lab in report.labs.values() if lab.status == "not_graded"}
        answered, more = (
            sum(answer.points for lab_id in some for answer in self.questions[lab_id].values())
            for some in (asked, extra)
        )
        found: dict[Part, Points] = {}
        if not all(lab.bonus for lab in report.labs.values()):
            possible = report.gradable_points if out_of == "gradable" else report.max_points
            found["kernels"] = Points(None if False in unknown else report.points, possible)
        if asked:
            found["questions"] = Points(answered, sum(asked.values()))
        if most := report.bonus_max + sum(extra.values()):
            found["bonus"] = Points(None if True in unknown else report.bonus_points + more, most)
        return found


@dataclass(frozen=True)
class Standing:
    """What counts for one student in one assignment: its mark, the hand-ins that it comes from, and the row of the roster.

    counting: the hand-ins of which something counts, each with no more than that: the labs, and the answers to a lab's questions. graded:
    these together, as one hand-in. others: of which nothing counts. Where somebody of the roster handed in nothing, the hand-in has no
    place and the report no lab. review: why a human should look.
    """

    student: str
    assignment: str
    graded: Graded
    counting: tuple[Graded, ...]
    others: tuple[Graded, ...]
    mark: CourseMark
    person: Person | None = None
    review: tuple[str, ...] = ()

    @property
    def labs(self) -> Mapping[str, LabReport]:
        return self.graded.report.labs

    @property
    def key(self) -> str:
        return f"{self.student}/{self.assignment}"

    @property
    def holds(self) -> set[Path]:
        """The files and folders of all that was handed in."""
        return {path for one in (*self.counting, *self.others) for path in one.hand_in.holds}

    @property
    def absent(self) -> bool:
        """Whether nothing was handed in."""
        return not self.graded.hand_in.place

    @property
    def attempts(self) -> int:
        """How many hand-ins there are."""
        return 0 if self.absent else len(self.counting) + len(self.others)

    @property
    def name(self) -> str:
        """Who it is, for people: the roster's name, else the platform's, else whatever the files say."""
        return (self.person.name if self.person else "") or self.graded.hand_in.name or self.student

    @property
    def answers(self) -> Mapping[str, Answers]:
        """Those that count, for the cells of nbgrader, which grades every notebook of its assignments, also what was not handed in."""
        released = self.labs if self.assignment else ()
        return {**dict.fromkeys(released, NO_ANSWERS), **self.graded.answers}

    @property
    def parts(self) -> Parts:
        """What counts of each part."""
        return self.mark.parts

    @property
    def points(self) -> float | None:
        """For the course's labs; None without a verdict, and where none of them was asked for."""
        return self.parts.get("kernels", NOTHING).points


def standings(graded: Sequence[Graded], rules: Rules, roster: Roster | None = None) -> list[Standing]:
    """One for each student and assignment, in order of their names; with a roster also for those who handed in nothing.

    Raises Unusable for corrections by hand that may be meant for another assignment.
    """
    roster = roster or Roster()
    groups: dict[tuple[str, str], list[Graded]] = {}
    for one in graded:
        groups.setdefault((one.hand_in.student, one.hand_in.assignment), []).append(one)
    assignments = sorted({assignment for _, assignment in groups})
    if len(assignments) > 1 and any(person.corrected for person in roster.people):
        raise Unusable(MIXED.format(roster.name, ", ".join(assignments)))
    for person in roster.people:
        for assignment in assignments:
            nothing = Graded(
                HandIn(person.login, assignment, "", Path()), Report("", graded[0].report.device, None, {})
            )
            groups.setdefault((person.login, assignment), [nothing])
    found = _of_all_questions([standing(attempts, rules, roster) for _, attempts in sorted(groups.items())])
    return _with_borrowed_names(found, roster) if roster else found


def _of_all_questions(found: Sequence[Standing]) -> list[Standing]:
    """Questions are out of the same number for all of an assignment: those of every lab of which somebody handed answers in.
    Who handed none in is told; of an assignment of nbgrader's, whose notebooks everybody got, that is 0."""
    most: dict[str, dict[str, float]] = {}
    for one in found:
        most.setdefault(one.assignment, {}).update(one.graded.asked())
    checked = []
    for one in found:
        possible, mine = sum(most[one.assignment].values()), one.parts.get("questions")
        if possible and not one.absent and (mine or one.assignment):
            parts = {**one.parts, "questions": Points(mine.points if mine else 0.0, possible)}
            one = replace(one, mark=replace(one.mark, parts=parts))
        elif possible and not one.absent:
            one = replace(one, review=(*one.review, UNANSWERED))
        checked.append(one)
    return checked


def standing(attempts: Sequence[Graded], rules: Rules, roster: Roster) -> Standing:
    """What counts of all that one student handed in for one assignment."""
    person = roster.by_login.get(attempts[0].hand_in.student)
    counting = _counting(attempts, rules, person)
    whole = _together(counting)
    keys = {one.hand_in.key for one in counting}
    others = tuple(one for one in attempts if one.hand_in.key not in keys)
    found = mark([(one.hand_in, one.parts(rules.out_of)) for one in counting], rules, person)
    begun = Counter(piece for one in attempts for piece, (far, _) in one.pieces.items() if far == 2)
    again = [
        what for (_, what), count in begun.items() if count > 1 and (what == "questions" or rules.attempts == "last")
    ]
    odd = _odd(found, rules, whole.hand_in, again, person, roster)
    unread = [f"{one.hand_in.place} does not count: {one.hand_in.refused}" for one in others if one.hand_in.refused]
    skipped = [
        f"{lab_id}: cases that could not be graded here count as 0"
        for lab_id, lab in whole.report.labs.items()
        if any(test.kind == "correctness" and test.status == "skipped" for test in lab.tests)
    ]
    review = (*whole.review, *odd, *unread, *skipped)
    return Standing(whole.hand_in.student, whole.hand_in.assignment, whole, counting, others, found, person, review)


def _counting(attempts: Sequence[Graded], rules: Rules, person: Person | None) -> tuple[Graded, ...]:
    """The attempts of which something counts, each with that alone.

    A lab's kernel comes from one attempt: from the last or the best, as the rules say, of those in which it was begun. So do the answers
    to its questions, always from the last that has any: nobody finds an answer by handing in guesses. Where the best counts, answers that
    were handed in again unchanged lose the least lateness. What cannot be read never replaces what can; what has no verdict may be the
    best. What was begun in none comes from the last of the attempts that count.
    """
    pieces = dict.fromkeys(piece for one in attempts for piece in one.pieces)
    chosen = {piece: _source_of(piece, attempts, rules, person) for piece in pieces}
    main = _latest([one for piece, one in chosen.items() if one.pieces[piece][0]] or attempts)
    parts: dict[str, set[Piece]] = {main.hand_in.key: set()}
    for piece, one in chosen.items():
        taken = one if one.pieces[piece][0] or piece not in main.pieces else main
        parts.setdefault(taken.hand_in.key, set()).add(piece)
    return tuple(one.only(parts[one.hand_in.key]) for one in attempts if one.hand_in.key in parts)


def _source_of(piece: Piece, attempts: Sequence[Graded], rules: Rules, person: Person | None) -> Graded:
    """The attempt from which a lab's kernel counts, or the answers to its questions."""
    lab_id, what = piece

    def share(one: Graded) -> float:
        return rules.share(rules.days_late(one.hand_in, person))

    def rank(one: Graded) -> tuple[bool, int, float, float, str]:
        (begun, points), when = one.pieces[piece], ordered(one.hand_in.submitted)
        worth = 0.0 if what == "questions" else points if points == math.inf else points * share(one)
        in_order = (when, worth) if rules.attempts == "last" else (worth, when)
        return (not one.hand_in.refused, begun, *in_order, one.hand_in.place)

    some = sorted((one for one in attempts if piece in one.pieces), key=rank, reverse=True)
    if what == "kernel" or rules.attempts == "last":
        return some[0]
    same = itertools.takewhile(lambda one: one.questions[lab_id] == some[0].questions[lab_id], some)
    return max(same, key=share)


def _latest(attempts: Sequence[Graded]) -> Graded:
    return max(attempts, key=lambda one: (not one.hand_in.refused, ordered(one.hand_in.submitted)))


def _together(counting: Sequence[Graded]) -> Graded:
    """What counts of several attempts, as one hand-in: by its names and times, the latest."""
    if len(counting) == 1:
        return counting[0]
    latest, order = _latest(counting), {lab_id: number for number, lab_id in enumerate(all_labs())}
    labs = {lab_id: lab for one in counting for lab_id, lab in one.report.labs.items()}
    report = replace(
        latest.report,
        submission=" and ".join(one.hand_in.place for one in counting),
        labs={lab_id: labs[lab_id] for lab_id in sorted(labs, key=lambda one: order.get(one, len(order)))},
        notes=tuple(dict.fromkeys(note for one in counting for note in one.report.notes)),
    )
    return replace(
        latest,
        report=report,
        review=tuple(dict.fromkeys(reason for one in counting for reason in one.review)),
        answers={lab_id: given for one in counting for lab_id, given in one.answers.items()},
        files={lab_id: path for one in counting for lab_id, path in one.files.items() if lab_id in one.report.labs},
    )


def _odd(
    found: CourseMark, rules: Rules, hand_in: HandIn, again: Sequence[str], person: Person | None, roster: Roster
) -> Iterator[str]:
    """What is odd about a mark: a human decides. again: of kernels and questions those that several hand-ins have and the last counts."""
    if roster and person is None:
        yield f"not on {roster.name}, or not by a name or id that only one row has: add a row, or the platform's id to a row"
    if found.override is not None and 0 < (possible := found.parts["kernels"].possible) < found.override:
        yield f"set to {found.override:g} points by hand, of {possible:g} that are possible"
    if again and hand_in.submitted is None:
        advice = "keep one" if "questions" in again else "keep one, or use --attempts best"
        yield f"several hand-ins, and when each came in is not known: {hand_in.place} counts; {advice}"
    if found.days_late is None and hand_in.late and rules.late_percent:
        yield "late without a time, and with an extension: nothing is taken off; write into handed_in of the roster when it came"


def _with_borrowed_names(found: Sequence[Standing], roster: Roster) -> list[Standing]:
    """Whose numbers did the answers use? A neighbour's name, and one that several wrote, are worth a look."""
    shared = Counter(numbers for one in found for numbers in set(map(drawn_from, _names_written(one))))
    of_files: dict[Path, list[Person | None]] = {}  # of a group's files there is one
    for one in found:
        for path in one.holds:
            of_files.setdefault(path, []).append(one.person)
    checked = []
    for one in found:
        odd = []
        for text in _names_written(one):
            named = roster.called(text)
            group = [who for path in one.holds for who in of_files[path]]
            if named and not any(who in named for who in (one.person, *group)):
                odd.append(
                    f'its questions have student = "{text}", the name of {" and ".join(who.login for who in named)}'
                )
            elif not named and shared[drawn_from(text)] > 1:
                odd.append(f'its questions have student = "{text}", a name that others wrote too')
        checked.append(replace(one, review=(*one.review, *odd)))
    return checked


def _names_written(standing: Standing) -> set[str]:
    return {answers.student for answers in standing.graded.answers.values() if answers.student}


def times_of_files(found: Sequence[Standing]) -> str:
    """The sentence on hand-ins that --due counts late by when their file on this disk was last changed; empty where there are none."""
    by_disk = [one for one in found if one.graded.hand_in.by_disk]
    late = sum(bool(one.mark.days_late and one.mark.handed_in == one.graded.hand_in.submitted) for one in by_disk)
    if not late:
        return ""
    what = "1 hand-in is" if late == 1 else f"{late} hand-ins are"
    return f"{what} late by when the file was last changed, which copying sets anew: give handed_in in a roster, or no --due"


def unknown_times(found: Sequence[Standing], rules: Rules) -> str:
    """The sentence on hand-ins on which --due has no effect; empty where there are none."""
    without = [one for one in found if not one.absent and one.mark.handed_in is None]
    if rules.due is None or not without:
        return ""
    what = "1 hand-in has" if len(without) == 1 else f"{len(without)} hand-ins have"
    canvas = any(one.graded.hand_in.platform == "canvas" for one in without)
    words = "; of Canvas's only LATE in the file name counts, as one day" if canvas else ""
    return f"{what} no known time: --due has no effect on {'it' if len(without) == 1 else 'them'}{words}"
