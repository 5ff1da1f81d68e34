"""The course server's queue: fair, once, through the journal; and the term's attempts as hand-ins."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from grader.classroom.batch.coordinating import Plan, run_batch
from grader.classroom.batch.journal import Journal
from grader.classroom.batch.marks import Rules
from grader.classroom.batch.standing import standings
from grader.classroom.batch.term_attempts import hand_ins
from grader.classroom.roster import Person, Roster
from grader.classroom.server.board import curve_of, stuck
from grader.classroom.server.store import DUE, HOUR, AttemptAnswer, NotAccepted, Store, digest
from grader.unusable import Unusable
from tests.course_server import Timed, course, kernel
from tests.reports import H200
from tests.stub_class import PoolHere

ANSWER = AttemptAnswer("graded", 0.0, 100.0, 60.0, None, {}, "", [])


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "course.sqlite")
    opened.admit([Person("ann"), Person("bob"), Person("carl")], "student", 1)
    yield opened
    opened.close()


def put(store, login, number, text="text", lab="w8a8", per_hour=100):
    return store.submit(login, lab=lab, text=text, lines=[], request=f"{number:032x}", per_hour=per_hour)


def test_everybodys_next_comes_before_anybodys_second(store):
    ids = [put(store, login, number).id for number, login in enumerate(["ann", "ann", "ann", "bob", "carl"])]
    assert [store.begin_next().id for _ in range(3)] == [ids[0], ids[3], ids[4]]
    assert store.begin_next() is None, "each has one running"
    store.finish(ids[0], "done", ANSWER)
    store.finish(ids[3], "done", ANSWER)
    put(store, "bob", 9)
    assert store.begin_next().login == "ann", "served longest ago"
    store.move_to_front(store.waiting()[-1][0])
    assert store.waiting()[0][1] == "ann"


def test_the_same_request_is_one_attempt_and_a_rate_has_an_end(store):
    assert put(store, "ann", 1).id == put(store, "ann", 1).id
    assert put(store, "bob", 1).login == "bob", "requests of two are two"
    with pytest.raises(NotAccepted, match="try again in 60 min"):
        put(store, "ann", 2, per_hour=1)
    for number in range(2, 6):
        put(store, "ann", number)
    with pytest.raises(NotAccepted, match="waiting already"):
        put(store, "ann", 7)


def test_what_ran_when_the_server_was_killed_waits_again_and_what_ended_stays_ended(store):
    one = put(store, "ann", 1)
    store.begin_next()
    assert store.requeue() == 1
    assert store.attempt(one.id).state == "queued"
    assert store.cancel(one.id)
    assert not store.cancel(one.id)
    store.finish(one.id, "done", ANSWER)
    assert store.attempt(one.id).state == "cancelled"


def test_tokens_are_kept_as_digests_and_end(store, tmp_path):
    (token,) = store.admit([Person("dora", "Dora")], "student", 1).values()
    assert store.admit([Person("dora")], "student", 1) == {}
    assert token.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert store.member(digest(token)).login == "dora"
    renewed = store.admit([Person("dora")], "student", 1, renew=True)["dora"]
    assert store.member(digest(token)) is None
    assert store.revoke("dora")
    assert store.member(digest(renewed)) is None
    expired = store.admit([Person("eve")], "student", -1)["eve"]
    assert store.member(digest(expired)) is None


def test_a_file_that_is_none_is_a_sentence(tmp_path):
    (tmp_path / "course.sqlite").write_bytes(b"not a database " * 100)
    with pytest.raises(Unusable, match="restore its backup"):
        Store(tmp_path / "course.sqlite")


def test_a_kernel_is_graded_once_whoever_submits_it_and_a_batch_finds_it(tmp_path):
    with course(tmp_path) as world:
        for number, login in enumerate(["ann", "bob", "ann"]):
            assert world.submit(login, kernel(1), number).status_code == 202
        world.submit("carl", kernel(2, '\n    tl.static_print("WRONG")'), 9)
        world.submit("carl", "x = (\n", 10)
        world.wait()
        assert len(world.engine.given) == 2
        done = world.service.store.in_state("done")
        assert [one.answer.status for one in done] == ["graded"] * 4 + ["rejected"]
        assert done[0].answer.ratio > 0
        assert "<svg" in curve_of(done[:2])
        secret, setup = world.service.secret, world.service.setup
    store, engine = Store(tmp_path / "course.sqlite"), Timed()
    pool: Any = PoolHere()
    with Journal(tmp_path / "batch.sqlite") as journal:
        journal.take_from(tmp_path / "course.sqlite")
        assert journal.setting("pseudonyms", "another") == secret
        collected = hand_ins(store, journal, Rules("best"), Roster(), H200)
        plan = Plan(store.path, ("w8a8",), setup, collected=collected)
        outcome = run_batch(plan, journal, pool, lambda: engine)
    assert engine.given == []
    assert [(one.hand_in.student, one.report.labs["w8a8"].status) for one in outcome.graded] == [
        ("ann", "graded"), ("bob", "graded"), ("carl", "graded"),
    ]
    assert {one.fate for one in outcome.accounts(standings(outcome.graded, Rules("best")))} == {"graded"}
    store.close()


@pytest.mark.parametrize("attempts", ["last", "best"])
def test_the_last_or_the_best_attempt_counts(tmp_path, attempts):
    with course(tmp_path) as world:
        world.submit("ann", kernel(90), 1)
        world.wait()
        world.submit("ann", kernel(0), 2)
        world.wait()
        collected = hand_ins(world.service.store, world.service.journal, Rules(attempts), Roster(), H200)
        place = tmp_path / "hand_ins"
        place.mkdir()
        (one,) = collected(place).hand_ins
        assert next(iter(one.taken)).read_text() == kernel(90 if attempts == "best" else 0)


def test_who_is_stuck(store):
    for number in range(3):
        one = put(store, "ann", number)
        store.begin_next()
        store.finish(one.id, "done", replace(ANSWER, trouble="odd_m fails"))
    assert stuck(store.attempts_until(time.time())) == [("ann", "w8a8", "odd_m fails", 3)]


def test_a_profile_is_asked_for_by_its_author_and_counts_as_the_verdict_that_it_is_beside(tmp_path):
    with course(tmp_path) as world:
        graded = world.engine._report
        world.engine._report = lambda source: replace(graded(source), profile=("warps wait",) if source.profile else ())
        with world.client() as http:
            asked = {"lab": "w8a8", "text": kernel(3), "request": "1" * 32, "profile": True}
            assert http.post("/api/attempts", json=asked).status_code == 202
            world.wait()
            assert http.post("/api/attempts", json={**asked, "request": "2" * 32, "profile": False}).status_code == 202
        world.wait()
        first, second = (world.service.store.attempt(number) for number in (1, 2))
        assert (first.profile, second.profile) == (True, False)
        assert first.key != second.key
        assert [any("warps wait" in text for text, _ in one.answer.remarks) for one in (first, second)] == [True, False]
        assert len(world.engine.given) == 1, "a verdict with a profile is one without"
        world.service.setup = replace(world.service.setup, device=replace(H200, kind="cpu"))
        with world.client() as http:
            refused = http.post("/api/attempts", json={**asked, "request": "3" * 32})
        assert (refused.status_code, "no GPU to profile on" in refused.text) == (422, True)


def running(world, number=1):
    """Until this attempt is with the engine."""
    until = time.monotonic() + 10
    while world.service.dispatcher.stages.get(number) != "being graded":
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_runs_can_be_cancelled_and_its_author_goes_on_when_it_has_left_the_gpu(tmp_path):
    with course(tmp_path, speed=10) as world:  # 0.7 s a kernel
        for number in (1, 2):
            world.submit("ann", kernel(number), number)
        running(world)
        with world.client() as http:
            assert http.post("/api/attempts/1/cancel").json() == {"id": 1, "words": "cancelled"}
            assert http.get("/api/attempts/1").json()["state"] == "cancelled"
            assert world.service.store.attempt(2).state == "queued", "the engine still has the first"
            world.wait()
            assert http.post("/api/attempts/1/cancel").status_code == 409
        first, second = (world.service.store.attempt(number) for number in (1, 2))
        assert (first.state, first.answer, second.state) == ("cancelled", None, "done")
        assert second.started_at > first.finished_at
        assert world.engine.cancelled == world.engine.given[:1]
        assert [world.service.journal.get(key) is not None for key in world.engine.given] == [False, True]


def test_a_kernel_is_graded_for_whoever_else_waits_for_it(tmp_path):
    with course(tmp_path, speed=10) as world:
        world.submit("ann", kernel(1), 1)
        world.submit("bob", kernel(1), 2)
        running(world)
        running(world, 2)
        assert world.service.store.cancel(1)
        world.wait()
        assert world.engine.cancelled == []
        world.submit("ann", kernel(2), 3)
        running(world, 3)
        assert world.service.store.cancel(3)
        while not world.engine.cancelled:
            time.sleep(0.01)
        world.submit("bob", kernel(2), 4)
        world.wait()
        assert [world.service.store.attempt(number).state for number in (1, 2, 3, 4)] == ["cancelled", "done", "cancelled", "done"]
        assert len(world.engine.given) == 3, "the second was given up and begun again"


def test_what_was_begun_counts_for_the_rate_though_it_was_cancelled(store):
    one = put(store, "ann", 1)
    store.begin_next()
    store.cancel(one.id)
    with pytest.raises(NotAccepted, match="1 times within an hour"):
        put(store, "ann", 2, per_hour=1)
    two = put(store, "bob", 1)
    store.cancel(two.id)
    put(store, "bob", 2, per_hour=1)


def test_a_deadline_freezes_the_board_and_what_comes_later_is_late(tmp_path):
    opened, due = Store(tmp_path / "course.sqlite"), time.time() - HOUR
    opened.set(DUE, datetime.fromtimestamp(due, UTC).isoformat())
    opened.close()
    with course(tmp_path) as world, world.client() as http:
        world.submit("ann", kernel(1), 1)
        world.wait()
        world.service.store._change("UPDATE attempt SET submitted_at = ?", due - 1)
        world.submit("ann", kernel(99), 2)
        world.submit("bob", kernel(98), 3)
        world.wait()
        assert [one["late"] for one in http.get("/api/attempts").json()] == [True, False]
        students = [row for row in http.get("/api/board").json()["labs"]["w8a8"]["rows"] if row["student"]]
        assert [row["ratio"] for row in students] == [world.service.store.attempt(1).answer.ratio]
        assert "The board is frozen" in http.get("/board").text


def test_what_an_instructor_can_stop(tmp_path):
    with course(tmp_path) as world, world.client("prof") as http:
        assert http.post("/instructor/pause").status_code == 303
        ids = [world.submit(login, kernel(number), number).json()["id"] for number, login in enumerate(["ann", "bob", "carl"])]
        time.sleep(0.3)
        assert [one.id for one in world.service.store.in_state("queued")] == ids
        assert "the queue is paused" in world.service.status(world.service.store.attempt(ids[0]))
        assert http.post(f"/attempts/{ids[2]}/first").status_code == 303
        assert [number for number, _ in world.service.store.waiting()] == [ids[2], *ids[:2]]
        assert http.post("/instructor/drain").status_code == 303
        assert world.submit("ann", kernel(7), 7).status_code == 503
        assert http.post("/instructor/resume").status_code == 303
        world.wait()
        assert len(world.service.store.in_state("done")) == 3
        assert http.post("/instructor/open").status_code == 303
        assert world.submit("ann", kernel(7), 7).status_code == 202
        assert http.post("/instructor/sleep").status_code == 422


def test_as_many_kernels_are_on_their_way_as_there_are_slots(tmp_path):
    with course(tmp_path, students=8, speed=0.5) as world:  # eleven seconds a build
        for number, login in enumerate(login for login in world.tokens if login != "prof"):
            world.submit(login, kernel(number), number)
        until = time.monotonic() + 10
        while len(world.engine.given) < 6:
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(0.3)
        assert len(world.engine.given) == len(world.service.store.in_state("running")) == 6
        assert len(world.service.store.in_state("queued")) == 2
