"""How much may one client ask for? Sizes, seconds and rates, before anything else looks at a request."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_BODY = 1 << 19
"""Bytes of a request: a kernel's text of 128 KB, escaped, and the places of its lines."""
BODY_SECONDS = 15.0
HEAD_SECONDS = 10.0
TOO_LATE = f"the request did not come within {BODY_SECONDS:g} s; send it again"
TOO_LARGE = f"the request has more than {MAX_BODY >> 10} KB; send the kernel's text alone"
PER_MINUTE = 120
"""Requests of one client, on average; as many at once."""
FAILURES_PER_MINUTE = 30
"""Requests of one address with a token that is none."""
MAX_CLIENTS = 10_000

PLAIN = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; "
HEADERS = {
    "content-security-policy": PLAIN + "base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


class Rates:
    """A bucket of requests for each client, filled evenly; the clients that were longest silent are forgotten."""

    def __init__(self, per_minute: float) -> None:
        self._most = per_minute
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> bool:
        """Takes one out; False where less than one was left."""
        now = time.monotonic()
        left, since = self._buckets.pop(client, (self._most, now))
        left = min(self._most, left + (now - since) * self._most / 60)
        self._buckets[client] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return left >= 1


class RequestGuard:
    """Around the application: whole bodies within their limits, or a sentence; and headers that every answer has."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _whole(receive)
        except ConnectionError:
            return
        except (TimeoutError, OverflowError) as error:
            status, sentence = (408, TOO_LATE) if isinstance(error, TimeoutError) else (413, TOO_LARGE)
            await PlainTextResponse(f"{sentence}\n", status, {"connection": "close"})(scope, receive, guarded)
            return
        rest = [body]

        async def replayed() -> Message:
            return {"type": "http.request", "body": rest.pop(), "more_body": False} if rest else await receive()

        await self._application(scope, replayed, guarded)


async def _whole(receive: Receive) -> bytes:
    """The whole body. Raises OverflowError past MAX_BODY, ConnectionError where the client left before the end."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise OverflowError
        more = message.get("more_body", False)
    return bytes(body)


class TimedProtocol(H11Protocol):
    """uvicorn's protocol, which by itself waits for a request's head as long as a client likes."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._watch(gone=True)

    def _watch(self, *, gone: bool = False) -> None:
        """Closes the connection HEAD_SECONDS after a head was due, if none has come."""
        due = not gone and (self.cycle is None or self.cycle.response_complete)
        if due and self._waiting is None:
            self._waiting = self.loop.call_later(HEAD_SECONDS, self.transport.close)
        elif not due and self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
