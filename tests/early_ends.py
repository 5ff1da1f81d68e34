"""Same verdict where compiling ends early as where it goes on: every style, exploit and mistake of the tests.

    python -m tests.early_ends [--of PREFIX] [--every N]     # prints each request whose verdict differs, and how near the nearest came

Without a GPU, configs of known tiles are not compiled until their shared memory is allocated (`Compiler._request`), and kinds of operations
that became LLVM IR are not translated again (`triton_stages.lower_one`). Here both are done for each request, and compared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
from collections import Counter
from typing import Any, ClassVar

from grader.building import BuildOptions, compile_described, describe
from grader.building.sandboxed import triton_stages
from grader.building.sandboxed.operations import Operations
from grader.building.sm_limits import sm_limits
from grader.labs import get_lab
from grader.model import KernelBundle
from grader.sandbox import Answer
from tests.submissions import source_of
from tests.verdicts import submissions

HOW = BuildOptions((80, 90), "verdict", 1)
SECONDS = 300


class Both:
    """Stands in for a sandbox, in this process: only text that the grader wrote is compiled here, and nothing is launched."""

    spent = 0.0
    counted: ClassVar[Counter[str]] = Counter()
    nearest: ClassVar[float] = 0.0
    """Shared memory where it was not allocated, as a share of what a program may have; at most."""

    def __init__(self, **_how: Any) -> None:
        os.chdir(tempfile.mkdtemp())
        self.operations = Operations()

    def close(self) -> None:
        """There is nothing to end."""

    def ask(self, header: dict[str, Any], blobs: Any = (), **_limits: Any) -> Answer:
        before = set(triton_stages.TRANSLATED)
        early, sent = self.operations.answer(header, list(blobs))
        if header["op"] in ("lower", "allocate"):
            triton_stages.TRANSLATED.clear()
            whole, _ = self.operations.answer({**header, "fitting": []}, [])
            triton_stages.TRANSLATED.update(before, triton_stages.TRANSLATED)
            self.compared(header, early, whole)
        return Answer(early, sent)

    def compared(self, header: dict[str, Any], early: dict[str, Any], whole: dict[str, Any]) -> None:
        limit = sm_limits(header["capability"]).shared_bytes_per_program
        fits = [answer.get("shared_bytes", limit + 1) <= limit for answer in (early, whole)]
        known = header["op"] == "allocate" and early.get("shared_bytes") == 0
        Both.counted[f"{header['op']}{' not made' * known}"] += 1
        if known:
            Both.nearest = max(Both.nearest, whole.get("shared_bytes", limit) / limit)
        alike = early.get("plain") == whole.get("plain") and fits[0] == fits[1]
        if not alike or early.get("message") != whole.get("message"):
            Both.counted["differ"] += 1
            print(header["op"], header["capability"], header["constants"], early, whole, flush=True)


def compiled(lab_id: str, text: str) -> None:
    """One submission, as far as a batch without a GPU compiles it."""
    lab = get_lab(lab_id)
    source = source_of(lab, text)
    bundle = describe(lab, source, HOW) if source is not None else None
    if source is not None and isinstance(bundle, KernelBundle):
        compile_described(lab, source, bundle, BuildOptions(HOW.capabilities, HOW.scope, 1, start=Both))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", default="", metavar="PREFIX", help="only those whose name begins so, such as styles/")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one of N submissions")
    arguments = parser.parse_args()
    chosen = [one for one in submissions() if one[0].startswith(arguments.of)]
    total: Counter[str] = Counter()
    nearest = 0.0
    for name, lab_id, text in itertools.islice(chosen, None, None, arguments.every):
        reading, writing = os.pipe()
        child = os.fork()  # what a compiler dies of is one submission's end
        if child == 0:
            import signal

            signal.alarm(SECONDS)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            compiled(lab_id, text)
            os.write(writing, json.dumps([Both.counted, Both.nearest]).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        counted, near = json.loads(said) if said else ({"ended": 1}, 0.0)
        total.update(submissions=1, **counted)
        nearest = max(nearest, near)
        print(name, counted, f"{near:.2f}", flush=True)
    print(json.dumps({**total, "nearest": round(nearest, 3)}))


if __name__ == "__main__":
    main()
