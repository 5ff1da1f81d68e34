"""Numbers over time as a small picture of lines: SVG as it stands in a page, coloured by the page's style sheet."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from grader.reporting.terminal import number

WIDTH, HEIGHT, MARGIN = 640, 180, 34


def curve(moments: Sequence[float], values: Sequence[float], goal: float, label: str) -> Markup:
    """Values from 0 up at moments in seconds, ascending, and a line at `goal`; empty for fewer than two values."""
    if len(values) < 2:
        return Markup("")
    top, span = 1.08 * max(*values, goal), max(moments[-1] - moments[0], 1.0)

    def height(value: float) -> str:
        return f"{HEIGHT - MARGIN / 2 - value / top * (HEIGHT - MARGIN):.1f}"

    across = [f"{MARGIN + (moment - moments[0]) / span * (WIDTH - 2 * MARGIN):.1f}" for moment in moments]
    places = list(zip(across, map(height, values), strict=True))
    line, dots = " ".join(map(",".join, places)), "".join(f'<circle cx="{x}" cy="{y}" r="3.5"/>' for x, y in places)
    words = f"{len(values)} attempts: first {number(values[0])}, last {number(values[-1])}; the line is {label}"
    ends = f'x1="{MARGIN}" x2="{WIDTH - MARGIN}"'
    return Markup(
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{words}">'
        f'<line class="axis" {ends} y1="{height(0)}" y2="{height(0)}"/>'
        f'<line class="goal" {ends} y1="{height(goal)}" y2="{height(goal)}"/>'
        f'<text x="{MARGIN}" y="{float(height(goal)) - 5:.1f}">{label}</text><polyline points="{line}"/>{dots}</svg>'
    )
