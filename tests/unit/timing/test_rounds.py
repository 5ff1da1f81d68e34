"""Which rounds of a race count: those that the host had queued before the GPU began with them."""

from __future__ import annotations

import torch

from grader.timing import rounds


class Event:
    """`begun`: whether the GPU is past it by the time that all is queued."""

    def __init__(self, at_ms, begun=False):
        self.at_ms, self.begun = at_ms, begun

    def query(self):
        return self.begun

    def elapsed_time(self, end):
        return end.at_ms - self.at_ms


class Contestant:
    def prepare(self):
        pass

    def inspect(self):
        pass


def raced(monkeypatch, late, count):
    """A race of so many rounds whose replays take 1, 2, 3 ... millionths of a millisecond; `late`: the replays that begin too soon."""
    replays = iter(range(1, 1000))

    def replayed(one):
        number = next(replays)
        return Event(0.0, number in late), Event(1e-6 * number)

    monkeypatch.setattr(rounds, "timed_replay", replayed)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    timings = rounds.race(Contestant(), Contestant(), count)
    return [tuple(round(1e6 * time) for time in pair) for pair in timings.a], next(replays) - 1


def test_a_round_that_the_host_was_late_for_is_repeated(monkeypatch):
    assert raced(monkeypatch, (), 3) == ([(1, 4), (5, 8), (9, 12)], 12)
    for late in (5, 6, 8):
        assert raced(monkeypatch, (late,), 3) == ([(1, 4), (9, 12), (13, 16)], 16)


def test_a_host_that_is_always_late_ends_the_race_all_the_same(monkeypatch):
    rounds_done, replays = raced(monkeypatch, range(1000), 3)
    assert (len(rounds_done), replays) == (3, 24)
