"""Where can a notebook be opened without installing anything, and what must it do there first?"""

from __future__ import annotations

import tomllib
from pathlib import Path
from string import Template

from grader.unusable import Unusable

UNSET = "OWNER"
"""The owner in the repository's address as long as nobody has said where it lies."""

INSTALLING = Path("notebooks") / "source" / "parts" / "install.py"


def repository_url(root: Path) -> str:
    """The address of the published repository, `https://github.com/OWNER/NAME`, from pyproject.toml. Raises Unusable."""
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return str(project["urls"]["Repository"]).rstrip("/")
    except (OSError, KeyError, tomllib.TOMLDecodeError):
        raise Unusable("pyproject.toml has no [project.urls] with a Repository; write its address there") from None


def unset(repository: str) -> bool:
    """Whether the address is still the placeholder, so that badges lead nowhere."""
    return f"/{UNSET}/" in repository


def badges(repository: str, notebook: str) -> str:
    """A row of Markdown: open this notebook, a path in the repository, on Colab or on Kaggle."""
    path = repository.removeprefix("https://github.com/")
    colab = f"https://colab.research.google.com/github/{path}/blob/main/{notebook}"
    kaggle = f"https://kaggle.com/kernels/welcome?src={repository}/blob/main/{notebook}"
    return (
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab}) "
        f"[![Open in Kaggle](https://kaggle.com/static/images/open-in-kaggle.svg)]({kaggle})"
    )


def installing(repository: str, root: Path) -> str:
    """Source of the cell that installs the lab on a hosted notebook, and does nothing elsewhere."""
    text = (root / INSTALLING).read_text(encoding="utf-8")
    return Template(text).substitute(REPOSITORY=repository).strip("\n")
