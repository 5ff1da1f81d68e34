"""What a browser asks for: one's own attempts, their reports, the board, the instructor's page."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment

from grader.classroom.batch.overview import pseudonym_of
from grader.classroom.batch.workers import WorkFailed
from grader.classroom.server.board import curve_of, stuck
from grader.classroom.server.dispatching import DRAINING, PAUSED
from grader.classroom.server.service import (
    COOKIE,
    CurrentMember,
    CurrentService,
    OwnAttempt,
    member,
    member_of_token,
    same_origin,
    service_of,
)
from grader.classroom.server.store import HOUR, Member
from grader.reporting import page as html

HERE = Path(__file__).parent
SESSION_SECONDS = 12 * 3600
FAILURES_SHOWN = 20
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SWITCHES = {"pause": (PAUSED, "yes"), "resume": (PAUSED, ""), "drain": (DRAINING, "yes"), "open": (DRAINING, "")}

router = APIRouter(default_response_class=HTMLResponse)


async def _token(request: Request) -> str:
    """The token of a form. Raises 403 for a form of another site."""
    if not same_origin(request):
        raise HTTPException(403, "this request comes from another page; use the pages of this server")
    return parse_qs((await request.body()).decode(errors="replace")).get("token", [""])[0].strip()


def _instructor(who: CurrentMember) -> Member:
    if not who.instructs:
        raise HTTPException(404, "there is nothing here")
    return who


Instructor = Annotated[Member, Depends(_instructor)]


@router.get("/health")
def health(service: CurrentService) -> Response:
    """For whoever watches over the server."""
    still = bool(service.dispatcher.trouble)
    return Response("the queue stands still\n" if still else "ok\n", 503 if still else 200)


@router.get("/style.css")
def style() -> Response:
    files = [html.HERE / "page.css", html.HERE / "class.css", HERE / "course.css"]
    return Response("".join(file.read_text(encoding="utf-8") for file in files), media_type="text/css")


@router.get("/live.js")
def script() -> Response:
    return Response((HERE / "live.js").read_text(encoding="utf-8"), media_type="text/javascript")


@router.get("/")
def own(request: Request) -> str:
    """One's own attempts, or where to sign in."""
    if COOKIE not in request.cookies and "authorization" not in request.headers:
        return sign_in()
    service, who = service_of(request), member(request)
    attempts = service.store.attempts_of(who.login)
    labs = []
    for lab in service.labs:
        mine = [one for one in attempts if one.lab == lab]
        labs.append((lab, curve_of(mine), [(one, service.as_json(one)) for one in mine]))
    you = pseudonym_of(who.login, service.secret)
    return _page("own.html.j2", "Your attempts", who, labs=labs, you=you, due=service.due)


@router.post("/login")
def login(request: Request, token: Annotated[str, Depends(_token)]) -> Response:
    member_of_token(request, token)
    answer, secure = RedirectResponse("/", 303), request.url.scheme == "https"
    answer.set_cookie(COOKIE, token, SESSION_SECONDS, httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/logout")
def logout(who: CurrentMember) -> Response:
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(COOKIE)
    return answer


@router.get("/board")
def board(service: CurrentService, who: CurrentMember) -> str:
    you = pseudonym_of(who.login, service.secret)
    return _page("board.html.j2", "Board", who, boards=service.boards(), you=you, due=service.due)


@router.get("/attempts/{number}")
def report(service: CurrentService, mine: OwnAttempt) -> Response:
    if mine.state not in ("done", "failed"):
        return RedirectResponse("/", 303)
    try:
        text = service.page_of(mine.id, mine.key, f"{mine.lab}, attempt {mine.id}")
    except WorkFailed:
        raise HTTPException(503, "the page could not be drawn; the instructor's log says why") from None
    return HTMLResponse(text, headers={"content-security-policy": REPORT_POLICY})


@router.post("/attempts/{number}/cancel")
def cancel_here(service: CurrentService, who: CurrentMember, mine: OwnAttempt) -> Response:
    service.store.cancel(mine.id)
    return RedirectResponse("/instructor" if who.instructs else "/", 303)


@router.get("/instructor")
def instructor(service: CurrentService, who: Instructor) -> str:
    """The queue, the GPUs, who is stuck."""
    store, since = service.store, time.time() - HOUR
    places = service.places()
    attempts = store.attempts_until(time.time())
    waits = [one.finished_at - one.submitted_at for one in attempts if one.finished_at and one.finished_at > since]
    return _page(
        "instructor.html.j2",
        "The course",
        who,
        service=service,
        running=store.in_state("running"),
        waiting=sorted(store.in_state("queued"), key=lambda one: places.get(one.id, len(places))),
        failed=store.in_state("failed")[-FAILURES_SHOWN:],
        names={one.login: one.name for one, _ in store.members()},
        stuck=stuck(attempts),
        paused=bool(store.setting(PAUSED)),
        draining=bool(store.setting(DRAINING)),
        finished=len(waits),
        median=statistics.median(waits) if waits else None,
    )


@router.post("/instructor/{switch}")
def act(service: CurrentService, who: Instructor, switch: Literal["pause", "resume", "drain", "open"]) -> Response:
    service.store.set(*SWITCHES[switch])
    return RedirectResponse("/instructor", 303)


@router.post("/attempts/{number}/first")
def first(service: CurrentService, who: Instructor, mine: OwnAttempt) -> Response:
    service.store.move_to_front(mine.id)
    return RedirectResponse("/instructor", 303)


def sign_in(sentence: str = "") -> str:
    """The page that asks for a token, with what was wrong, if anything."""
    return _page("login.html.j2", "Course server", None, sentence=sentence)


@cache
def _templates() -> Environment:
    return html.templates(HERE, moment=lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M"))


def _page(template: str, title: str, who: Member | None, **values: object) -> str:
    return _templates().get_template(template).render(title=title, who=who, now=time.time(), **values)
