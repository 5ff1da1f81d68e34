"""Whatever students of a class do, and however an assistant unpacks it: whose work is whose, and that every file is accounted for once."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.classroom.batch.accounts import account
from grader.classroom.batch.intake import collect
from grader.classroom.batch.marks import Rules
from grader.classroom.batch.standing import standings
from grader.classroom.roster import Person, Roster, on_roster
from grader.unusable import Unusable
from tests.deliveries import archive, delivered
from tests.unit.classroom.test_class_report import graded
from tests.unit.classroom.test_deliveries import METADATA, A, B, C, work_of

quick = settings(max_examples=40, deadline=None, derandomize=True)
LABS = {"a": A, "b": B, "c": C}
WORDS = st.text("abcxyz\u00eb\u674e", min_size=1, max_size=5)


def taken_in(files, given="class", empty=(), prepare=None):
    """The hand-ins of a delivery; checks that each file that came has one fate."""
    with tempfile.TemporaryDirectory() as place:
        root = delivered(Path(place) / "class", files)
        for name in empty:
            (root / name).mkdir(parents=True)
        if prepare:
            prepare(root)
        intake = collect(Path(place) / given, Path(place) / "w")
        attempts = list(map(graded, intake.hand_ins))
        found = Counter(one.file for one in account(intake.came, intake.hand_ins, standings(attempts, Rules())))
        came = [path.relative_to(root) for path in root.rglob("*") if path.name == ".git" or not path.is_dir()]
        came = [str(path) for path in came if ".git" not in path.parts[:-1]]
        assert found == Counter(came) or given != "class" or any(name.endswith(".zip") for name in came)
        assert set(found.values()) == {1}
        return [(one, work_of(one)) for one in intake.hand_ins]


@st.composite
def canvas_downloads(draw):
    """A class's download, some of whose archives were expanded and some of these removed; and what each user handed in, late or not."""
    files, expected, attachment = {}, {}, 50_000
    quiz = draw(st.booleans())
    for number in draw(st.lists(st.integers(1, 99_999), min_size=2, max_size=5, unique=True)):
        name, late, labs = draw(WORDS), not quiz and draw(st.booleans()), draw(st.sets(st.sampled_from("abc"), min_size=not expected))
        expected[str(number)] = ("".join(sorted(labs)), late)
        if not labs:
            files[f"{name}{number}_question_7_9_notes.pdf" if quiz else f"{name}_{'LATE_' * late}{number}_9_notes.pdf"] = ""
        for lab in sorted(labs):
            attachment += 1
            begin = f"{name}{number}_question_7_{attachment}_" if quiz else f"{name}_{'LATE_' * late}{number}_{attachment}_"
            kind = draw(st.sampled_from(["file", "archive", "expanded", "both"]))
            if kind == "file":
                files[f"{begin}{lab}.py"] = LABS[lab]
            if kind in ("archive", "both"):
                files[f"{begin}{lab}.zip"] = {f"{lab}.py": LABS[lab]}
            if kind in ("expanded", "both"):
                files[f"{begin}{lab}/{draw(st.sampled_from(['', 'in/']))}{lab}.py"] = LABS[lab]
    return files, expected


@quick
@given(canvas_downloads(), st.sampled_from(["", "submissions/", "zip"]))
def test_a_user_of_canvas_has_one_hand_in_however_it_was_unpacked(download, wrapper):
    files, expected = download
    if wrapper == "zip":
        found = taken_in({"s.zip": archive(files)}, "class/s.zip")
    else:
        found = taken_in({f"{wrapper}{name}": text for name, text in files.items()})
    assert sorted((one.number, (work, one.late)) for one, work in found) == sorted(expected.items())
    assert {(one.platform, one.submitted) for one, _ in found} == {("canvas", None)}, "the times of its archive are those of its packing"
    assert all("holds notes.pdf and no .py" in one.refused for one, work in found if not work)


FORMS = {
    "file": lambda name, lab: {f"{name}.py": LABS[lab]},
    "archive": lambda name, lab: {f"{name}.zip": {"k.py": LABS[lab]}},
    "folder": lambda name, lab: {f"{name}/{lab}.py": LABS[lab]},
    "deep": lambda name, lab: {f"{name}/x/y/k.py": LABS[lab], f"{name}/x/n.txt": ""},
}
OWN_FORMS = {name: FORMS[name] for name in ("file", "folder")}
WRAPPERS = st.sampled_from(["", "hw 1/", "lab/", "a/b/"])


def delivered_in_every_way(files, wrapper):
    """Whose work is whose, given as a folder, as an archive, and as an archive that lies alone in a folder."""
    files = {f"{wrapper}{name}": text for name, text in files.items()}
    packed = {"c.zip": archive(files)}
    return [
        {one.student: work for one, work in found} for found in (taken_in(files), taken_in(packed, "class/c.zip"), taken_in(packed))
    ]


@quick
@given(st.dictionaries(WORDS, st.tuples(st.sampled_from(sorted(FORMS)), st.sampled_from("abc")), min_size=2, max_size=4), WRAPPERS)
def test_folders_around_a_class_change_nothing(students, wrapper):
    """Nor does it matter how it is given, or what lies beside the two that show that it is one: those who handed in the same lab."""
    students |= {"ddsouza": ("file", "a"), "three": ("folder", "a")}
    files = {place: text for name, (form, lab) in students.items() for place, text in FORMS[form](name, lab).items()}
    expected = {name: lab for name, (_, lab) in students.items()}
    assert delivered_in_every_way(files, wrapper) == [expected] * 3


@quick
@given(st.dictionaries(st.sampled_from(["w8a8", "dds_final", "attempt2", "Lab 1", "old", "v2", "step3"]),
                       st.tuples(st.sampled_from(sorted(OWN_FORMS)), st.sampled_from("abc")), min_size=2, max_size=4))
