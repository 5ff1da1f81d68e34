"""What requests work with: the course's state, who asks, and for which attempt."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from functools import lru_cache
from typing import Annotated, Any, TypeVar, cast
from urllib.parse import urlsplit

from fastapi import Depends, HTTPException, Request

from grader.classroom.batch.workers import FIRST, SHORT_SECONDS
from grader.classroom.server.board import boards
from grader.classroom.server.dispatching import PAUSED, Dispatcher
from grader.classroom.server.kernel_text import draw
from grader.classroom.server.store import Attempt, Member, digest
from grader.classroom.server.throttling import FAILURES_PER_MINUTE, PER_MINUTE, Rates

COOKIE = "lab_token"
CACHE_SECONDS = 2.0
"""How old a board or a place in the queue may be that is shown."""
Result = TypeVar("Result")
NO_TOKEN = "the token is missing, unknown, expired or revoked; ask your instructor for a new one"


def briefly_cached(function: Callable[[], Result]) -> Callable[[], Result]:
    """The function, whose last result is given again for CACHE_SECONDS at most."""
    cached = lru_cache(maxsize=1)(lambda moment: function())
    return lambda: cached(time.monotonic() // CACHE_SECONDS)


class Service:
    """The course. due: when the board freezes, in seconds since 1970, or None; gpus: what their names are."""

    def __init__(self, dispatcher: Dispatcher, labs: Sequence[str], per_hour: int, gpus: Sequence[str] = ()) -> None:
        self.dispatcher, self.labs, self.per_hour, self.gpus = dispatcher, labs, per_hour, gpus
        self.store, self.journal, self.setup = dispatcher.store, dispatcher.journal, dispatcher.setup
        self.due = self.store.due.timestamp() if self.store.due else None
        self.secret = self.journal.setting("pseudonyms", secrets.token_hex(16))
        self.rates, self.failures = Rates(PER_MINUTE), Rates(FAILURES_PER_MINUTE)
        self.page_of = lru_cache(maxsize=64)(self._page_of)
        self.boards = briefly_cached(
            lambda: boards(self.store.attempts_until(self.due or math.inf), labs, self.setup.device, self.secret)
        )
        self.places = briefly_cached(lambda: {number: at for at, (number, _) in enumerate(self.store.waiting())})

    def status(self, attempt: Attempt) -> str:
        """Where an attempt stands, for people."""
        if attempt.state == "queued":
            paused = "; the queue is paused" if self.store.setting(PAUSED) else ""
            places = self.places()  # one that is too new to have a place is the last
            return f"waiting, {places.get(attempt.id, len(places))} before it{paused}"
        if attempt.state == "running":
            return self.dispatcher.stages.get(attempt.id, "being graded")
        return (attempt.answer.status if attempt.answer else attempt.state).replace("_", " ")

    def as_json(self, attempt: Attempt) -> dict[str, Any]:
        """An attempt as clients get it."""
        fields = ("id", "lab", "state", "submitted_at", "finished_at", "ended")
        return {
            **{name: getattr(attempt, name) for name in fields},
            "words": self.status(attempt),
            "late": self.due is not None and attempt.submitted_at > self.due,
            **(asdict(attempt.answer) if attempt.answer else {}),
            "page": f"/attempts/{attempt.id}",
        }

    def _page_of(self, number: int, key: str, name: str) -> str:
        """A report's page, by the attempt's number and its verdict's key. Raises WorkFailed."""
        attempt = self.store.attempt(number)
        assert attempt is not None
        report = self.journal.get(key) if key else None
        kernel = attempt.lab, *self.store.content(number)
        drawing: Future[str] = self.dispatcher.pool.submit(
            FIRST, draw, *kernel, report, self.setup.device, name, seconds=SHORT_SECONDS
        )
        return drawing.result()


def service_of(request: Request) -> Service:
    return cast(Service, request.app.state.service)


def member_of_token(request: Request, token: str) -> Member:
    """Who holds a token. Raises 401 for one that is none, 429 where a token, or an address without one, asks too often."""
    service, address, held = service_of(request), request.client.host if request.client else "", digest(token.strip())
    found = service.store.member(held)
    if not (service.rates.take(held) if found else service.failures.take(address)):
        raise HTTPException(429, "too many requests; wait a few seconds", {"Retry-After": "5"})
    if found is None:
        raise HTTPException(401, NO_TOKEN)
    return found


def member(request: Request) -> Member:
    """Whose request it is, by its header or by the cookie of the pages. Raises 401, 429, and 403 for a form of another site."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return member_of_token(request, token)
    found = member_of_token(request, request.cookies.get(COOKIE, ""))
    if request.method == "POST" and not same_origin(request):
        raise HTTPException(403, "this request comes from another page; use the pages of this server")
    return found


def same_origin(request: Request) -> bool:
    """Whether a browser sent it from a page of this server."""
    origin = request.headers.get("origin")
    if origin is not None:
        return urlsplit(origin).netloc == request.headers.get("host")
    return request.headers.get("sec-fetch-site") == "same-origin"


CurrentService = Annotated[Service, Depends(service_of)]
CurrentMember = Annotated[Member, Depends(member)]


def own_attempt(number: int, service: CurrentService, who: CurrentMember) -> Attempt:
    """An attempt that this member may see. Raises 404, alike for others' and for none."""
    found = service.store.attempt(number) if 0 < number < 1 << 62 else None
    if found is None or (found.login != who.login and not who.instructs):
        raise HTTPException(404, "you have no such attempt; `lab status` lists those that you have")
    return found


OwnAttempt = Annotated[Attempt, Depends(own_attempt)]
