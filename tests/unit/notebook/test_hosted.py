"""On Colab and Kaggle the first cell installs the lab; elsewhere it does nothing. A GPU older than 8.0 is left alone."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

from grader.authoring.hosted import installing, repository_url, unset
from grader.notebook.own_kernels import usable_gpu
from grader.unusable import Unusable
from tests.submissions import TESTS

ROOT = TESTS.parent
REPOSITORY = "https://github.com/somebody/labs"


@pytest.mark.parametrize("place", ["COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", ""])
@pytest.mark.parametrize("there", [True, False])
def test_the_first_cell_installs_on_a_hosted_notebook_only(monkeypatch, tmp_path, place, there):
    calls: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", lambda command, check: calls.append(command))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if there else None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"):
        monkeypatch.delenv(name, raising=False)
    if place:
        monkeypatch.setenv(place, "1")
    exec(installing(REPOSITORY, ROOT), {})
    if not place or there:
        assert calls == []
    else:
        clone, install = calls
        assert clone[:2] == ["git", "clone"]
        assert clone[-2:] == [REPOSITORY, "lab"]
        assert install[1:3] == ["-m", "pip"]
        assert sys.path[0] == os.path.join(os.getcwd(), "lab")


def test_the_repository_is_named_once(tmp_path):
    assert not unset(REPOSITORY)
    assert repository_url(ROOT).startswith("https://github.com/")
    with pytest.raises(Unusable, match="Repository"):
        repository_url(tmp_path)


@pytest.mark.parametrize(("capability", "usable"), [((7, 5), False), ((6, 0), False), ((8, 0), True), ((9, 0), True)])
def test_a_gpu_that_is_too_old_is_left_alone(monkeypatch, capability, usable):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert usable_gpu() is usable