def test_what_is_named_after_work_is_one_students(entries):
    files = {place: text for name, (form, lab) in entries.items() for place, text in OWN_FORMS[form](name, lab).items()}
    labs = "".join(sorted({lab for _, lab in entries.values()}))
    folder, packed, alone = delivered_in_every_way(files, "ann/")
    assert (folder, packed, alone) == ({"ann": labs}, {"ann": labs}, {"c": labs})


@st.composite
def moodle_downloads(draw):
    """A class's download with a folder for each, or flat; and what each participant handed in."""
    files, expected, flat = {}, {}, draw(st.booleans())
    for name in draw(st.lists(WORDS.map(lambda word: word.replace("b", " b").strip()), min_size=2, max_size=5, unique=True)):
        number, name = 501 + len(expected), name + draw(st.sampled_from(["", "_1", "-2 Lo"]))
        labs = draw(st.sets(st.sampled_from("abc"), min_size=1))
        expected[str(number)] = name, "".join(sorted(labs))
        for lab in labs:
            kind = draw(st.sampled_from([".py", ".zip", "/x.py"])) if not flat else draw(st.sampled_from([".py", ".zip"]))
            work = {f"{lab}.py": LABS[lab]} if kind == ".zip" else LABS[lab]
            files[f"{name}_{number}_assignsubmission_file_{'' if flat else '/'}{lab}{kind}"] = work
        if draw(st.booleans()):
            files[f"{name}_{number}_assignsubmission_onlinetext_{'' if flat else '/'}onlinetext.html"] = "hi"
    return files, expected


@quick
@given(moodle_downloads(), st.booleans())
def test_a_participant_of_moodle_has_one_hand_in(download, packed):
    files, expected = download
    found = taken_in({"m.zip": archive(files)}, "class/m.zip") if packed else taken_in(files)
    assert sorted((one.number, (one.student, work)) for one, work in found) == sorted(expected.items())
    assert {one.platform for one, _ in found} == {"moodle"}


IMITATIONS = {
    "canvas": {"doe_1_56_w8a8.py": A, "roe_2_57_dds.py": C},
    "canvas, expanded": {"doe_1_56_w/w8a8.py": A, "roe_2_57_w/w8a8.py": A},
    "moodle": {"Do_1_assignsubmission_file_/w8a8.py": A, "Ro_2_assignsubmission_file_/w8a8.py": A},
    "gradescope": {"submission_metadata.yml": METADATA, "submission_1/w8a8.py": A},
    "nbgrader": {"submitted/doe/k/w8a8.py": A, "submitted/roe/k/w8a8.py": A},
    "nbgrader's course": {"gradebook.db": "", "submitted/doe/k/w8a8.py": A, "submitted/roe/k/w8a8.py": A},
}


@pytest.mark.slow
@pytest.mark.parametrize("imitation", IMITATIONS)
@quick
@given(st.sampled_from(["", "deeper/", "a/b/"]), st.sets(st.sampled_from(["ben", "cy", "roe_2_57_w"]), min_size=1), st.booleans())
def test_beside_students_without_work_nobody_speaks_for_others(imitation, wrapper, empty, packed):
    """Their folders are there and empty; the only other one holds what looks like the download of a class."""
    files = {f"{wrapper}{name}": text for name, text in IMITATIONS[imitation].items()}
    files = {"ann.zip": archive(files)} if packed else {f"ann/{name}": text for name, text in files.items()}
    with suppress(Unusable):
        assert {one.student for one, _ in taken_in(files, empty=empty)} == {"ann", *empty}


@quick
@given(st.lists(WORDS, min_size=2, max_size=5, unique=True), st.sampled_from(["lab-", "gpu-lab-"]), st.booleans(), st.data())
def test_an_account_is_all_of_what_follows_the_beginning_of_clones(accounts, beginning, packed, data):
    """Also where a repository of somebody else's lies among them, or its download."""
    stranger = data.draw(st.sampled_from(["zoe-repo-main", f"zoe-{accounts[0]}", "main", f"lab{beginning}main"]))
    names = [*(f"{beginning}{account}" for account in accounts), f"{beginning}q-{accounts[0]}", stranger]
    found = taken_in({f"{name}/{place}": A for name in names for place in ("grader/x.py", "assignment/w8a8.py")})
    roster = Roster(tuple(Person(f"s{at}", github=account) for at, account in enumerate(accounts)), "r.csv")
    placed = {one.place: one for one in on_roster([one for one, _ in found], roster)}
    assert [placed[f"{beginning}{account}"].student for account in accounts] == [person.login for person in roster.people]
    assert {placed[names[-2]].student, placed[stranger].student} == {names[-2], stranger}
    assert "is not the account of s0" in placed[names[-2]].notes[-1]


@pytest.mark.parametrize(
    "git",
    [
        lambda git: git.write_text("gitdir: ../../.git/worktrees/lab-ann\n"), Path.mkdir, lambda git: git.symlink_to("../lab-ben"),
        lambda git: delivered(git, {"HEAD": "ref: refs/heads/main", "refs/heads/main": "0" * 40}),
    ],
    ids=["file", "empty", "link", "damaged"],
)
def test_a_clone_whose_commit_cannot_be_read_says_so(git):
    files = {"lab-ann/w8a8.py": A, "lab-ben/w8a8.py": A}
    (ann, _), (ben, _) = taken_in(files, prepare=lambda root: git(root / "lab-ann" / ".git"))
    assert (ann.platform, ann.submitted) == ("clone", None)
    assert ann.notes[0].startswith("lab-ann/.git has no commit that can be read")
    assert ben.notes == ()
