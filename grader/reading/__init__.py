"""read: from a path, or from the cells that a notebook has run, to source text.

Finds each lab's kernel, what it reaches and what may change that, and takes nothing else.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.compile_errors.source_message import pointed
from grader.labs import Lab, all_labs, steps_of_lab
from grader.labs.notebook_step import Step
from grader.model import KernelSource, Refusal, SourceLine, Submission
from grader.parsing import nodes, parse
from grader.plain_files import UnreadableFile
from grader.reading import policy
from grader.reading.executed_cells import latest
from grader.reading.files import Allowance, Cell, executed_cells, is_source, read_cells
from grader.reading.needed import needed, nested
from grader.reading.selection import Statement, constexpr_names, module_text, statements, too_deep
from grader.unusable import Unusable

MAX_FILES = 200
MAX_MODULE_CHARS = 1 << 17
"""What a kernel reaches, as text; the largest that anybody wrote for these labs has a tenth of it. Each explanation reads it again."""
MAX_FOLDERS = 5
"""Folders below a submission's that are looked into for a kernel that is not in it."""
PRUNED = "{}: prune_configs_by is not asked; every config has to be right for every size"


MISSING = Refusal(
    "not_attempted", "no file here defines this lab's kernel; start from the stub in notebooks/ or assignment/"
)


class UnusablePath(Unusable):
    """A path that cannot be a submission at all; the message is one sentence."""


@dataclass(frozen=True)
class _File:
    path: Path
    cells: tuple[Cell, ...]
    statements: tuple[Statement, ...]
    unreadable: str = ""


def read(path: Path, labs: Sequence[Lab], *, all_labs: bool = False) -> Submission:
    """Reads a .py, an .ipynb or a folder of them.

    A folder answers for every lab in `labs`; a single file for the labs that it holds (for all of them when
    `all_labs` is set or when it holds none).
    Bonus labs that were not begun are left out beside others. Raises UnusablePath for a path that is missing or of another kind.
    """
    allowance = Allowance()
    files, notes = _files(path, [lab.id for lab in labs], allowance)
    single = path.is_file()
    found, (unread, doubts) = {}, _unread(files)
    for lab in labs:
        chosen, note = _without_copies(lab, files)
        found[lab.id] = _find(lab, chosen)
        if not single:
            found[lab.id] = _in_a_folder_below(path, lab, found[lab.id], allowance)
        doubts += (note,) if note and _differ(lab, files) else ()
        kernel = found[lab.id]
        about = _notes_on(kernel) if isinstance(kernel, KernelSource) else ()
        notes += tuple(text for text in (note, *_earlier_attempts(lab, chosen), *about) if text)
    if single and not all_labs:
        found = {lab_id: result for lab_id, result in found.items() if result is not None} or found
    found = {lab.id: found[lab.id] for lab in labs if lab.id in found and not _left_out(lab, labs, found[lab.id])}
    missing = _no_kernel(files[0], labs) if single else MISSING
    whole = {lab_id: missing if result is None else result for lab_id, result in found.items()}
    return Submission(
        name=path.name,
        path=path,
        labs=whole,
        notes=notes,
        doubts=doubts,
        unread=unread | _refused(whole.values()),
    )


