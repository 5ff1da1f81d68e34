"""How much may one client ask for? Sizes, seconds and rates, before anything else looks at a request."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_BODY = 1 << 19
"""Bytes of a request: a kernel's text of 128 KB, escaped, and the places of its lines."""
BODY_SECONDS = 15.0
HEAD_SECONDS = 10.0
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

    def take(self, client: str, amount: int = 1) -> bool:
        """Takes some out; False where less than one was left."""
        now = time.monotonic()
        left, since = self._buckets.pop(client, (self._most, now))
        left = min(self._most, left + (now - since) * self._most / 60)
        self._buckets[client] = (max(0.0, left - amount), now)
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return left >= 1


class Door:
    """Around the application: whole bodies within their limits, or a sentence; and headers that every answer has."""

    def __init__(self, application: ASGIApp, body_seconds: float = BODY_SECONDS) -> None:
        self._application, self._seconds = application, body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                more = [
                    (name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in known
                ]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        try:
            body = await asyncio.wait_for(_whole(receive), self._seconds)
        except TimeoutError:
            await _refuse(guarded, 408, f"the request did not come within {self._seconds:g} s; send it again")
            return
        except OverflowError:
            await _refuse(guarded, 413, f"the request has more than {MAX_BODY >> 10} KB; send the kernel's text alone")
            return
        except ConnectionError:
            return
        rest = [body]

        async def replayed() -> Message:
            return {"type": "http.request", "body": rest.pop(), "more_body": False} if rest else await receive()

        await self._application(scope, replayed, guarded)


async def _whole(receive: Receive) -> bytes:
    """The whole body. Raises OverflowError past MAX_BODY, ConnectionError where the client left before the end."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise OverflowError
        if not message.get("more_body"):
            return bytes(body)


async def _refuse(send: Send, status: int, sentence: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{sentence}\n".encode()})


class Impatient(H11Protocol):
    """uvicorn's protocol, which by itself waits for a request's head as long as a client likes."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_waiting()
        elif self.cycle is None or self.cycle.response_complete:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
