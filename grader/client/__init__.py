"""The course server as students meet it: where it is, with which token, and what it answers. For `lab` and for notebooks."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from grader.reporting.atomic import write_whole
from grader.reporting.text import prose
from grader.unusable import Unusable

if TYPE_CHECKING:  # it imports torch, and the command line answers without
    from grader.model import KernelSource

SERVER, TOKEN = "LAB_SERVER", "LAB_TOKEN"
"""Environment variables that count before the file that `lab login` writes."""
SECONDS = 30.0
EVERY_SECONDS, PATIENCE = 1.5, 300.0
"""How often a server is asked for an answer, and how long it may be away meanwhile."""
BUSY = (429, 502, 503, 504)
"""What a server, or the proxy before it, answers that may do what was asked a little later."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")
NOT_SIGNED_IN = (
    "no course server is known; run `lab login https://ADDRESS` in a terminal, with the token from your instructor"
)


@dataclass(frozen=True)
class Account:
    """A server's address and a student's token for it."""

    url: str
    token: str


def account_file() -> Path:
    """The file that `lab login` writes."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "triton-kernel-lab" / "server.json"


def account() -> Account:
    """What environment or file say. Raises Unusable where nobody signed in."""
    try:
        written = json.loads(account_file().read_text(encoding="utf-8"))
        url, token = str(written["url"]), str(written["token"])
    except (OSError, ValueError, KeyError, TypeError):
        url, token = "", ""
    found = Account(os.environ.get(SERVER) or url, os.environ.get(TOKEN) or token)
    if not found.url or not found.token:
        raise Unusable(NOT_SIGNED_IN)
    return found


def sign_in(url: str, token: str) -> None:
    """Keeps address and token in a file that only its owner can read, when the server knows the token. Raises Unusable."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unusable(f"{url} is not a server's address; expected one such as https://lab.example.org")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise Unusable(f"{url} would send your token unencrypted; use https://")
    found = Account(url.rstrip("/"), token.strip())
    Client(found).attempts()
    account_file().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(account_file(), json.dumps({"url": found.url, "token": found.token}), 0o600)


class _NotNow(Unusable):
    """No answer, which may come a little later."""


class Client:
    """Requests with one account; every method raises Unusable."""

    def __init__(self, of: Account | None = None) -> None:
        self.account = of or account()

    def submit(self, source: KernelSource, *, profile: bool = False) -> dict[str, Any]:
        """Hands in a kernel's text, and nothing else; a request that got lost is repeated and counts once. profile: ask where its time
        goes, too."""
        lines = [[line.place[:200], line.line, line.name[:200], line.step] for line in source.lines]
        upload: dict[str, Any] = {
            "lab": source.lab_id,
            "text": source.module,
            "lines": lines,
            "request": uuid.uuid4().hex,
        }
        upload |= {"profile": True} if profile else {}
        return dict(self._request("POST", "/api/attempts", upload, attempts=3))

    def attempts(self) -> list[dict[str, Any]]:
        """The last attempts, the newest first."""
        return list(self._request("GET", "/api/attempts"))

    def cancel(self, number: int) -> dict[str, Any]:
        """Takes an attempt out of the queue, or off its way."""
        return dict(self._request("POST", f"/api/attempts/{number}/cancel"))

    def board(self) -> dict[str, Any]:
        return dict(self._request("GET", "/api/board"))

    def follow(self, number: int, listen: Callable[[str], None] = lambda words: None) -> dict[str, Any]:
        """Waits for an attempt's answer; `listen` hears where it stands. A server that comes back in time is waited for."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                news: dict[str, Any] = self._request("GET", f"/api/attempts/{number}")
                until = time.monotonic() + PATIENCE
                if news["ended"]:
                    return news
                listen(prose(str(news["words"])))
            except _NotNow:
                if time.monotonic() > until:
                    raise Unusable(
                        f"{self.account.url} does not answer any more; attempt {number} is kept: `lab status`"
                    ) from None
                listen("the server does not answer; trying again")
            time.sleep(EVERY_SECONDS)

    def _request(self, method: str, path: str, content: Mapping[str, Any] | None = None, attempts: int = 1) -> Any:
        import httpx

        for left in reversed(range(attempts)):
            try:
                with self._http() as http:
                    answer = http.request(method, path, json=content)
                break
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                if not left:
                    raise _NotNow(
                        f"{self.account.url} cannot be reached ({type(error).__name__}); try again later"
                    ) from None
        if answer.status_code >= 300:
            raise (_NotNow if answer.status_code in BUSY else Unusable)(_sentence(answer))
        try:
            return answer.json()
        except ValueError:
            raise Unusable(f"{self.account.url} is not a course server; check the address") from None

    def _http(self) -> Any:
        import httpx

        here = urlsplit(self.account.url).hostname in LOOPBACK
        headers = {"Authorization": f"Bearer {self.account.token}"}
        return httpx.Client(base_url=self.account.url, headers=headers, timeout=SECONDS, trust_env=not here)


def result_line(news: Mapping[str, Any]) -> str:
    """What an attempt came to, in a line."""
    words = prose(str(news["words"]))
    if news["state"] != "done":
        return words
    ratio = f", {news['ratio']:.2f} times as fast as cuBLAS fp16" if news["ratio"] else ""
    return f"{news['points']:g} of {news['max_points']:g} points{ratio}" + ("" if words == "graded" else f", {words}")


def _sentence(answer: Any) -> str:
    """What the server said of a request that it refused."""
    try:
        return prose(str(answer.json()["error"]))
    except (ValueError, KeyError, TypeError):
        return f"the server answered with status {answer.status_code}; try again later"
