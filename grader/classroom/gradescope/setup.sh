#!/usr/bin/env bash
# Runs once, as root, while Gradescope builds the image: a Python with the grader's packages in /autograder/venv.
#   PIP_OPTIONS   options for pip; default: PyTorch's index of builds without CUDA, which are ten times smaller
set -eu
root=${AUTOGRADER_ROOT:-/autograder}
options=${PIP_OPTIONS---extra-index-url https://download.pytorch.org/whl/cpu}

export DEBIAN_FRONTEND=noninteractive
apt-get update
found=
for version in 3.12 3.11; do
  if apt-get install -y "python$version" "python$version-venv"; then
    found=python$version
    break
  fi
done
[ -n "$found" ] || { echo "this image has neither Python 3.12 nor 3.11; choose Ubuntu 22.04 or 24.04" >&2; exit 1; }

"$found" -m venv "$root/venv"
# shellcheck disable=SC2086
"$root/venv/bin/python" -m pip install --no-cache-dir $options -c "$root/source/constraints.txt" -e "$root/source"
chmod -R go-w "$root/source"
[ ! -f "$root/source/secrets.toml" ] || chmod 600 "$root/source/secrets.toml"
