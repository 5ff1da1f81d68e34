"""Products this small are done before a second thread has woken."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def small_products(one_thread):
    """Of every test here."""
