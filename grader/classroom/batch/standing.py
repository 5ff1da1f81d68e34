"""Which of a student's hand-ins counts, and what a human has to look at before its mark does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from grader.classroom.batch.hand_in import HandIn
from grader.classroom.batch.marks import CourseMark, Earned, Rules, mark, ordered
from grader.classroom.gradebook import BONUS
from grader.classroom.marked_answers import MarkedAnswer, marked
from grader.classroom.roster import Person, Roster
from grader.labs.question import drawn_from
from grader.model import LabReport, Report
from grader.reading.answers import Answers
from grader.unusable import Unusable

Part = Literal["kernels", "questions", "bonus"]
MIXED = "{} has corrections for single students, and the hand-ins are for several assignments ({}); choose one with --assignment"


UNANSWERED = "no questions with numbers were handed in, which others have: the mark for these is left open"


@dataclass(frozen=True)
class Graded:
    """One hand-in with its report; `review` says why a human should look at it, if so. answers: those to each lab's questions.
    files: where each lab's kernel was read from, graded or refused."""

    hand_in: HandIn
    report: Report
    review: tuple[str, ...] = ()
    answers: Mapping[str, Answers] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)

    @cached_property
    def questions(self) -> dict[str, dict[str, MarkedAnswer]]:
        """The questions with numbers of the labs whose answers were handed in, by lab and name."""
        return marked(self.answers)

    @property
    def questions_of_course(self) -> dict[str, float]:
        """What the questions of each lab that has answers are out of, bonus labs apart."""
        bonus = {lab_id for lab_id, lab in self.report.labs.items() if lab.bonus}
        asked = {lab_id: sum(answer.max_points for answer in lab.values()) for lab_id, lab in self.questions.items()}
        return {
            lab_id: most
            for lab_id, most in asked.items()
            if most and lab_id in self.report.labs and lab_id not in bonus
        }

    @property
    def earned(self) -> Earned:
        """Its points. None where a lab was not graded: a sum without it would be less than what was earned. What bonus labs ask is told,
        and counts in nobody's sum."""
        report, asked = self.report, self.questions_of_course
        points = [answer.points for lab_id in asked for answer in self.questions[lab_id].values()]
        unknown = {lab.bonus for lab in report.labs.values() if lab.status == "not_graded"}
        return Earned(
            points=None if False in unknown or not self.hand_in.place else report.points,
            possible=report.max_points,
            gradable=report.gradable_points,
            bonus=None if True in unknown else report.bonus_points,
            bonus_possible=report.bonus_max,
            questions=sum(points) if asked else None,
            questions_possible=sum(asked.values()),
        )


