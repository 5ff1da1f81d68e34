"""Attacks on the course server: nothing is told, nothing breaks, and others are served meanwhile."""

from __future__ import annotations

import io
import json
import socket
import sqlite3
import sys
import time
from urllib.parse import urlsplit

import pytest

from grader.classroom.server import throttling
from grader.classroom.server.throttling import MAX_BODY, Rates
from grader.client import Account, Client
from grader.reading import MAX_MODULE_CHARS
from tests.course_server import course, kernel


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    before = throttling.HEAD_SECONDS
    throttling.HEAD_SECONDS = 0.5
    with course(tmp_path_factory.mktemp("course")) as found:
        found.submit("ann", kernel(1, "  # <script>alert(1)</script>"))
        found.wait()
        yield found
    throttling.HEAD_SECONDS = before


OF_MEMBERS = ("/api/attempts", "/api/attempts/1", "/api/board", "/attempts/1", "/board", "/instructor")
TRICKS = (
    "/../course.sqlite", "/%2e%2e/course.sqlite", "/attempts/../../etc/passwd", "/attempts/1%00", "/attempts/-1", "//etc/passwd",
    "/api/attempts/1e3", "/api/attempts/99999999999999999999999", "/docs", "/openapi.json", "/live.js%2f..",
)


def upload(number=99, **fields):
    return {"lab": "w8a8", "text": kernel(5), "request": f"{number:032x}", **fields}


def test_without_a_token_there_is_nothing(world):
    for token in ("-", "lab_0", "x" * 5000, "ann", "é"):
        with world.client() as http:
            held = {"authorization": f"Bearer {token}".encode()}
            for path in OF_MEMBERS:
                answer = http.get(path, headers=held)
                assert answer.status_code == 401, path
                assert "ann" not in answer.text


def test_others_attempts_look_like_none(world):
    with world.client("bob") as http:
        for place in ("/api/attempts/{}", "/attempts/{}"):
            others, none = http.get(place.format(1)), http.get(place.format(777))
            assert others.status_code == none.status_code == 404
            assert others.text == none.text
        assert http.post("/api/attempts/1/cancel").status_code == 404
        assert http.get("/instructor").status_code == 404
        assert http.post("/instructor/pause", headers={"origin": world.url}).status_code == 404
    with world.client("prof") as http:
        assert http.get("/attempts/1").status_code == 200


def test_paths_lead_nowhere(world):
    with world.client() as http:
        for path in TRICKS:
            answer = http.get(path)
            assert answer.status_code in (404, 422), path
            assert "root:" not in answer.text


def test_uploads_that_are_none_are_one_sentence(world):
    marker = "SECRETMARKER"
    bodies = [
        {}, upload(extra=1), upload(text=""), upload(text=marker + "x" * MAX_MODULE_CHARS), upload(request="../x"),
        upload(lab="nolab"), upload(lab="../../etc"), upload(lines=[[marker, -1]]), upload(lines=[[marker * 100, 1]]), upload(text=5),
        upload(text="\ud800" + marker), [marker],
    ]
    with world.client() as http:
        for body in bodies:
            answer = http.post("/api/attempts", content=json.dumps(body), headers={"content-type": "application/json"})
            assert answer.status_code == 422
            assert list(answer.json()) == ["error"]
            assert marker not in answer.text
        assert http.post("/api/attempts", content=b"\xff{" * 9, headers={"content-type": "application/json"}).status_code == 400
        assert http.post("/api/attempts", content=b"[" * 100_000, headers={"content-type": "application/json"}).status_code == 400
        assert http.post("/api/attempts", content=b"x" * (MAX_BODY + 1)).status_code == 413
        assert http.put("/api/attempts").status_code == 405


def raw(world, data, wait=5.0):
    """What a connection that sends these bytes, and then nothing, gets to hear until it is closed."""
    parts = urlsplit(world.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=wait) as connection:
        connection.sendall(data)
        heard = b""
        while part := connection.recv(65536):
            heard += part
    return heard


def test_half_uploads_and_slow_clients_are_let_go(world):
    token = world.tokens["ann"]
    head = f"POST /api/attempts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    before = len(world.service.store.attempts_of("ann"))
    began = time.monotonic()
    assert raw(world, b"GET /board HTT") == b""
    assert raw(world, b"") == b""
    assert time.monotonic() - began < 4
    parts = urlsplit(world.url)
    for body in (b'{"lab": "w8a8", "te', b""):
        with socket.create_connection((parts.hostname, parts.port)) as connection:
            connection.sendall((head + "Content-Length: 5000\r\n\r\n").encode() + body)
    assert b"400" in raw(world, b"\x16\x03\x01\x00\xa5" * 20)[:200]
    assert len(world.service.store.attempts_of("ann")) == before
    with world.client() as http:
        assert http.get("/board").status_code == 200


def test_a_replayed_request_is_one_attempt(world):
    with world.client("bob") as http:
        first = http.post("/api/attempts", json=upload(7))
        world.wait()
        again = http.post("/api/attempts", json=upload(7, text=kernel(6)))
        assert first.json()["id"] == again.json()["id"]
        assert again.json()["state"] == "done"
        assert http.post(f"/api/attempts/{first.json()['id']}/cancel").status_code == 409


