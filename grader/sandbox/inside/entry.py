"""Where a process of the sandbox begins: `entry.py MODULE ARGUMENT...` calls that module's `main`.

The packages around what is mounted exist by name only: neither their own code nor this folder as a place of modules is there.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

GRADER = Path(__file__).parents[2]


def main() -> None:
    """The module is named as it is outside, so that it has one name everywhere."""
    sys.path[:] = [place for place in sys.path if place != str(Path(__file__).parent)]
    for name in ("grader", "grader.sandbox", "grader.building"):
        package = ModuleType(name)
        package.__path__ = [str(GRADER.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    module, *arguments = sys.argv[1:]
    importlib.import_module(f"grader.sandbox.inside.{module}").main(arguments)


if __name__ == "__main__":
    main()
