#!/usr/bin/env bash
# The wheel as a course meets it: `tests/wheel.sh BIN KERNEL`, where BIN belongs to an environment with the wheel and its extra `server`.
# A roster of three, a served course, a submission from another process, its answer and the board; run from an empty folder.
set -euo pipefail
bin=$(realpath "$1")
kernel=$(realpath "$2")
place=$(mktemp -d)
cd "$place"
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; rm -rf "$place"' EXIT
printf 'login,name\nann,Ann Doe\nbob,Bob\ncarl,Carl\n' > roster.csv
"$bin/python" -m grader tokens course.sqlite --roster roster.csv --instructor prof --out tokens.csv
"$bin/python" -m grader serve course.sqlite --port 8411 & server=$!
for _ in $(seq 120); do
  "$bin/python" -c 'import httpx; httpx.get("http://127.0.0.1:8411/health", trust_env=False)' 2>/dev/null && break
  sleep 1
done
export LAB_SERVER=http://127.0.0.1:8411 LAB_TOKEN=$(sed -n 's/^ann,,//p' tokens.csv)
"$bin/lab" submit "$(basename "$kernel" .py)" "$kernel"
"$bin/lab" status
"$bin/lab" board
kill "$server"
wait "$server" || true
"$bin/python" -m grader batch --server course.sqlite --roster roster.csv --out report | cat
cut -d, -f1-6 report/grades.csv