def _unread(files: Sequence[_File]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Of which files nothing could be read, by name, and why; and the reasons that are a loss: an empty file is none."""
    whys = [(file, why) for file in files if (why := file.unreadable or _no_python(file))]
    return {file.path.name: why for file, why in whys}, tuple(why for file, why in whys if file.path.lstat().st_size)


def _refused(found: Iterable[KernelSource | Refusal]) -> dict[str, str]:
    """In which files a kernel was begun that could not be read, by name, and why."""
    refusals = (one for one in found if isinstance(one, Refusal))
    return {name: refusal.message for refusal in refusals for name in refusal.files}


def _no_python(file: _File) -> str:
    """Why no cell of a file is Python; "" where one is."""
    return "" if any(cell.tree is not None for cell in file.cells) else next((cell.error for cell in file.cells), "")


def _notes_on(kernel: KernelSource) -> tuple[str, str]:
    """What was left out of what a kernel needs, and that nobody asks which configs it would prune."""
    pruned = re.search(r"\bprune_configs_by\s*=", kernel.module) is not None
    return kernel.note, PRUNED.format(kernel.kernel) if pruned else ""


def _left_out(lab: Lab, labs: Sequence[Lab], found: KernelSource | Refusal | None) -> bool:
    """Whether nothing is said of a lab: a bonus lab that was not begun, unless bonus labs are all that was asked for."""
    return lab.bonus and not begun(found) and not all(one.bonus for one in labs)


def begun(found: KernelSource | Refusal | None) -> bool:
    """Whether somebody worked on a lab, whatever came of it."""
    return found is not None and not (isinstance(found, Refusal) and found.status == "not_attempted")


def _in_a_folder_below(
    folder: Path, lab: Lab, found: KernelSource | Refusal | None, allowance: Allowance
) -> KernelSource | Refusal | None:
    """What was found, or where the kernel is instead: somebody worked in the notebooks of another language, say."""
    if begun(found):
        return found
    for below in itertools.islice(sorted(folder.glob(f"*/{lab.id}.ipynb")), MAX_FOLDERS):
        place = f"{below.parent.name}/{below.name}"
        if not below.parent.is_symlink() and _attempts(_read_file(below, allowance), lab.kernel):
            return Refusal(
                "not_attempted", f"{lab.kernel} is not filled in here, but it is in {place}; grade that folder instead"
            )
    return found


def read_executed(inputs: Sequence[str], lab: Lab) -> KernelSource | Refusal:
    """A lab's kernel from the cells that a notebook has run so far, by their number; the last definition counts."""
    file = _executed(inputs, lab.id)
    broken = _broken_since(file, lab.kernel)
    if broken:
        return Refusal("rejected", broken)
    found = _find(lab, [file])
    if found is None:
        return Refusal(
            "not_attempted", f"no cell that was run defines {lab.kernel}; run the one that does, then this one"
        )
    return found


def read_step(inputs: Sequence[str], lab_id: str, step: Step) -> KernelSource | Refusal:
    """A step's function from the cells that a notebook has run so far, with what it reaches and the step's harness."""
    file = _executed(inputs, lab_id)
    broken = _broken_since(file, step.function)
    if broken:
        return Refusal("not_attempted", f"{broken}\nThen run that cell, and this one")
    found = _definitions(file, step.function)
    if not found:
        return Refusal(
            "not_attempted",
            f"no cell that was run defines {step.function}; run the cell that defines it, then this one",
        )
    definition = found[-1]
    node = definition.node
    assert isinstance(node, ast.FunctionDef)
    if is_stub(node):
        return Refusal(
            "not_attempted",
            f"{step.function} is still the stub; fill it in, run its cell, then run this one again",
        )
    if not policy.is_jitted(node):
        return Refusal(
            "rejected", f"{definition.place}: {step.function} is not decorated with @triton.jit; put that above it"
        )
    if f"= {step.function}(" in step.harness and not any(part.value for part in nodes(node, ast.Return)):
        received = re.search(rf"^ +(.+) = {step.function}\(", step.harness, re.MULTILINE)
        return Refusal(
            "rejected",
            f"{definition.place}: {step.function} returns nothing; end it with return {received[1] if received else step.result}",
        )
    whole = needed(file.cells, file.statements, [step.function])
    if isinstance(whole, Refusal):
        return whole
    module, lines = module_text(whole.statements)
    harness = f"import triton\nimport triton.language as tl\n{step.harness}"
    places = (SourceLine(CHECK, number) for number in range(1, harness.count("\n") + 2))
    return KernelSource(lab_id, "harness", None, module + harness, (*lines, *places), file.path)


CHECK = "the check"
"""What lines of a step's harness are called in messages."""


def _executed(inputs: Sequence[str], lab_id: str) -> _File:
    cells = tuple(executed_cells(inputs, _numbered(lab_id)))
    return _File(Path("this notebook"), cells, tuple(latest(statements(cells))))


def _numbered(name: str) -> Mapping[str, int]:
    """By the name of a notebook, such as w8a8 or w8a8_done, which of the lab's functions which step asks for."""
    lab_id = next((lab_id for lab_id in all_labs() if name.startswith(lab_id)), "")
    return {step.function: number for number, step in enumerate(steps_of_lab(lab_id).values(), 1)}


def _files(path: Path, lab_ids: Sequence[str], allowance: Allowance) -> tuple[list[_File], tuple[str, ...]]:
    """The files that are read, in the order of their names, but for those named after a lab, which come first."""
    try:
        children = tuple(path.iterdir()) if stat.S_ISDIR(path.stat().st_mode) else ()
    except OSError as error:
        fault = (
            "does not exist"
            if isinstance(error, FileNotFoundError | NotADirectoryError)
            else f"cannot be read ({error.strerror})"
        )
        raise UnusablePath(f"{path} {fault}; give a .py, an .ipynb or a folder of them") from None
    if path.is_file():
        if not is_source(path):
            raise UnusablePath(f"{path.name} is neither .py nor .ipynb; give a .py, an .ipynb or a folder of them")
        return [_read_file(path, allowance)], ()
    candidates = sorted(
        (child for child in children if is_source(child) and not child.name.startswith(".")),
        key=lambda child: (not child.stem.lower().startswith(tuple(lab_ids)), child),
    )
    notes: list[str] = []
    if len(candidates) > MAX_FILES:
        notes.append(f"{path.name} holds {len(candidates)} .py and .ipynb files; only the first {MAX_FILES} were read")
    files = [_read_file(child, allowance) for child in candidates[:MAX_FILES]]
    notes += [file.unreadable for file in files if file.unreadable]
    return files, tuple(notes)


def _read_file(path: Path, allowance: Allowance) -> _File:
    try:
        cells = tuple(read_cells(path, allowance, _numbered(path.stem.lower())))
    except UnreadableFile as error:
        return _File(path, (), (), str(error))
    return _File(path, cells, tuple(statements(cells)))


def _without_copies(lab: Lab, files: list[_File]) -> tuple[list[_File], str]:
    """Where the lab's own file (w8a8.ipynb) has the kernel, other files that have it too are left out, with a note."""
    holders = [file for file in files if _attempts(file, lab.kernel) or _is_broken(lab, file)]
    own = [file for file in holders if file.path.stem == lab.id]
    own = own or [file for file in holders if file.path.stem.lower() == lab.id]
    others = [file for file in holders if file not in own]
    if not own or not others:
        return files, ""
    if len(own) > 1:  # which of them counts is asked later; copies are none of the choices
        return [file for file in files if file not in others], ""
    names = ", ".join(file.path.name for file in others[:3]) + (" and more" if len(others) > 3 else "")
    note = f"{lab.kernel} is taken from {own[0].path.name}; it is also in {names}, ignored"
    return [file for file in files if file not in others], note


def _is_broken(lab: Lab, file: _File) -> bool:
    """Whether the lab's own file holds something and cannot be read where its kernel stands: a copy beside it is not what was handed in."""
    broken = bool(file.unreadable and file.path.stat().st_size) or any(
        cell.error and _mentions(cell, lab.kernel) for cell in file.cells
    )
    return broken and file.path.stem.lower() == lab.id


def _differ(lab: Lab, files: list[_File]) -> bool:
    """Whether the files have kernels of this lab that are not the same."""
    last = [found[-1].node for file in files if (found := _definitions(file, lab.kernel))]
    return len({_written(node) for node in last if not is_stub(node)}) > 1


def _written(node: ast.AST) -> str:
    """A node as text, whatever its comments and spaces; of one that is nested too deeply, which is refused later, nothing."""
    try:
        return ast.dump(node)
    except RecursionError:
        return ""


def _earlier_attempts(lab: Lab, files: list[_File]) -> list[str]:
    """A note for each file that defines the kernel more than once: as in Python, its last definition counts."""
    notes = []
    for file in files:
        count = len(_attempts(file, lab.kernel))
        if count > 1:
            notes.append(
                f"{lab.kernel} is defined {count} times in {file.path.name}; the last one counts, as in Python"
            )
    return notes


def _find(lab: Lab, files: list[_File]) -> KernelSource | Refusal | None:
    """This lab's kernel among the files; None when nothing here speaks of it."""
    attempted = [(file, statement) for file in files for statement in _attempts(file, lab.kernel)]
    last = {file.path: (file, statement) for file, statement in attempted}
    sources = [replace(_kernel_source(lab, *one), path=path) for path, one in last.items()]
    if len(sources) > 1 and len(set(map(_identity, sources))) > 1:
        names = tuple(dict.fromkeys(file.path.name for file, _ in attempted))
        message = f"{lab.kernel} is defined in several files ({' and '.join(names)}); keep the one to grade"
        return Refusal("rejected", message, files=names)
    if sources:
        return sources[0]
    return _nothing_attempted(lab, files)


def _identity(source: KernelSource | Refusal) -> str:
    """The same for one kernel that was handed in several times, as a file and as a notebook, say."""
    return _written(parse(source.module)) if isinstance(source, KernelSource) else str(source.path)


def _nothing_attempted(lab: Lab, files: list[_File]) -> Refusal | None:
    """Why there is no kernel to grade: it cannot be read, is the stub still, or is not in the lab's own file."""
    broken = [(file, cell.error) for file in files for cell in file.cells if cell.error and _mentions(cell, lab.kernel)]
    if broken:
        return Refusal("rejected", broken[0][1], files=(broken[0][0].path.name,))
    own = [file for file in files if file.path.stem.lower().startswith(lab.id)]
    called = re.compile(rf"(?<![a-z0-9]){lab.id}(?![a-z0-9])")  # after its student, in the folder of a class
    may_hold = [file for file in files if file in own or called.search(file.path.stem.lower())]
    if not any(file.cells for file in files):
        may_hold = files
    unreadable = next((file for file in may_hold if file.unreadable), None)
    if unreadable:  # which a stub beside it does not explain
        return Refusal("rejected", unreadable.unreadable, files=(unreadable.path.name,))
    stub = next((file.path.name for file in files if _definitions(file, lab.kernel)), "")
    if stub:
        return Refusal("not_attempted", f"{lab.kernel} is still the stub in {stub}; fill in its body and grade again")
    if own:
        return _no_kernel(own[0], [lab])
    return None


def _definitions(file: _File, kernel: str) -> list[Statement]:
    return [
        statement
        for statement in file.statements
        if isinstance(statement.node, ast.FunctionDef) and statement.node.name == kernel
    ]


def _attempts(file: _File, kernel: str) -> list[Statement]:
    """The definitions in which somebody has written something."""
    return [statement for statement in _definitions(file, kernel) if not is_stub(statement.node)]


def _broken_since(file: _File, name: str) -> str:
    """The error of the last cell that defines a function, when that is no Python: then an older definition is not what is meant."""
    last = next((cell for cell in reversed(file.cells) if _mentions(cell, name)), None)
    return last.error if last is not None else ""


def unread(inputs: Sequence[str], name: str) -> str:
    """The same of the cells that a notebook has run so far; "" where the last one that defines the function is Python."""
    return _broken_since(_executed(inputs, ""), name)


def _mentions(cell: Cell, kernel: str) -> bool:
    return re.search(rf"def\s+{kernel}\b", cell.source) is not None


def _no_kernel(file: _File, labs: Sequence[Lab]) -> Refusal:
    """Why a file that should hold a kernel does not: unreadable, renamed, or without one."""
    return Refusal("rejected", file.unreadable or _why_no_kernel(file, labs), files=(file.path.name,))


def _why_no_kernel(file: _File, labs: Sequence[Lab]) -> str:
    name, expected = file.path.name, " or ".join(lab.kernel for lab in labs)
    errors = [cell.error for cell in file.cells if cell.error]
    jitted = [s.node.name for s in file.statements if isinstance(s.node, ast.FunctionDef) and policy.is_jitted(s.node)]
    if found := next(_as_something_else(file, labs), ""):
        return found
    if others := [lab for lab in all_labs().values() if lab not in labs and lab.kernel in jitted]:
        advice = f"which is that of {others[0].id}; grade it with --lab {others[0].id}"
        return f"{name} has no function {expected}, only `{others[0].kernel}`, {advice}"
    if jitted:
        close = [near for lab in labs for near in difflib.get_close_matches(lab.kernel, jitted, 1, 0.4)] or jitted
        return f"{name} has no function {expected}, only `{close[0]}`; rename it to {expected}"
    if errors:
        return f"{name} has no readable {expected}: {errors[0]}"
    return f"{name} has no function {expected}; define it as in the handed-out file"


def _as_something_else(file: _File, labs: Sequence[Lab]) -> Iterator[str]:
    """That a kernel is assigned, or defined in an `if` or in a function, where it is not looked for."""
    kernels = [lab.kernel for lab in labs]
    for statement in file.statements:
        for name in sorted(statement.binds.intersection(kernels)) if isinstance(statement.node, ast.Assign) else ():
            yield (
                f"{statement.place}: `{name}` is assigned, expected a function of this name; put @triton.autotune(...) and @triton.jit "
                f"above def {name}(...)"
            )
    for cell in file.cells:
        for node in nodes(cell.tree, ast.FunctionDef):
            if node.name in kernels:
                yield f"{cell.at(node.lineno)}: `{node.name}` is defined inside another statement; define it at the top level of the file"


def is_stub(node: ast.stmt) -> bool:
    """Whether a function's body does nothing yet: docstring, pass, ..., return, or raise."""
    assert isinstance(node, ast.FunctionDef)
    return all(
        isinstance(part, ast.Pass | ast.Raise)
        or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
        or (isinstance(part, ast.Return) and part.value is None)
        for part in node.body
    )


def _kernel_source(lab: Lab, file: _File, definition: Statement) -> KernelSource | Refusal:
    node = definition.node
    assert isinstance(node, ast.FunctionDef)
    if too_deep([definition]):
        return nested(definition)
    message = _signature_fault(lab, node, definition, constexpr_names(file.statements))
    if message:
        return Refusal("rejected", message)
    everything = [s for s in file.statements if lab.kernel not in s.binds or s is definition]
    found = needed(file.cells, everything, [lab.kernel, lab.grid])
    if isinstance(found, Refusal):
        return found
    module, lines = module_text(found.statements)
    if len(module) > MAX_MODULE_CHARS:
        return Refusal(
            "rejected",
            f"{lab.kernel} and what it needs are {len(module) >> 10} KB of text, the limit is {MAX_MODULE_CHARS >> 10} KB; "
            "leave out what the kernel, its configs and its grid do not use",
        )
    has_grid = any(lab.grid in statement.binds for statement in found.statements)
    return KernelSource(lab.id, lab.kernel, lab.grid if has_grid else None, module, lines, file.path, note=found.note)


def _signature_fault(lab: Lab, node: ast.FunctionDef, definition: Statement, constexprs: frozenset[str]) -> str | None:
    """What is wrong with the kernel's decorators or parameters, as a sentence."""
    place, cell = definition.place, definition.cell
    if not policy.is_jitted(node):
        for decorator in node.decorator_list:
            if difflib.get_close_matches(ast.unparse(decorator).lower(), ["triton.jit"], cutoff=0.8):
                cause = f"there is no decorator @{ast.unparse(decorator)}"
                return pointed(cell, decorator, cause, "did you mean @triton.jit?")
        return f"{place}: {lab.kernel} is not decorated with @triton.jit; decorate it with @triton.autotune(...) over @triton.jit"
    if not policy.may_be_autotuned(node):
        return (
            f"{place}: {lab.kernel} is not decorated with @triton.autotune; put "
            '@triton.autotune(configs=[triton.Config({...})], key=["M", "N", "K"]) above @triton.jit'
        )
    if node.args.vararg or node.args.kwarg or node.args.kwonlyargs:
        return f"{place}: {lab.kernel} has *args, **kwargs or keyword-only parameters; name each parameter"
    arguments = node.args.posonlyargs + node.args.args
    names = [argument.arg for argument in arguments]
    expected = [parameter.name for parameter in lab.parameters]
    if names[: len(expected)] != expected:
        at = next((i for i, name in enumerate(expected) if i >= len(names) or names[i] != name), 0)
        found = f"`{names[at]}`" if at < len(names) else "nothing"
        return pointed(
            cell,
            arguments[at] if at < len(names) else node,
            f"parameter {at + 1} of {lab.kernel} is {found}, expected `{expected[at]}`",
            f"the first {len(expected)} parameters are {', '.join(expected)}",
        )
    for argument in arguments[len(expected) :]:
        written = ast.unparse(argument.annotation) if argument.annotation else ""
        if "constexpr" not in written and written not in constexprs:
            return pointed(
                cell,
                argument,
                f"the parameter `{argument.arg}` of {lab.kernel} is not a constexpr",
                f"write {argument.arg}: tl.constexpr, as for every parameter of your own after `{expected[-1]}`",
            )
    return None
