"""Every verdict, kept as soon as it is known: an SQLite file, a row for each distinct piece of work.

A verdict's key is a digest of all it depends on, so that nothing is graded twice and nothing stale is used. Points are no part of it:
they follow from verdicts whenever these are read (grader/judging/points.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from grader import __version__
from grader.classroom.batch.verdicts import from_json, structured, to_json, unstructured
from grader.classroom.hidden_cases import Secrets
from grader.model import Device, KernelSource, LabReport
from grader.unusable import Unusable

SCHEMA = """
CREATE TABLE IF NOT EXISTS verdict (
    key TEXT PRIMARY KEY, lab TEXT NOT NULL, graded_at REAL NOT NULL, digest TEXT NOT NULL, report TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS in_force (work TEXT PRIMARY KEY, key TEXT NOT NULL, device TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS known (key TEXT PRIMARY KEY, value BLOB NOT NULL);
"""
"""in_force: of a kernel's text the verdict that the class's files were last made from, and on what it was graded. known: what else was
found out, by a digest of all it depends on."""

COLUMNS = {"verdict": 5, "in_force": 3, "setting": 2}
"""What is saved from a damaged file."""


class JournalFull(RuntimeError):
    """A verdict could not be written; the message says why. What was written before is safe."""


ALL_CODE = (".py", ".toml", ".j2", ".css", ".js")
WITHOUT_A_SAY = ("__main__.py", "cli", "classroom", "authoring", "notebook", "exercises", "reporting")
"""What of grader/ decides no verdict: a new column of a table is no reason to grade a class again."""
SCORING = ("judging/rubric.toml", "judging/tiers")
"""What gives points for verdicts: they are given anew whenever a verdict is read."""
OF_NOTEBOOKS = ("steps.py", "slips.toml")
"""What of a lab decides none either: the steps of its notebook, and what often goes wrong in them."""
OF_THE_CLASS = ("classroom/batch/verdicts.py", "classroom/hidden_cases.py")
"""What does all the same: how a verdict is kept, and which hidden cases are drawn."""


@cache
def grader_digest(root: Path = Path(__file__).parents[2]) -> str:
    """The digest of the grader's own code, as far as a verdict depends on it. Some 10 ms, once a process."""
    return _digest_of_files(root, _has_a_say)


@cache
def code_digest(root: Path = Path(__file__).parents[2]) -> str:
    """The digest of the grader's own code, tables and templates, what gives points apart: what is cheap to find out anew depends on it."""
    return _digest_of_files(root, lambda name: name.endswith(ALL_CODE) and not name.startswith(SCORING))


def _has_a_say(name: str) -> bool:
    """Whether verdicts depend on a file of grader/."""
    parts = name.split("/")
    if not name.endswith((".py", ".toml")) or parts[-1] in OF_NOTEBOOKS or name.startswith(SCORING):
        return False
    return parts[0] not in WITHOUT_A_SAY or name in OF_THE_CLASS


def _digest_of_files(root: Path, chosen: Callable[[str], bool]) -> str:
    names = sorted(name for path in root.rglob("*") if chosen(name := path.relative_to(root).as_posix()))
    return digest_of("\0".join(f"{name}\0{(root / name).read_text(encoding='utf-8')}" for name in names))


def verdict_key(source: KernelSource, device: Device, secrets: Secrets) -> str:
    """The digest of what a verdict depends on: source, grader, secrets, and the kind of device."""
    parts = [
        work_key(source),
        __version__,
        grader_digest(),
        secrets.fingerprint,
        device.kind,
        device.name if device.kind == "cuda" else "",
        device.torch,
        device.triton,
        *(["profile"] if source.profile else []),
    ]
    return digest_of(json.dumps(parts))


def work_key(source: KernelSource) -> str:
    """The digest of a kernel's text. Where it stood (file, cell, line) does not count."""
    return digest_of(json.dumps([source.lab_id, source.kernel, source.grid, source.module]))


class Journal:
    """The open journal. Use as a context manager; one process at a time may hold it.

    `notes` tells what was found amiss on opening: of a damaged file, what could be read is kept, and the file itself
    is put aside under another name.
    """

    def __init__(self, path: Path) -> None:
        """Raises Unusable when another batch holds it, JournalFull when it cannot be created."""
        self.path = path
        self.notes: list[str] = []
        self._lock = _locked(path)
        try:
            found = self._salvaged() if path.exists() and not _sound(path) else {}
            self._database = opened(path, SCHEMA)
            with self._database:
                for table, rows in found.items():
                    places = ", ".join("?" * COLUMNS[table])
                    self._database.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({places})", rows)
        except (sqlite3.Error, OSError) as error:
            self._lock.close()
            raise JournalFull(
                f"{path} cannot be written ({error}); free some space or choose another with --journal"
            ) from None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._database.close()
        self._lock.close()

    def get(self, key: str) -> LabReport | None:
        """The verdict of this key; None when there is none, or none that is whole."""
        try:
            row = self._database.execute("SELECT report, digest FROM verdict WHERE key = ?", (key,)).fetchone()
            return from_json(row[0]) if row and digest_of(row[0]) == row[1] else None
        except Exception:  # a row that this grader cannot read is a kernel to grade, not the end of a batch
            return None

    def put(self, key: str, report: LabReport) -> None:
        """Keeps a verdict; when this returns it is on the disk. Raises JournalFull when it is not."""
        text = to_json(report)
        row = (key, report.lab_id, time.time(), digest_of(text), text)
        self._write("INSERT OR REPLACE INTO verdict VALUES (?, ?, ?, ?, ?)", row)

    def use(self, work: str, key: str, device: Device) -> None:
        """Says that of this text this verdict is in force from now on, graded on `device`."""
        row = (key, json.dumps(asdict(device)))
        if self._database.execute("SELECT key, device FROM in_force WHERE work = ?", (work,)).fetchone() != row:
            self._write("INSERT OR REPLACE INTO in_force VALUES (?, ?, ?)", (work, *row))

    def in_force(self, work: str) -> tuple[LabReport, Device] | None:
        """The verdict on this text that the class's files were last made from, whatever has changed since; None without one."""
        row = self._database.execute("SELECT key, device FROM in_force WHERE work = ?", (work,)).fetchone()
        verdict = self.get(row[0]) if row else None
        return (verdict, Device(**json.loads(row[1]))) if verdict else None

    def take_from(self, path: Path) -> None:
        """Takes over the verdicts, the seed and the pseudonyms' secret of another journal, which may be in use. Raises JournalFull."""
        try:
            self._database.execute("ATTACH ? AS other", (str(path),))
            with self._database:
                self._database.execute("INSERT OR IGNORE INTO verdict SELECT * FROM other.verdict")
                self._database.execute(
                    "INSERT OR REPLACE INTO setting SELECT * FROM other.setting WHERE name IN ('seed', 'pseudonyms')"
                )
            self._database.execute("DETACH other")
        except sqlite3.Error as error:
            raise JournalFull(f"the verdicts of {path} cannot be taken into {self.path} ({error})") from None

    def setting(self, name: str, default: str) -> str:
        """A setting of this journal: the first value ever given for it."""
        self._write("INSERT OR IGNORE INTO setting VALUES (?, ?)", (name, default))
        return str(self._database.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()[0])

    def recall(self, key: str, kind: Any) -> Any:
        """What `remember` was given for this key; None where that is not known, or this grader cannot read it."""
        row = self._database.execute("SELECT value FROM known WHERE key = ?", (key,)).fetchone()
        with contextlib.suppress(Exception):
            return structured(zlib.decompress(row[0]).decode(), kind) if row else None

    def remember(self, key: str, value: Any, kind: Any) -> None:
        """Keeps what was found out, which is of this kind. Raises JournalFull when it is not on the disk."""
        packed = zlib.compress(unstructured(value, kind).encode())
        self._write("INSERT OR REPLACE INTO known VALUES (?, ?)", (key, packed))

    def _write(self, statement: str, row: tuple[Any, ...]) -> None:
        try:
            with self._database:
                self._database.execute(statement, row)
        except sqlite3.Error as error:
            raise JournalFull(
                f"{self.path} cannot be written ({error}); every verdict before is safe: free some space and run the "
                "same command again"
            ) from None

    def _salvaged(self) -> dict[str, list[tuple[Any, ...]]]:
        """Whole rows of a damaged journal, by table; the file is put aside."""
        aside = self.path.with_name(f"{self.path.name}.damaged-{int(time.time())}")
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")
        rows = {
            table: [row for row in _readable_rows(aside, table) if len(row) == count]
            for table, count in COLUMNS.items()
        }
        rows["verdict"] = [row for row in rows["verdict"] if digest_of(str(row[4])) == row[3]]
        self.notes.append(
            f"{self.path.name} was damaged: {len(rows['verdict'])} verdicts could be read, the others are graded again; the damaged "
            f"file is kept as {aside.name}"
        )
        return rows


def _locked(path: Path) -> TextIO:
    lock = path.with_name(f"{path.name}.lock")
    try:
        file = lock.open("a+", encoding="utf-8")
    except OSError as error:
        raise JournalFull(f"{lock} cannot be written ({error.strerror}); choose another place with --journal") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise Unusable(
            f"another batch (process {holder}) writes to {path}; wait for it, or give this one a journal of its own "
            "with --journal"
        ) from None
    with contextlib.suppress(OSError):
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
    return file


def opened(path: Path, schema: str) -> sqlite3.Connection:
    """A file in which a transaction is on the disk when it has ended; for any thread."""
    database = sqlite3.connect(path, timeout=30, check_same_thread=False)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.executescript(schema)
    return database


def _sound(path: Path) -> bool:
    try:
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("SELECT COUNT(*) FROM verdict WHERE length(report) < 0").fetchone()
            return bool(database.execute("PRAGMA quick_check").fetchone()[0] == "ok")
    except sqlite3.OperationalError as error:
        return "no such table" in str(error)
    except sqlite3.DatabaseError:
        return False


def _readable_rows(path: Path, table: str) -> Iterator[tuple[Any, ...]]:
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path)) as database:
        yield from database.execute(f"SELECT * FROM {table}")


def digest_of(text: str) -> str:
    """Of any text, one that is no UTF-8 too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
