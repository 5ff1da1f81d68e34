"""Which text is trained on and which is not, and that both are told apart by name alone."""

from __future__ import annotations

import hashlib
import json

import pytest

from grader.unusable import Unusable
from model.corpus import CHECKSUMS, held_out, held_out_text, same_in, sources, training_text


def library(folder, names):
    """A library whose files hold their own names."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"# {name}\n".encode())
    return folder


NAMES = [f"module{n}.py" for n in range(200)]
HELD_OUT = [name for name in NAMES if hashlib.sha256(name.encode()).digest()[0] < 24]


def test_a_file_is_trained_on_or_held_out_and_never_both(tmp_path):
    text = training_text(library(tmp_path, NAMES))
    assert 5 < len(HELD_OUT) < 40
    assert all((f"# {name}\n".encode() in text) != (name in HELD_OUT) for name in NAMES)
    assert [name for name in NAMES if held_out(name)] == HELD_OUT


def test_what_differs_between_machines_is_no_text(tmp_path):
    here = ["os.py", "json/encoder.py"]
    left = ["test/test_os.py", "site-packages/torch.py", "_sysconfigdata__linux.py", "config-3.11/x.py", "ctypes/test/x.py", "tkinter/x.py"]
    assert list(sources(library(tmp_path, here + left))) == sorted(here)


def test_only_files_that_are_the_same_everywhere_are_measured(tmp_path):
    folders = [library(tmp_path / name, NAMES) for name in ("a", "b")]
    (folders[1] / HELD_OUT[0]).write_text("other")
    (folders[1] / HELD_OUT[1]).unlink()
    assert list(same_in(folders)) == sorted(HELD_OUT[2:])


def test_a_file_that_differs_or_is_missing_is_named(tmp_path):
    folder, checksums = library(tmp_path / "lib", NAMES), tmp_path / "held_out.json"
    checksums.write_text(json.dumps(same_in([folder])))
    whole = held_out_text(folder, checksums)
    assert whole.differing == ()
    assert whole.files == len(HELD_OUT)
    assert whole.text.count(b"\0") == len(HELD_OUT) - 1
    (folder / HELD_OUT[0]).write_text("other")
    (folder / HELD_OUT[1]).unlink()
    changed = held_out_text(folder, checksums)
    assert set(changed.differing) == set(HELD_OUT[:2])
    assert b"other" in changed.text


def test_windows_line_ends_make_no_other_text(tmp_path):
    folder, checksums = library(tmp_path / "lib", NAMES), tmp_path / "held_out.json"
    checksums.write_text(json.dumps(same_in([folder])))
    path = folder / HELD_OUT[0]
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert held_out_text(folder, checksums).differing == ()


@pytest.mark.slow
def test_this_python_has_the_text():
    """The checksums hold names that are held out, and this Python, 3.11 or 3.12, has enough of the files as they are."""
    wanted = json.loads(CHECKSUMS.read_text())
    found = held_out_text()
    assert all(held_out(name) for name in wanted)
    assert len(found.text) > 64 * 1024
    assert len(found.differing) < len(wanted) / 2
    assert found.text[:2000] not in training_text()


def test_an_empty_library_is_refused(tmp_path):
    with pytest.raises(Unusable, match="expected the standard library"):
        training_text(tmp_path)
    with pytest.raises(Unusable, match="held-out files"):
        held_out_text(tmp_path)
