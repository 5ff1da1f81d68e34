#!/usr/bin/env bash
# How fast a real course server answers: `N=60 GAP=2 tests/serving_rate.sh`. Nine submissions one after the other, then N, one every GAP seconds,
# each by another student and of another text, on whatever this machine grades on.
set -euo pipefail
N=${N:-60} GAP=${GAP:-2} D=$(mktemp -d)
(echo login; seq 80 | sed s/^/s/) > "$D/r.csv"
python3 -m grader tokens $D/c.sqlite --roster $D/r.csv --out $D/t.csv; python3 -m grader serve $D/c.sqlite --port 8422 --lab w8a8 --lab w4a16 --lab dds 2> $D/log &
S=$!
trap 'kill "$S"; tail -3 "$D/log"; rm -rf "$D"' EXIT
N=$N GAP=$GAP D=$D python3 - <<'P'
import csv, os, pathlib, statistics, tempfile, time
from grader.client import Account, Client
from grader.labs import get_lab
from grader.reading import read
tokens = [row["token"] for row in csv.DictReader(open(os.environ["D"] + "/t.csv"))]
count, gap = int(os.environ["N"]), float(os.environ["GAP"])
def of(at): return Client(Account("http://127.0.0.1:8422", tokens[at]))
def send(at):
    lab = ("w8a8", "w4a16", "dds")[at % 3]; text = pathlib.Path(f"solutions/{lab}.py").read_text()
    path = pathlib.Path(tempfile.mkdtemp(), f"{lab}.py"); path.write_text(text.replace("acc", f"acc{at}"))
    return of(at).submit(read(path, [get_lab(lab)], all_labs=True).labs[lab])["id"]
for _ in range(120):
    try: of(0).attempts(); break
    except Exception: time.sleep(1)
def took(news): return news["finished_at"] - news["submitted_at"]
idle = [of(at).follow(send(at)) for at in range(min(9, count))]
print("idle:", sorted(round(took(one), 1) for one in idle), "median", statistics.median(map(took, idle)), [one["words"] for one in idle], [one["points"] for one in idle])
began, ids = time.time(), []
for at in range(9, 9 + count):
    time.sleep(max(0, began + (at - 9) * gap - time.time())); ids.append((at, send(at)))
done = [of(at).follow(number) for at, number in ids]
span = max(one["finished_at"] for one in done) - began
print(f"{count} in {span:.0f} s = {60 * count / span:.1f} a minute; median answer {statistics.median(map(took, done)):.1f} s, longest {max(map(took, done)):.1f} s", {one["words"] for one in done})
P