@dataclass(frozen=True)
class Standing:
    """What counts for one student in one assignment: the chosen hand-in, its mark, the others, and the row of the roster.

    Where somebody of the roster handed in nothing, the hand-in has no place and the report no lab. review: why a human should look.
    """

    student: str
    assignment: str
    graded: Graded
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
    def absent(self) -> bool:
        """Whether nothing was handed in."""
        return not self.graded.hand_in.place

    @property
    def name(self) -> str:
        """Who it is, for people: the roster's name, else the platform's, else whatever the files say."""
        return (self.person.name if self.person else "") or self.graded.hand_in.name or self.student

    @property
    def points(self) -> float | None:
        return self.mark.points

    @property
    def parts(self) -> dict[Part, tuple[float | None, float]]:
        """The points, and the most that are possible, of what has a column of its own: the questions if any was asked, bonus labs if one
        was begun, and the kernels but where it is for an assignment of bonus labs and none of the course's is in it."""
        mark = self.mark
        found: dict[Part, tuple[float | None, float]] = {}
        if mark.possible or not self.assignment.endswith(BONUS):
            found["kernels"] = mark.points, mark.possible
        if mark.questions is not None:
            found["questions"] = mark.questions, mark.questions_possible
        if mark.bonus_possible:
            found["bonus"] = mark.bonus, mark.bonus_possible
        return found


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
    Who handed none in is told."""
    most: dict[str, dict[str, float]] = {}
    for one in found:
        most.setdefault(one.assignment, {}).update(one.graded.questions_of_course)
    checked = []
    for one in found:
        possible = sum(most[one.assignment].values())
        if one.mark.questions is not None:
            one = replace(one, mark=replace(one.mark, questions_possible=possible))
        elif possible and not one.absent:
            one = replace(one, review=(*one.review, UNANSWERED))
        checked.append(one)
    return checked


def standing(attempts: Sequence[Graded], rules: Rules, roster: Roster) -> Standing:
    """What counts of all that one student handed in for one assignment."""
    person = roster.by_login.get(attempts[0].hand_in.student)
    chosen = max(attempts, key=lambda one: _rank(one, rules, person))
    others = tuple(one for one in attempts if one is not chosen)
    found = mark(chosen.hand_in, chosen.earned, rules, person)
    review = (
        *chosen.review,
        *_odd(found, rules, chosen.hand_in, len(attempts), person, roster),
        *_more(chosen, others),
    )
    return Standing(chosen.hand_in.student, chosen.hand_in.assignment, chosen, others, found, person, review)


def _rank(one: Graded, rules: Rules, person: Person | None) -> tuple[bool, float, float, float]:
    """The larger counts; bonus points where the others are equal.

    A hand-in that cannot be read never replaces one that can; one without a verdict may be the best.
    """
    submitted, share = ordered(one.hand_in.submitted), rules.share(rules.days_late(one.hand_in, person))
    points = math.inf if one.earned.points is None else one.earned.points * share
    readable = not one.hand_in.refused
    bonus = one.report.bonus_points * share
    return (readable, points, bonus, submitted) if rules.attempts == "best" else (readable, submitted, points, bonus)


def _odd(
    found: CourseMark, rules: Rules, hand_in: HandIn, attempts: int, person: Person | None, roster: Roster
) -> Iterator[str]:
    """What is odd about a mark: a human decides."""
    if roster and person is None:
        yield f"not on {roster.name}, or not by a name or id that only one row has: add a row, or the platform's id to a row"
    if found.override is not None and 0 < found.possible < found.override:
        yield f"set to {found.override:g} points by hand, of {found.possible:g} that are possible"
    if attempts > 1 and hand_in.submitted is None and rules.attempts == "last":
        yield f"{attempts} hand-ins, and when each came in is not known: {hand_in.place} counts; keep one, or use --attempts best"
    if found.days_late is None and hand_in.late and rules.late_percent:
        yield "late without a time, and with an extension: nothing is taken off; write into handed_in of the roster when it came"


def _more(chosen: Graded, others: Sequence[Graded]) -> Iterator[str]:
    """A hand-in that does not count has work for a lab for which the one that counts has none: they may be parts of one."""
    known = {lab_id for lab_id, lab in chosen.report.labs.items() if lab.status != "not_attempted"}
    for one in others:
        if more := [
            lab_id for lab_id, lab in one.report.labs.items() if lab.status == "graded" and lab_id not in known
        ]:
            yield f"{one.hand_in.place} does not count, and has {' and '.join(more)}, which {chosen.hand_in.place} has not"


def _with_borrowed_names(found: Sequence[Standing], roster: Roster) -> list[Standing]:
    """Whose numbers did the answers use? A neighbour's name, and one that several wrote, are worth a look."""
    shared = Counter(numbers for one in found for numbers in set(map(drawn_from, _names_written(one))))
    of_files: dict[Path, list[Person | None]] = {}  # of a group's files there is one
    for one in found:
        for path in one.graded.hand_in.holds:
            of_files.setdefault(path, []).append(one.person)
    checked = []
    for one in found:
        odd = []
        for text in _names_written(one):
            named = roster.called(text)
            group = [who for path in one.graded.hand_in.holds for who in of_files[path]]
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
