"""What `lab`, notebooks and pages ask for, as JSON. docs/server.md lists the requests."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as AnyHTTPException

from grader.classroom.batch.overview import pseudonym_of
from grader.classroom.server import web
from grader.classroom.server.dispatching import DRAINING
from grader.classroom.server.service import CurrentMember, CurrentService, OwnAttempt, Service
from grader.classroom.server.store import NotAccepted
from grader.classroom.server.throttling import RequestGuard
from grader.reading import MAX_MODULE_CHARS

SHOWN = 20
"""Attempts that are listed."""

Text = Annotated[str, Field(max_length=200)]
Number = Annotated[int, Field(ge=0, le=10**7)]
Place = tuple[Text, Number] | tuple[Text, Number, Text, Number]


class Upload(BaseModel):
    """A submission. lines: of each line of `text` the fields of its SourceLine; without a name where a client sends two.

    request: 32 hexadecimal digits of the client's; the same again is the same submission. profile: say where the time goes, too.
    """

    model_config = ConfigDict(extra="forbid")
    lab: str = Field(max_length=40)
    text: str = Field(min_length=1, max_length=MAX_MODULE_CHARS)
    lines: list[Place] = Field(default=[], max_length=20000)
    request: str = Field(pattern="^[0-9a-f]{32}$")
    profile: bool = False


def application(service: Service) -> RequestGuard:
    """The ASGI application."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service
    app.add_exception_handler(RequestValidationError, _refused)
    app.add_exception_handler(AnyHTTPException, _refused)
    app.include_router(router)
    app.include_router(web.router)
    return RequestGuard(app)  # type: ignore[arg-type]


async def _refused(request: Request, error: Exception) -> Response:
    """Every refusal is one sentence, and repeats nothing of the request."""
    status = error.status_code if isinstance(error, AnyHTTPException) else 422
    sentence = "the request is not one that this server knows; update `lab`"
    if isinstance(error, HTTPException):
        sentence = error.detail
    elif isinstance(error, AnyHTTPException):
        sentence = "there is nothing here" if status == 404 else "this cannot be done here"
    headers = getattr(error, "headers", None)
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": sentence}, status, headers)
    return HTMLResponse(web.sign_in(sentence), status, headers)


router = APIRouter(prefix="/api")


@router.post("/attempts", status_code=202)
def submit(upload: Upload, service: CurrentService, who: CurrentMember) -> dict[str, Any]:
    """Queues a submission."""
    if upload.lab not in service.labs:
        raise HTTPException(422, f"this server grades {', '.join(service.labs)}, and no other lab")
    if upload.profile and service.setup.device.kind != "cuda":
        raise HTTPException(422, "this server has no GPU to profile on; submit without --profile")
    if service.store.setting(DRAINING):
        raise HTTPException(503, "the server takes no new submissions now; try again later")
    try:
        return service.as_json(service.store.submit(who.login, **dict(upload), per_hour=service.per_hour))
    except NotAccepted as problem:
        raise HTTPException(429, str(problem)) from None


@router.get("/attempts")
def attempts(service: CurrentService, who: CurrentMember) -> list[dict[str, Any]]:
    """The last attempts, the newest first."""
    return [service.as_json(one) for one in service.store.attempts_of(who.login, SHOWN)]


@router.get("/attempts/{number}")
def attempt(service: CurrentService, mine: OwnAttempt) -> dict[str, Any]:
    return service.as_json(mine)


@router.post("/attempts/{number}/cancel")
def cancel(service: CurrentService, mine: OwnAttempt) -> dict[str, Any]:
    """Takes an attempt out of the queue, or off its way."""
    if not service.store.cancel(mine.id):
        raise HTTPException(409, f"attempt {mine.id} has ended; there is nothing to cancel")
    return {"id": mine.id, "words": "cancelled"}


@router.get("/board")
def board(service: CurrentService, who: CurrentMember) -> dict[str, Any]:
    labs = {lab: asdict(one) for lab, one in service.boards().items()}
    return {"you": pseudonym_of(who.login, service.secret), "labs": labs}