def test_names_are_text_and_pages_run_nothing_of_a_students(world):
    with world.client("prof") as http:
        for login in ("ann", "bob", "carl"):
            world.submit(login, kernel(8, "  # <img src=x onerror=alert(1)>"), 8)
        page = http.get("/instructor")
        assert "<b>ann" not in page.text
        world.wait()
    with world.client() as http:
        own, report = http.get("/"), http.get("/attempts/1")
        assert "&lt;b&gt;ann&lt;/b&gt; &amp; co" in own.text
        assert "script-src 'self'" in own.headers["content-security-policy"]
        assert "<script>alert" not in report.text
        assert "&lt;script&gt;alert" in report.text
        assert report.headers["content-security-policy"].startswith("default-src 'none'")
        assert "script-src" not in report.headers["content-security-policy"]
        board = http.get("/board")
        assert "ann" not in board.text.partition("<main")[2]
        assert all(page.headers["cache-control"] == "no-store" for page in (own, report, board))


def test_places_of_lines_are_shown_as_text(world):
    lines = [["<script>alert(2)</script>", number, "<script>alert(2)</script>", 2] for number in range(40)]
    with world.client("carl") as http:
        sent = http.post("/api/attempts", json=upload(11, text=kernel(9), lines=lines)).json()
        world.wait()
        assert "<script>alert(2)" not in http.get(f"/attempts/{sent['id']}").text


def test_a_form_of_another_site_does_nothing(world):
    cookie = {"cookie": f"lab_token={world.tokens['prof']}"}
    with world.client() as http:
        del http.headers["authorization"]
        for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {}):
            assert http.post("/instructor/pause", headers={**cookie, **headers}).status_code == 403
            assert http.post("/login", data={"token": world.tokens["ann"]}, headers=headers).status_code == 403
        assert not world.service.store.setting("server_paused")
        same = {"origin": world.url}
        signed = http.post("/login", data={"token": world.tokens["ann"]}, headers=same)
        assert signed.status_code == 303
        assert {"HttpOnly", "SameSite=strict"} <= set(signed.headers["set-cookie"].split("; "))
        assert http.post("/login", data={"token": "lab_no"}, headers=same).status_code == 401
        assert http.post("/instructor/pause", headers={**cookie, **same}).status_code == 303
        assert world.service.store.setting("server_paused")
        assert http.post("/instructor/resume", headers={**cookie, **same}).status_code == 303


def test_a_token_that_ended_ends_at_once(world):
    store = world.service.store
    with world.client("carl") as http:
        assert http.get("/api/attempts").status_code == 200
        with sqlite3.connect(store.path) as database:
            database.execute("UPDATE member SET expires_at = 5 WHERE login = 'carl'")
        assert http.get("/api/attempts").status_code == 401
        with sqlite3.connect(store.path) as database:
            database.execute("UPDATE member SET expires_at = 1e11 WHERE login = 'carl'")
        assert http.get("/api/attempts").status_code == 200


def test_who_waits_for_an_answer_gets_it(world, monkeypatch):
    monkeypatch.setattr("grader.client.EVERY_SECONDS", 0.1)
    with world.client("bob") as http:
        sent = http.post("/api/attempts", json=upload(21, text=kernel(21))).json()
        news = Client(Account(world.url, http.headers["authorization"].removeprefix("Bearer "))).follow(sent["id"])
    assert news["ended"]
    assert news["points"] > 0


def test_many_requests_of_one_token_are_slowed_down_and_others_are_served(world):
    before, world.service.rates = world.service.rates, Rates(60)
    try:
        with world.client("ann") as http, world.client("bob") as other:
            statuses = [http.get("/api/board").status_code for _ in range(150)]
            assert statuses.count(200) <= 70
            assert statuses[-1] == 429
            assert other.get("/api/board").status_code == 200
    finally:
        world.service.rates = before


def test_guessing_tokens_is_slow(world):
    before, world.service.failures = world.service.failures, Rates(10)
    try:
        with world.client("guess") as http:
            statuses = []
            for number in range(20):
                http.headers["authorization"] = f"Bearer lab_{number}"
                statuses.append(http.get("/api/attempts").status_code)
        assert statuses[0] == 401
        assert statuses[-1] == 429
        with world.client("bob") as http:
            assert http.get("/api/attempts").status_code == 200, "a classmate at the same address"
    finally:
        world.service.failures = before


def test_whoever_is_refused_is_served_again_at_the_rate(monkeypatch):
    now = 0.0
    monkeypatch.setattr(throttling.time, "monotonic", lambda: now)
    rates, served = Rates(60), 0
    for _ in range(600):  # ten a second, for a minute, of one that never waits
        served += rates.take("ann")
        now += 0.1
    assert served in (119, 120)


def test_buckets_are_bounded(monkeypatch):
    monkeypatch.setattr(throttling, "MAX_CLIENTS", 10)
    rates = Rates(1)
    assert all(rates.take(str(number)) for number in range(50))
    assert len(rates._buckets) == 10
    assert not rates.take("49")


def test_neither_a_token_nor_a_source_is_in_a_log(world, monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    world.submit("ann", kernel(77, "  # PRIVATE"), 77)
    world.wait()
    said = log.getvalue()
    assert "attempt" in said
    assert "PRIVATE" not in said
    assert not any(token in said for token in world.tokens.values())
