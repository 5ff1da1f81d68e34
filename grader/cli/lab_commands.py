"""`lab`: what students type. Checks and grades on their own machine as `python -m grader` does, and submits to the course server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from grader.cli.arguments import application, errors, labs_named, refuse
from grader.cli.command_options import Profile, Work, work
from grader.cli.grade import grade, watch
from grader.client import Client, result_line, sign_in
from grader.reporting.text import Terminal, prose

app = application("The student's command: check and grade here, submit to the course's server.")

Lab = Annotated[str, typer.Argument(help="The lab, such as w8a8.")]


@app.command()
def check(lab: Lab, path: Work = None) -> None:
    """Check one lab's kernel on Triton's interpreter: right or wrong, and why. No speed, no GPU."""
    grade(path, lab=[lab], device="cpu")


app.command()(grade)
app.command()(watch)


@app.command()
def login(
    url: Annotated[str, typer.Argument(help="The course server's address, such as https://lab.example.org.")],
    token: Annotated[
        str, typer.Option(prompt="Your token", hide_input=True, help="Leave it out, and you will be asked for it.")
    ],
) -> None:
    """Remember the course server and your token."""
    sign_in(url, token)
    typer.echo(f"signed in to {url}")


@app.command()
def submit(
    lab: Lab,
    path: Work = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the answer.")] = True,
    profile: Profile = False,
) -> None:
    """Submit one lab's kernel to the course server, and wait for its answer. Only the kernel's text is sent."""
    from grader.model import Refusal
    from grader.reading import read

    source = read(work(path), labs_named([lab]), all_labs=True).labs[lab]
    if isinstance(source, Refusal):
        raise refuse(source.message)
    client = Client()
    sent = client.submit(source, profile=profile)
    errors.print(f"attempt {sent['id']}: {escape(prose(sent['words']))}", soft_wrap=True)
    if not wait:
        return
    console = Terminal(highlight=False)
    try:
        with errors.status("waiting") as status:
            found = client.follow(sent["id"], lambda words: status.update(escape(words)))
    except KeyboardInterrupt:
        errors.print(f"attempt {sent['id']} goes on without you; `lab status` has its answer")
        raise typer.Exit(130) from None
    for text, style in found.get("remarks", ()):
        console.print(escape(text), style=style or None, soft_wrap=True)
    console.print(f"attempt {found['id']}: {escape(result_line(found))}", style="bold")
    console.print(f"Report with pictures: {escape(client.account.url + found['page'])}", soft_wrap=True)


@app.command()
def status() -> None:
    """List your last attempts."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for column in ("attempt", "lab", "submitted (UTC)", "what became of it"):
        table.add_column(column)
    for one in Client().attempts():
        moment = datetime.fromtimestamp(one["submitted_at"], UTC)
        table.add_row(str(one["id"]), escape(one["lab"]), f"{moment:%Y-%m-%d %H:%M}", escape(result_line(one)))
    Terminal(highlight=False).print(table)


@app.command()
def cancel(attempt: Annotated[int, typer.Argument(min=1)]) -> None:
    """Take an attempt out of the queue, or off its way."""
    found = Client().cancel(attempt)
    typer.echo(f"attempt {found['id']}: {found['words']}")


@app.command()
def board(lab: Annotated[str | None, typer.Argument(help="Only this lab.")] = None) -> None:
    """Show the board, under pseudonyms."""
    found = Client().board()
    console = Terminal(highlight=False)
    for name, one in found["labs"].items():
        if lab in (None, name) and one["rows"]:
            table = Table(title=escape(name), box=None, padding=(0, 1), header_style="dim", title_justify="left")
            table.add_column("who")
            for column in ("points", *(["ratio in all", *one["cases"]] if one["cases"] else [])):
                table.add_column(escape(column), justify="right")
            for row in one["rows"]:
                you = " (you)" if row["who"] == found["you"] else ""
                ratios = [row["ratio"], *(row["cases"].get(case) for case in one["cases"])] if one["cases"] else []
                cells = ["" if value is None else f"{value:.2f}" for value in ratios]
                table.add_row(escape(row["who"]) + you, "" if row["points"] is None else f"{row['points']:g}", *cells)
            console.print(table)


def main() -> None:
    """The entry point `lab`."""
    app(prog_name="lab")


if __name__ == "__main__":
    main()
