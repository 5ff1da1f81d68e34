"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

DeviceChoice = Literal["auto", "cpu", "cuda"]
EngineChoice = Literal["local", "ray"]
Labs = Annotated[list[str] | None, typer.Option("--lab", help="Only this lab; can be repeated.")]
DeviceOption = Annotated[DeviceChoice, typer.Option(help="auto: the GPU if there is one.")]
FOLDERS = ("notebooks", "assignment", ".")
"""Where a student's work is, when no path is given: the first of these that is there."""
Work = Annotated[
    Path | None, typer.Argument(help="A .py, an .ipynb or a folder (default: notebooks/, assignment/ or here).")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Parallel sandboxes (default: one per core).")]
Html = Annotated[Path | None, typer.Option("--html", help="Write the report as one HTML page to this file.")]
Profile = Annotated[
    bool, typer.Option("--profile", help="On a GPU: where the time goes, line by line (Nsight Compute's ncu).")
]
ClassDevice = Annotated[DeviceChoice, typer.Option(help="auto: every visible GPU, or the CPU if there is none.")]
EngineOption = Annotated[EngineChoice, typer.Option(help="local: this machine; ray: a cluster.")]
Address = Annotated[str | None, typer.Option(help="Address of the Ray cluster (default: start one on this machine).")]
Accelerator = Annotated[
    str | None, typer.Option(help="In a mixed cluster, Ray's name of the GPU to grade speed on, such as H200.")
]


def work(path: Path | None) -> Path:
    """The path that was given, or where a student's work is."""
    return path or next(Path(name) for name in FOLDERS if Path(name).is_dir())
