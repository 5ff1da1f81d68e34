"""Predictions are locked before the numbers are shown; what comes after is noted; a file changed by hand is refused."""

from __future__ import annotations

import pytest

from grader.notebook import NotYet
from grader.notebook.predicting import after, lock, reveal


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "predictions.json"
    monkeypatch.setenv("GRADER_PREDICTIONS", str(path))
    return path


def test_nothing_is_revealed_before_a_prediction(file):
    for missing in (None, ..., "fast", True, float("nan")):
        with pytest.raises(NotYet, match="prediction"):
            lock("claim", missing, "us")
    with pytest.raises(NotYet, match="Predict first"):
        reveal("claim")
    assert not file.exists()


def test_a_cell_that_goes_on_with_the_numbers_waits_for_them(file):
    lock("claim", 3, "us")
    for claim in ("claim", "other"):
        with pytest.raises(NotYet, match="Predict first"):
            after(claim)
    reveal("claim")
    after("claim")


def test_the_last_prediction_before_the_reveal_counts(file, capsys):
    lock("claim", 3, "us")
    lock("other", 7, "us")
    lock("claim", 4, "us")
    assert reveal("claim").value == 4
    lock("claim", 10, "us")
    assert "4 us stays your prediction; 10 is noted" in capsys.readouterr().out
    lock("claim", 10, "us")
    lock("claim", 4, "us")
    said = reveal("claim")
    assert said.value == 4
    assert capsys.readouterr().out.endswith("After the numbers were shown you wrote 10.\n")
    assert reveal("other").value == 7
    capsys.readouterr()
    for found, words in ((4.5, "well predicted"), (40, "off by a factor of 10"), (-1, "no factor")):
        said.against(found)
        assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [(0, "times as fast", "above 0"), (-1.5, "tokens", "above 0"), (101, "% zeros", "from 0 to 100"), (-1, "% zeros", "from 0 to 100")],
)
def test_what_cannot_be_is_not_locked(file, value, unit, words):
    with pytest.raises(NotYet, match=words):
        lock("claim", value, unit)
    assert not file.exists()


def test_a_file_changed_by_hand_is_refused(file):
    lock("claim", 3, "us")
    reveal("claim")
    file.write_text(file.read_text().replace("3.0", "4.0"))
    with pytest.raises(NotYet, match="changed by hand"):
        reveal("claim")
    file.write_text("[1]")
    with pytest.raises(NotYet, match="cannot be read"):
        lock("claim", 3, "us")
