"""The command line: `python -m grader --help` lists the commands. Each module beside this one holds a group of them."""

from __future__ import annotations

from pathlib import Path

from grader.cli.arguments import application
from grader.cli.grade import grade, watch
from grader.cli.machine import calibrate, doctor, run

app = application("Grades Triton kernels: correctness anywhere, speed on an NVIDIA GPU.")
app.command()(grade)
app.command()(watch)
app.command()(doctor)
app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(run)
if (Path(__file__).parents[1] / "classroom").is_dir():  # a student's copy has no classroom and no authoring
    from grader.cli.class_commands import batch, secrets
    from grader.cli.platform_commands import classroom50, course, gradescope
    from grader.cli.release_commands import check_lab, new_lab, release
    from grader.cli.server_commands import serve, tokens

    for command in (batch, secrets, serve, tokens, course, gradescope, classroom50, release, new_lab, check_lab):
        app.command()(command)
app.command()(calibrate)
