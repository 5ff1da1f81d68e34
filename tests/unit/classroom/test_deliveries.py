"""What assistants get from platforms and students, as it comes: whose work is graded, and that none is hidden, split or mixed up."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from grader.classroom.batch.accounts import account, with_ungraded_named
from grader.classroom.batch.begun import begun_in
from grader.classroom.batch.folders import ROOT, children
from grader.classroom.batch.intake import NAMED_OTHERWISE, collect
from grader.classroom.batch.marks import Rules
from grader.classroom.batch.standing import standings
from grader.labs import get_lab
from grader.model import KernelSource
from grader.reading import read
from grader.reading.answers import answers_for
from grader.reading.files import is_source
from grader.unusable import Unusable
from tests.deliveries import archive, delivered
from tests.unit.classroom.test_class_report import graded


def kernel(lab_id, mark=""):
    return f"@triton.jit\ndef {get_lab(lab_id).kernel}(x_ptr):\n    x = 1\n# {mark}\n"


def of_one_cell(source):
    return json.dumps({"cells": [{"source": source}]})


A, B, C = kernel("w8a8"), kernel("w4a16"), kernel("dds")
GIVEN, STUB_OF_B = ((ROOT / "assignment" / f"{lab}.py").read_text(encoding="utf-8") for lab in ("w8a8", "w4a16"))
STUB = GIVEN + "# saved again\n"
COURSE = {"nbgrader_config.py": "c = get_config()", "source/kernels/w8a8.py": STUB, "autograded/ann/kernels/w8a8.py": A}
STAMP = "2026-11-20 23:58:00 UTC"
METADATA = "submission_1:\n  :submitters:\n  - :name: Ann\n    :sid: '1'\n    :email: a@u\n"

NOT_OPENED = "an archive that is not opened: only .zip files are"
NO_ZIP = "is not a readable zip archive (File is not a zip file); download it again, or ask for a new one"
TWICE, UNREAD, NO_SOURCE = "was handed in more than once; that of", "was not read: it is", "no .py, .ipynb or .zip file"
NO_WORK, STUB_BESIDE = f"and {NO_SOURCE}; ask for the notebook itself", "is a stub, or as it was given out; another of that name counts"
NESTED = "holds one.zip and no .py or .ipynb file (an archive within an archive is not opened); ask for the notebook itself"
OF_OTHERS = "holds what several students handed in; give it by itself"

DELIVERIES = {
    "a system's file beside the download": (
        {"desktop.ini": "", "submissions/doe_1_56_w8a8.py": A, "submissions/roe_2_57_dds.py": C}, {"doe_1": "a", "roe_2": "c"}
    ),
    "a table beside the folders of a class": ({"t.csv": "", "lab/ann/w8a8.py": A, "lab/ben/w8a8.py": A}, {"ann": "a", "ben": "a"}),
    "the download beside an export": ({"e.csv": "", "s.zip": {"doe_1_56_w8a8.py": A, "roe_2_57_dds.py": C}}, {"doe_1": "a", "roe_2": "c"}),
    "a stray source in the download": (
        {"s/doe_1_56_w8a8.py": A, "s/roe_2_57_dds.py": C, "s/solution.py": B}, {"doe_1": "a", "roe_2": "c"}
    ),
    "one student's download": ({"s.zip": {"doe_1_56_w8a8.py": A}}, {"doe_1": "a"}),
    "Gradescope's export beside a roster": (
        {"r.csv": "", "export/submission_metadata.yml": METADATA, "export/submission_1/w8a8.py": A}, {"1": "a"}
    ),
    "nbgrader's course": ({**COURSE, "submitted/ann/kernels/w8a8.py": A, "submitted/ben/kernels/dds.py": C}, {"ann": "a", "ben": "c"}),
    "one student of nbgrader's": ({"submitted/ann/kernels/w8a8.py": A, "submitted/ann/kernels/timestamp.txt": STAMP}, {"ann": "a"}),
    "a source beside nbgrader's assignments": (
        {"submitted/ann/kernels/w8a8.py": A, "submitted/ann/kernels/timestamp.txt": STAMP, "submitted/ann/scratch.py": B}, {"ann": "a"}
    ),
    "one name that Canvas could have given": (
        {"ann.py": A, "ben.py": C, "lee_2_1_final.py": B}, {"ann": "a", "ben": "c", "lee_2_1_final": "b"}
    ),
    "Canvas's archive, expanded": (
        {"doe_1_56_w.zip": {"w8a8.py": A}, "doe_1_56_w/w8a8.py": A, "roe_2_57_dds.py": C}, {"doe_1": "a", "roe_2": "c"}
    ),
    "one student's archive of two, expanded": (
        {"s/doe_1_56_w/w8a8.py": A, "s/doe_1_57_dds.py": C, "s/roe_2_58_w8a8.py": A}, {"doe_1": "ac", "roe_2": "a"}
    ),
    "a line's end in names": (
        {"doe_1_56_w8a8\n2.py": A, "ro\ne_2_57_dds.py": C, "ann/k\n.py": A}, {"doe_1": "a", "ro\ne_2": "c", "ann": "a"}
    ),
    "an archive that was expanded under a name of its own": (
        {"doe_1_56_w8a8.py": A, "lo_2_57_dds.py": C, "w/dds.py": C, "w 2/w8a8.py": A},
        {"doe_1": ("a",), "lo_2": ("c",), "w": ("c", NAMED_OTHERWISE.format("w", "Canvas")),
         "w 2": ("a", NAMED_OTHERWISE.format("w 2", "Canvas"))}
    ),
    "one lone folder whose name Canvas could have given": ({"ann/run_1_2_x/w8a8.py": A}, {"ann": "a"}),
    "an archive of archives": ({"c.zip": {"ann.zip": {"w8a8.py": A}, "ben.zip": {"w8a8.py": A}}}, {"ann": "a", "ben": "a"}),
    "a lone student's folders and files with such names": (
        {"ann/tile_16_32_test.py": A, "ann/src/dds.py": C}, {"ann": "ac"}
    ),
    "a student's folders with such names": (
        {"ann/run_1_2_x/w8a8.py": A, "ann/run_2_3_y/dds.py": C, "ben/t_1_2_x.py": A, "ben/run_1_3_x/dds.py": C}, {"ann": "ac", "ben": "ac"}
    ),
    "a source beside Moodle's folders, packed": (
        {"c.zip": {"Do_5_assignsubmission_file_/w8a8.py": A, "Ro_6_assignsubmission_file_/w8a8.py": A, "solution.py": B}},
        {"Do": "a", "Ro": "a"}
    ),
    "a quiz": (
        {"do_jane12_question_5_56_w8a8.py": A, "do_jane12_question_6_57_dds.py": C, "roe99_question_5_58_a_question_1.py": A},
        {"do_jane_12": "ac", "roe_99": "a"}
    ),
    "a quiz of whom no number is sure": (
        {"eve90001_question_1_2_x12_question_5_56_w8a8.py": A, "roe99_question_5_58_dds.py": C, "doe7_question_5_59_dds.py": C},
        {"roe_99": "c", "doe_7": "c"}
    ),
    "a quiz's name within a file's": (
        {"doe_1_56_x90001_question_2_3_w8a8.py": A, "roe_2_57_dds.py": C}, {"doe_1": "a", "roe_2": "c"}
    ),
    "one stem, two files": ({"ann.py": A, "ann.ipynb": '{"cells": [{"source": "def DDS_MM(x):\\n    f(x)"}]}', "ben.py": A},
                            {"ann": "ac", "ben": "a"}),
    "a file beside an archive of the handout": (
        {"doe_1_56_w8a8.py": A, "doe_1_55_h.zip": {"w8a8.py": STUB, "dds.py": STUB}, "roe_2_57_dds.py": C}, {"doe_1": "a", "roe_2": "c"}
    ),
    "an empty file beside an archive": (
        {"ann/dds.py": "", "ann/w.zip": {"w8a8.py": A, "dds.py": C}, "ben/w8a8.py": A}, {"ann": "ac", "ben": "a"}
    ),
    "another lab in an archive": ({"ann/w8a8.py": A, "ann/dds.zip": {"dds.py": C}, "ben/w8a8.py": A}, {"ann": "ac", "ben": "a"}),
    "the handout beside the work": (
        {"ann/handout/grader/x.py": "", "ann/handout/assignment/w8a8.py": STUB, "ann/mine/w8a8.py": A, "ben/dds.py": C},
        {"ann": "a", "ben": "c"}
    ),
    "three files of one name": (
        {"ann/1/src/kernel.py": A, "ann/2/src/kernel.py": B, "ann/3/src/kernel.py": C, "ben/dds.py": C}, {"ann": "abc", "ben": "c"}
    ),
    "a long name twice": ({f"ann/1/{'k' * 200}.py": A, f"ann/2/{'k' * 200}.py": B, "ben/dds.py": C}, {"ann": "ab", "ben": "c"}),
    "deep in a home folder": (
        {"ann.zip": {"home/ann/courses/gpu/labs/one/w8a8.py": A}, "ben.zip": {"dds.py": C}}, {"ann": "a", "ben": "c"}
    ),
    "a space before the parameters": (
        {"ann/w8a8.py": STUB, "ann/x/w8a8.py": A.replace("_MM(", "_MM ("), "ben/dds.py": C}, {"ann": "a", "ben": "c"}
    ),
    "UTF-16": ({"ann/w8a8.py": STUB, "ann/x/w8a8.py": A.encode("utf-16"), "ben/dds.py": C}, {"ann": "a", "ben": "c"}),
    "folders with backslashes": ({"c.zip": {"ann\\": "", "ann\\w8a8.py": A, "ben\\": "", "ben\\w8a8.py": A}}, {"ann": "a", "ben": "a"}),
    "an empty folder": ({"c.zip": {"ann/": "", "ben/dds.py": C, "cat/dds.py": C}}, {"ann": "", "ben": "c", "cat": "c"}),
    "names that a platform could have given": (
        {"ann/w8a8.py": A, "ann/tile_16_32_test.py": "", "ann/tile_64_128_test.py": "", "ben/dds.py": C}, {"ann": "a", "ben": "c"}
    ),
    "one student with such names": ({"ann/w8a8.py": A, "ann/dds.py": C, "ann/tile_16_32_test.py": "", "ann/t_1_2_x.py": ""}, {"ann": "ac"}),
    "a typed text beside files": (
        {"Al B_9_assignsubmission_file_/w8a8.py": A, "Al B_9_assignsubmission_onlinetext_/onlinetext.html": "hi",
         "Cy_7_assignsubmission_onlinetext_/onlinetext.html": "hi"}, {"Al B": "a", "Cy": ""}
    ),
    "the only work within a typed text": (
        {"Al B_9_assignsubmission_file_/notes.pdf": "", "Al B_9_assignsubmission_onlinetext_/onlinetext.html": "hi",
         "Al B_9_assignsubmission_onlinetext_/w8a8.py": A, "Cy_7_assignsubmission_file_/dds.py": C}, {"Al B": "a", "Cy": "c"}
    ),
    "tile sizes in names below the work": (
        {"ann/w8a8.py": A, "ann/tune/t_128_64_32.py": "", "ann/tune/t_64_64_32.py": "", "ann/e.zip": {"t_1_2_3.py": "", "t_2_2_3.py": ""},
         "ben/grader/x.py": "", "ben/assignment/w8a8.py": A, "ben/tune/t_1_2_3.py": "", "ben/tune/t_2_2_3.py": ""}, {"ann": "a", "ben": "a"}
    ),
    "a repository that nobody touched": (
        {"ann/grader/x.py": "", "ann/assignment/w8a8.py": STUB, "ann/solutions/w8a8.py": A, "ann/notebooks/source/dds.py": C,
         "ben/dds.py": C},
        {"ann": "", "ben": "c"}
    ),
    "a draft with another lab, below or packed": (
        {"ann/k.py": A, "ann/old/k.py": A + C, "ben/k.py": A, "ben/b.zip": {"all.py": A + C}, "cy/w8a8.py": A,
         "cy/d/w8a8.py": A + "w8a8_bytes = 1\n"}, {"ann": "a", "ben": "a", "cy": "a"}
    ),
    "files with a date": ({"ann/w8a8_2026_11_20.py": A, "ann/dds_2026_11_20.py": C, "ben/w8a8.py": A}, {"ann": "ac", "ben": "a"}),
    "a class of files with dates": (
        {"ann_2026_11_20.py": A, "ben_2026_11_21.py": C, "cy.py": A}, {"ann_2026_11_20": "a", "ben_2026_11_21": "c", "cy": "a"}
    ),
    "one number of Canvas's under two names": (
        {"zeve_99_4_59_w8a8.py": A, "bben_99_60_dds.py": C, "cy_5_61_dds.py": C}, {"zeve_99": "a", "bben_99": "c", "cy_5": "c"}
    ),
    "names without a letter": (
        {"_4_59_w8a8.py": A, "_LATE_5_61_dds.py": C, "bben_99_60_w8a8.py": A}, {"_4": "a", "_5": "c", "bben_99": "a"}
    ),
    "two spellings of a letter": (
        {"zo\u00eb_1_56_w8a8.py": A, "zoe\u0308_1_57_dds.py": C, "roe_2_58_w8a8.py": A}, {"zo\u00eb_1": "ac", "roe_2": "a"}
    ),
    "what Canvas calls -1": (
        {"doe_1_56_w8a8.py": A, "doe_1_58_w8a8-1.py": A + C, "roe_2_57_w8a8.py": A}, {"doe_1": "ac", "roe_2": "a"}
    ),
    "another plugin of Moodle's": (
        {"Ben_2_assignsubmission_file/dds.py": C, "Ben_2_assignsubmission_mahara/c.html": "", "Ann_1_assignsubmission_file/w8a8.py": A},
        {"Ben": "c", "Ann": "a"},
    ),
    "what was given out beside students": (
        {"lab/ann/w8a8.py": A, "lab/assignment/w8a8.py": "", "lab/ben/w8a8.py": A}, {"ann": "a", "assignment": "", "ben": "a"}
    ),
    "a file beside folders of folders": (
        {"c.zip": {"cy.py": A, "ann/lab/w8a8.py": A, "ben/lab/w8a8.py": A}}, {"ann": "a", "ben": "a", "cy": "a"}
    ),
    "a readme beside the class": ({"readme.txt": "x", "lab/ann/w8a8.py": A, "lab/ben/w8a8.py": A}, {"ann": "a", "ben": "a"}),
    "work beside the grader": (
        {"ann/grader/x.py": "", "ann/assignment/dds.py": "", "ann/w8a8.py": A, "ben/w8a8.py": A}, {"ann": "a", "ben": "a"}
    ),
    "names that no file system takes together": (
        {f"ann/{20 * chr(0x1F642)}/{60 * chr(0x1F642)}.py": A, f"ann/{20 * chr(0x1F643)}/{60 * chr(0x1F642)}.py": C, "ben/dds.py": C,
         "cy/grader/x.py": "", f"cy/assignment/{245 * 'x'}.py": A}, {"ann": "ac", "ben": "c", "cy": "a"}
    ),
    "one student's folders": ({"s.zip": {"w8a8.py": A, "dds.py": C, "helpers/u.py": "", "old/v1/w8a8.py": A, "d.zip": {"x.csv": ""}}},
                              {"s": "ac"}),
    "a student's archive beside one that is not opened": ({"ann.zip": {"v1/w8a8.py": A, "v2/w8a8.py": A}, "ben.rar": "x"}, {"ann": "a"}),
    "an empty folder beside the class": (
        {"c.zip": {"class/ann/w8a8.py": A, "class/ben/w8a8.py": A, "feedback/": ""}}, {"ann": "a", "ben": "a"}
    ),
    "a notebook with tabs": (
        {"ann/w8a8.ipynb": json.dumps({"source": ["def W8A8_MM(\n", "\tx_ptr,\n", "):\n", "\tx = 1\n"]}), "ann/old/w8a8.py": A + C,
         "ben/dds.py": C}, {"ann": "a", "ben": "c"}
    ),
    "long names of three bytes a letter": ({f"ann/{'甲' * 40}/{'乙' * 60}.py": A, f"ann/{'丙' * 40}/{'乙' * 60}.py": B}, {"ann": "ab"}),
    "two names that Canvas could have given": (
        {**{f"s{i}.py": A for i in range(8)}, "smith_2024_1_w8a8.py": A, "li_2023_2_dds.py": C},
        {**{f"s{i}": "a" for i in range(8)}, "smith_2024_1_w8a8": "a", "li_2023_2_dds": "c"}
    ),
    "such a name beside folders": (
        {"ann/w8a8.py": A, "ben/dds.py": C, "smith_2024_1_w8a8.py": A, "li.py": C},
        {"ann": "a", "ben": "c", "smith_2024_1_w8a8": "a", "li": "c"}
    ),
    "another platform's name within a name": (
        {"doe_1_10_w8a8.py": A, "eve_2_11_Eve Lo_905_assignsubmission_file_w8a8.py": A, "roe_3_12_dds.py": C},
        {"doe_1": "a", "eve_2": "a", "roe_3": "c"}
    ),
    "Moodle's name of another in a file's": (
        {"Ann Lo_901_assignsubmission_file_w8a8.py": A, "Eve Lo_905_assignsubmission_file_Ann Lo_901_assignsubmission_file_dds.py": C},
        {"Ann Lo": "a", "Eve Lo": "c"}
    ),
    "a repository beside a file": (
        {"ann/repo/grader/x.py": "", "ann/repo/assignment/w8a8.py": A, "ann/repo/notebooks/dds.py": C, "ann/w4a16.py": B, "ben/dds.py": C},
        {"ann": "abc", "ben": "c"}
    ),
    "two archives of repositories": (
        {"ann/1.zip": {"r/grader/x.py": "", "r/assignment/w8a8.py": A, "r/assignment/dds.py": STUB},
         "ann/2.zip": {"r/grader/x.py": "", "r/assignment/w8a8.py": STUB, "r/assignment/dds.py": C}, "ben/dds.py": C},
        {"ann": "ac", "ben": "c"}
    ),
    "clones below a folder": (
        {"org/lab-ann/grader/x.py": "", "org/lab-ann/assignment/w8a8.py": A,
         "org/lab-ben/grader/x.py": "", "org/lab-ben/assignment/dds.py": C},
        {"lab-ann": "a", "lab-ben": "c"}
    ),
    "nobody speaks for others": (
        {"eve.zip": {"ann/w8a8.py": A, "ben/w8a8.py": A}, "mal.zip": {"submission_metadata.yml": METADATA, "submission_1/w8a8.py": A}},
        {"eve": ("a", f"w8a8.py {TWICE} ben was left out"), "mal": ("", f"refused: mal.zip {OF_OTHERS}")}
    ),
    "archives within archives": (
        {"doe_1_55_all.zip": {"one.zip": {"dds.py": C}}, "roe_2_56_dds.py": C},
        {"doe_1": ("", f"refused: doe_1_55_all.zip {NESTED}"), "roe_2": ("c",)}
    ),
    "archives within folders' archives": (
        {"Do_5_assignsubmission_file_/all.zip": {"one.zip": {"dds.py": C}}, "ben/dds.py": C},
        {"Do": ("", f"refused: all.zip {NESTED}"), "ben": ("c", NAMED_OTHERWISE.format("ben", "Moodle"))}
    ),
    "folders, archives, and what is neither": (
        {"ann/w8a8.py": A, "ben/readme.txt": "", "cat/h.zip": {"h/w8a8.py": A, "__MACOSX/w8a8.py": "?"}, "dan.zip": {"w8a8.py": A},
         "eve.zip": b"PK\x03\x04 broken", "fay/k/work.tar.gz": "", "gus/k/work.rar": "", "hal/k/w8a8.txt": A, "ivy/own/my/W8A8.PY": A},
        {"ann": ("a",), "ben": ("", f"ben holds readme.txt {NO_WORK}"), "cat": ("a",), "dan": ("a",),
         "eve": ("", "refused: eve.zip is not a readable zip archive (File is not a zip file); download it again, or ask for a new one"),
         **{who: ("", f"k holds {name} {NO_WORK}") for who, name in (("fay", "work.tar.gz"), ("gus", "work.rar"), ("hal", "w8a8.txt"))},
         "ivy": ("a",)}
    ),
    "a lab in each folder or archive": (
        {"ann/k/w8a8/k.py": A, "ann/k/dds/k.py": C, "ben.zip": {"a/k.py": A, "b/k.py": C}, "cat/k/1.zip": {"w8a8.py": A},
         "cat/k/2.zip": {"dds.py": C}, "dan.zip": {"a/w8a8.py": A, "b/w8a8.py": A + "y = 2\n", "b/DDS.PY": C},
         "eve.zip": {"new/k.py": A, "old/k.py": A + "x = 1\n"},
         "fay.zip": {"a/k.ipynb": of_one_cell(C), "b/k.ipynb": of_one_cell(A), "c/k.ipynb": "{}"}},
        {"ann": ("ac",), "ben": ("ac",), "cat": ("ac",), "dan": ("ac", f"w8a8.py {TWICE} b was left out"),
         "eve": ("a", f"k.py {TWICE} old was left out"), "fay": ("ac", f"k.ipynb {TWICE} c was left out")}
    ),
    "what is not opened beside work": (
        {"ann/w8a8.py": A, "ann/in.zip": "x", "ben/w8a8.py": A, "ben/k.rar": "x", "cat/w8a8.py": A, "cat/w8a8.py.txt": "x",
         "dan.zip": {"w8a8.py": A, "in.zip": "x"}, "eve.zip": {"w8a8.py": A, "k.rar": "x"}, "fay.zip": {"w8a8.py": A, "w8a8.py.txt": "x"}},
        {"ann": ("a", f"in.zip {NO_ZIP}"), "ben": ("a", f"ben/k.rar {UNREAD} {NOT_OPENED}"),
         "cat": ("a", f"cat/w8a8.py.txt {UNREAD} {NO_SOURCE}"), "eve": ("a", f"eve.zip/k.rar {UNREAD} {NOT_OPENED}"),
         "dan": ("a", f"dan.zip/in.zip {UNREAD} an archive beside files that are graded"),
         "fay": ("a", f"fay.zip/w8a8.py.txt {UNREAD} {NO_SOURCE}")}
    ),
    "each lab's topmost work": (
        {"ann/w8a8.py": A, "ann/lab2/w4a16.py": B, "ben.zip": {"w8a8.py": A, "lab2/w4a16.py": B},
         "cat/w8a8.py": A, "cat/w4a16.py": STUB_OF_B, "cat/lab2/w4a16.py": B,
         "dan.zip": {"w8a8.py": A, "w4a16.py": STUB_OF_B, "lab2/w4a16.py": B},
         "eve/lab1/w8a8.py": STUB, "eve/lab1/second/w8a8.py": A, "eve/lab2/w4a16.py": B,
         "fay.zip": {"lab1/w8a8.py": STUB, "lab1/second/w8a8.py": A, "lab2/w4a16.py": B}},
        {"ann": ("ab",), "ben": ("ab",), **dict.fromkeys(("cat", "dan"), ("ab", f"w4a16.py {STUB_BESIDE}")),
         **dict.fromkeys(("eve", "fay"), ("ab", f"w8a8.py {STUB_BESIDE}"))}
    ),
    "what was given out in a folder beside the work": (
        {"ann/a/w8a8.py": GIVEN, "ann/b/w8a8.py": A, "ben/w8a8.py": A}, {"ann": ("a", f"w8a8.py {STUB_BESIDE}"), "ben": ("a",)}
    ),
    "exports of two sections": (
        {"e1/submission_metadata.yml": "submission_1: {}", "e1/submission_1/w8a8.py": A, "e1/submission_2/dds.py": C, "e2/w8a8.py": A},
        {"e1": ("", f"refused: e1 {OF_OTHERS}"), "e2": ("a",)}
    ),
    "a class within a student's folder": (
        {"ann/w8a8.py": A, "eve/s.zip": {"doe_1_56_w8a8.py": A, "roe_2_57_dds.py": C},
         "mal/s/doe_1_56_w8a8.py": A, "mal/s/roe_2_57_dds.py": C},
        {"ann": ("a",), "eve": ("", f"refused: s.zip {OF_OTHERS}"), "mal": ("", f"refused: s {OF_OTHERS}")}
    ),
    "work in a clone's solutions": (
        {"ann/grader/x.py": "", "ann/assignment/w8a8.py": "", "ann/solutions/w8a8.py": A, "ben/w8a8.py": A},
        {"ann": ("", "ann/solutions/w8a8.py was not read: files of another folder are graded"), "ben": ("a",)}
    ),
    "two readings of Canvas's name": (
        {"group_3_90001_55_w8a8.py": A, "doe_90002_56_dds.py": C},
        {"group_3": ("a", "group_3_90001_55_w8a8.py may also be Canvas user 90001's, if the name of the student or group ends with _3"),
         "doe_90002": ("c",)}
    ),
    "an archive's later folder": (
        {"ann/work.zip": {"w8a8.py": A, "later/w8a8.py": C, "later/dds.py.txt": C}, "ben/w8a8.py": A},
        {"ann": ("ac", f"work.zip/later/dds.py.txt {UNREAD} {NO_SOURCE}"), "ben": ("a",)}
    ),
    "work that lies too deep": (
        {"ann/a/b/c/d/e/w8a8.py": A, **{f"ann/{'/'.join('abcde'[:at])}/t": "" for at in range(1, 6)}, "ben/w8a8.py": A},
        {"ann": ("", f"a holds b, t {NO_WORK}", "ann/a/b/c/d/e/w8a8.py was not read: it lies too deep in folders; move it further up"),
         "ben": ("a",)}
    ),
    "a typed text of an anonymous one": ({"anon_ab_5_w8a8.py": A, "anon_cd_text.html": "hi"}, {"anon_ab": "a", "anon_cd": ""}),
}


def work_of(hand_in):
    if hand_in.refused or not hand_in.path.is_dir():
        return ""
    found = begun_in(filter(is_source, children(hand_in.path)))
    return "".join(letter for letter, lab_id in zip("abc", ("w8a8", "w4a16", "dds"), strict=True) if get_lab(lab_id).kernel in found)


@pytest.mark.parametrize("name", DELIVERIES)
def test_everybodys_work_is_theirs(tmp_path, name):
    """Also with the sentences that are said of it, each and no other, where the table has them."""
    files, expected = DELIVERIES[name]
    found = collect(delivered(tmp_path / "class", files), tmp_path / "w").hand_ins
    assert len({one.student for one in found}) == len(found)
    works = {who: work if isinstance(work, str) else work[0] for who, work in expected.items()}
    assert {one.student: work_of(one) for one in found} == works
    for one in found:
        if not isinstance(expected[one.student], str):
            refused = [f"refused: {one.refused}"] if one.refused else []
            assert (expected[one.student][0], *refused, *one.notes) == expected[one.student]


@pytest.mark.parametrize("untouched", [True, False])
@pytest.mark.parametrize("place", ["", "assignment/", "notebooks/", "notebooks/zh/", "mine/", "mine/deeper/"])
def test_an_archive_is_opened_wherever_it_lies_in_a_repository(tmp_path, place, untouched):
    files = {"ann/grader/x.py": "", "ann/notebooks/zh/dds.py": STUB, "ann/assignment/w8a8.py": STUB if untouched else A, "ben/w8a8.py": A}
    files |= {f"ann/{place}work.zip": {"w8a8.py": A, "dds.py": C}}
    ann, _ = collect(delivered(tmp_path / "class", files), tmp_path / "w").hand_ins
    assert work_of(ann) == "ac"


def test_a_signature_is_found_in_linear_time(tmp_path):
    (tmp_path / "w8a8.py").write_text("def W8A8_MM(" + "):#" * 21_000 + "def W8A8_MM(" + "):#\n" * 15_000, encoding="utf-8")
    begun = time.process_time()
    assert begun_in([tmp_path / "w8a8.py"]) == set()
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("name", ["w8a8.py", "w8a8.ipynb"])
def test_a_file_of_definitions_alone_takes_no_time(tmp_path, name):
    (tmp_path / name).write_bytes(b"def W8A8_MM(" * (1 << 19))
    begun = time.process_time()
    assert begun_in([tmp_path / name]) == {"W8A8_MM"}
    assert time.process_time() - begun < 1


def test_links_that_lead_nowhere_cost_nobody(tmp_path):
    places = ("eve/assignment/w8a8.py", "eve/solutions/w8a8.py", "zoe/b/w8a8.py")
    files = {"eve/grader/x.py": "", "eve/assignment/dds.py": C, "zoe/a/w8a8.py": "", "zoe/c/dds.py": C, "ben/w8a8.py": A}
    root = delivered(tmp_path / "class", files)
    for place in places:
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).symlink_to("nowhere")
    intake = collect(root, tmp_path / "w")
    assert {one.student: work_of(one) for one in intake.hand_ins} == {"ben": "a", "eve": "c", "zoe": "c"}
    fates = {one.file: one.fate for one in account(intake.came, intake.hand_ins, standings(list(map(graded, intake.hand_ins)), Rules()))}
    assert [fates[place] == "graded" for place in places] == [False] * 3
    assert str(tmp_path) not in str([one.notes for one in intake.hand_ins])


def test_what_came_in_an_archive_is_accounted_for_after_it_is_gone(tmp_path):
    """`batch` removes what it unpacked before it tells what became of the files."""
    inside = {"ann/w8a8.py": A, "ben/grader/x.py": "", "ben/assignment/w8a8.py": A, "ben/solutions/dds.py": ""}
    inside |= {"ben/notebooks/dds.ipynb": (ROOT / "notebooks" / "dds.ipynb").read_bytes()}
    intake = collect(delivered(tmp_path / "class", {"c.zip": inside}), tmp_path / "w")
    attempts = list(map(graded, intake.hand_ins))
    came = with_ungraded_named(intake.came, attempts, ["w8a8"])
    shutil.rmtree(tmp_path / "w")
    fates = {one.file: one.fate for one in account(came, intake.hand_ins, standings(attempts, Rules()))}
    assert fates["ben/notebooks/dds.ipynb"] == "of the handout"
    assert "graded" in (fates["ann/w8a8.py"], fates["ben/assignment/w8a8.py"])


@pytest.fixture
def as_nobody():
    """A folder of somebody who may not read everything, whom this process is: root is not refused anything."""
    before = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        if before == 0:
            os.chown(folder, 65534, -1)
            os.seteuid(65534)
        yield Path(folder)
        os.seteuid(before)


@pytest.mark.parametrize("place", ["cy", "ann/x"])
def test_a_folder_that_nobody_may_read_costs_its_owner_alone(as_nobody, place):
    root = delivered(as_nobody / "class", {"ann/w8a8.py": A, "ben/w8a8.py": A, f"{place}/dds.py": C})
    (root / place).chmod(0)
    intake = collect(root, as_nobody / "w")
    found = {one.student: one for one in intake.hand_ins}
    assert work_of(found["ann"]) == work_of(found["ben"]) == "a"
    whole = standings(list(map(graded, intake.hand_ins)), Rules())
    (fate,) = [one for one in account(intake.came, intake.hand_ins, whole) if one.file == f"{place}/"]
    assert "check its permissions" in fate.reason
    (root / place).chmod(0o755)


def test_a_source_that_nobody_may_read_is_told_without_its_path(as_nobody):
    files = {"ann/grader/x.py": "", "ann/assignment/dds.py": C, "ann/assignment/w8a8.py": A, "ben/w.zip": {"w8a8.py": A}, "cy/dds.py": C}
    root = delivered(as_nobody / "class", files)
    for place in ("ann/assignment/dds.py", "ben/w.zip"):
        (root / place).chmod(0)
    ann, ben, _ = collect(root, as_nobody / "w").hand_ins
    assert work_of(ann) == "a"
    assert "Permission denied" in ben.refused
    assert str(as_nobody) not in str((ann.notes, ann.refused, ben.notes, ben.refused))


def test_answers_count_wherever_they_are(tmp_path):
    """In two files, and in an archive beside all of a course's kernels."""
    files = {"ann/all.py": A + B + C, "ann/q.zip": {"q.py": "w8a8_bytes = 5\n"}}
    (ann,) = collect(delivered(tmp_path / "class", files), tmp_path / "w").hand_ins
    assert "w8a8_bytes" in begun_in(filter(is_source, children(ann.path)))
    folder = delivered(tmp_path / "two", {"w8a8.py": "w8a8_bytes = 5\nw8a8_intensity = None\n", "questions.py": "w8a8_intensity = 3\n"})
    found = answers_for(folder, ["w8a8"])["w8a8"].numbers
    assert (found["w8a8_bytes"], found["w8a8_intensity"]) == (5, 3)


def test_what_is_no_plain_file_is_not_graded(tmp_path):
    root = delivered(tmp_path, {"ann/w8a8.py": A, "ben/w8a8.py": A})
    os.mkfifo(root / "ann" / "dds.py")
    os.mkfifo(zoe := root / "zoe.py")
    (root / "eve").mkdir()
    (root / "eve" / "w8a8.py").symlink_to(zoe)
    whole = {one.student: one for one in collect(root, tmp_path / "w").hand_ins}
    assert [path.name for path in whole["ann"].taken] == ["w8a8.py"]
    assert next(iter(whole["ann"].left.values())).why == "dds.py is not a plain file; hand in the file itself"
    assert whole["eve"].refused == "w8a8.py is a link and was left out"
    assert whole["zoe"].refused
    assert not whole["zoe"].taken


def test_a_class_within_a_students_archive_says_what_to_give(tmp_path):
    with pytest.raises(Unusable, match="give it by itself"):
        collect(delivered(tmp_path, {"eve/all.zip": {"doe_1_56_w8a8.py": A, "roe_2_57_dds.py": C}}), tmp_path / "w")


def test_of_files_that_may_be_several_students_one_is_asked(tmp_path):
    (one,) = collect(delivered(tmp_path, {"class.zip": {"ann.py": A, "ben.py": C}}) / "class.zip", tmp_path / "w").hand_ins
    assert any("ann.py and ben.py are taken to be one student's" in note for note in one.notes)


@pytest.mark.parametrize("form", ["{}.py", "{}.zip", "{}/work.zip", "in/{}.py", "a/b/{}/x.py"])
def test_a_class_that_is_taken_for_one_student_is_said_to_be(tmp_path, form):
    """Where it lies in a folder of its own and nothing in it says whose it is."""
    files = {f"lab 1/{form.format(name)}": {"x.py": work} if form.endswith("zip") else work for name, work in {"ann": A, "ben": B}.items()}
    (one,) = collect(delivered(tmp_path / "class", files), tmp_path / "w").hand_ins
    assert "are taken to be one student's; if they are several students'" in one.notes[-1]
    (one,) = collect(delivered(tmp_path / "one", {"ann/w8a8.zip": {"w8a8.py": A}, "ann/dds.zip": {"dds.py": C}}), tmp_path / "w").hand_ins
    assert not one.notes


@pytest.mark.parametrize("other", ["w8a8.ipynb", "my_w8a8.py"])
def test_one_kernel_handed_in_twice_is_one(tmp_path, other):
    text = (ROOT / "tests" / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")

    def handed_in(name, source):
        cell = {"cell_type": "code", "source": source}
        (tmp_path / name).write_text(json.dumps({"cells": [cell]}) if name.endswith("ipynb") else source, encoding="utf-8")
        return read(tmp_path, [get_lab("w8a8")]).labs["w8a8"]

    handed_in("kernel.py", text)
    assert isinstance(handed_in(other, f"# again\n{text}"), KernelSource)
    (tmp_path / other).rename(tmp_path / f"other_{other}")
    found = handed_in(f"other_{other}", text.replace("num_warps=4", "num_warps=8"))
    assert "is defined in several files" in found.message


ANSWERED, UNANSWERED = "w8a8_bytes = 3 * 4\n", "w8a8_bytes = None\n"


@pytest.mark.parametrize(
    "files",
    [
        {"w8a8.py": UNANSWERED + STUB, "Copy of w8a8.py": ANSWERED + A},
        {"w8a8.py": ANSWERED + STUB, "src/w8a8.py": A},
        {"w8a8.py": A, "notebooks/w8a8.py": ANSWERED + STUB},
        {"a/w8a8.py": ANSWERED + STUB, "b/w8a8.py": UNANSWERED + A},
    ],
    ids=["a copy", "on top", "below", "side by side"],
)
def test_answers_count_wherever_the_kernel_lies(tmp_path, files):
    both = {f"ann/{name}": text for name, text in files.items()} | {"ben/dds.py": C}
    ann, _ = collect(delivered(tmp_path / "class", both), tmp_path / "w").hand_ins
    assert work_of(ann) == "a"
    assert answers_for(ann.path, ["w8a8"])["w8a8"].numbers["w8a8_bytes"] == 12


@pytest.mark.parametrize(("second", "asked"), [(C, True), (A, False)])
def test_of_folders_that_may_be_one_students_one_is_asked(tmp_path, second, asked):
    files = {"c.zip": {"notes.py": "x = 1\n", "lab1/k.py": A, "lab2/k.py": second}}
    found = collect(delivered(tmp_path, files) / "c.zip", tmp_path / "w").hand_ins
    assert {"lab1", "lab2"} < {one.student for one in found}
    assert {any("is taken for a class of 3" in note for note in one.notes) for one in found} == {asked}


PLAIN = {"ann/w8a8.py": A, "ben/dds.py": C, "cy/w8a8.py": A}
OF_EVE = {"eve/w8a8/k.py": A, "eve/Lab 1 bonus/k.py": C, "eve/w8a8/timestamp.txt": STAMP}
FIVE = {f"s{i}/lab1/w8a8.py": A for i in range(5)} | {"s0/lab2/w8a8.py": B, "s1/lab2/dds.py": C}


@pytest.mark.parametrize(
    "others", [PLAIN, {"ann.py": A, "ben.zip": {"dds.py": C}}, {"ann/w8a8.py": A}, {**PLAIN, "ann/w8a8/k.py": A, "ben/w8a8/k.py": A}]
)
def test_no_student_names_an_assignment(tmp_path, others):
    """In a plain class in a folder called submitted/, neither by folders nor by stamps of one's own."""
    found = collect(delivered(tmp_path / "submitted", {**others, **OF_EVE}), tmp_path / "w").hand_ins
    assert {(one.assignment, one.submitted) for one in found if not one.by_disk} == {("", None)}
    assert {work_of(one) for one in found if one.student == "eve"} == {"ac"}


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({}, "submitted"),
        ({"submitted/s3/lab3/dds.py": C, "gradebook.db": ""}, "submitted"),
        ({f"submitted/{one}/timestamp.txt": STAMP for one in ("s0/lab1", "s0/lab2", "s1/lab1", "s2/lab1")}, "submitted"),
        ({}, "submitted.zip"),
    ],
    ids=["as two students have it", "beside a course", "stamped", "packed"],
)
def test_what_nbgrader_put_together_has_its_assignments(tmp_path, more, place):
    delivered(tmp_path, {f"submitted/{name}": text for name, text in FIVE.items()} | more)
    if place.endswith("zip"):
        (tmp_path / place).write_bytes(archive(FIVE))
    found = collect(tmp_path / place, tmp_path / "w").hand_ins
    expected = sorted(tuple(name.split("/")[:2]) for name in FIVE) + [("s3", "lab3")] * ("gradebook.db" in more)
    assert sorted((one.student, one.assignment) for one in found if one.taken) == sorted(expected)
    assert sum(one.submitted is not None for one in found) == sum(name.endswith("timestamp.txt") for name in more)


def test_who_has_another_folder_than_the_one_asked_for_is_graded(tmp_path):
    files = {"ann/kernels/w8a8.py": A, "ben/kernels/dds.py": C, "eve/w8a8/k.py": A, "eve/dds/k.py": C, "fay/Kernels/w8a8.py": A}
    found = collect(delivered(tmp_path / "class", files), tmp_path / "w", assignment="kernels").hand_ins
    assert {one.student: (one.assignment, work_of(one)) for one in found} == {
        "ann": ("kernels", "a"), "ben": ("kernels", "c"), "eve": ("kernels", "ac"), "fay": ("kernels", "a")
    }


def test_a_stamp_of_ones_own_is_no_time_in_a_plain_class_that_is_asked_for_an_assignment(tmp_path):
    files = {"ann/w8a8.py": A, "ben/dds.py": C, "eve/kernels/k.py": A, "eve/kernels/timestamp.txt": STAMP}
    found = collect(delivered(tmp_path / "class", files), tmp_path / "w", assignment="kernels").hand_ins
    assert [(one.student, one.submitted) for one in found] == [("ann", None), ("ben", None), ("eve", None)]


def test_the_number_that_canvas_gave_says_which_archive_is_newer(tmp_path):
    files = {"doe_1_10_lab.zip": {"w8a8.py": A + "OLD = 1\n"}, "doe_1_20_lab-1.zip": {"w8a8.py": A}, "roe_2_30_dds.py": C}
    folder = delivered(tmp_path / "class", files)
    os.utime(folder / "doe_1_20_lab-1.zip", (0, 0))
    doe = next(one for one in collect(folder, tmp_path / "w").hand_ins if one.student == "doe_1")
    assert "OLD" not in "".join(file.read_text() for file in doe.path.glob("*.py"))


def test_one_persons_number_that_is_anothers_address_is_none(tmp_path):
    eve = METADATA.replace("submission_1", "submission_2").replace("'1'", "'a@u'").replace("email: a@u", "email: e@u")
    people = METADATA.replace("'1'", "''") + eve
    files = {"submission_metadata.yml": people, "submission_1/w8a8.py": A, "submission_2/w8a8.py": A}
    assert {one.student for one in collect(delivered(tmp_path, files), tmp_path / "w").hand_ins} == {"a@u", "e@u"}


def test_an_archive_of_which_nothing_is_graded_is_left_out(tmp_path):
    files = {"ann/w8a8.py": A, "ann/dds.zip": {"dds.py": C}, "ann/handout.zip": {"w8a8.py": STUB}, "ben/dds.py": C}
    ann = next(one for one in collect(delivered(tmp_path, files), tmp_path / "w").hand_ins if one.student == "ann")
    assert {file.name for file in ann.taken} == {"w8a8.py", "dds.zip"}
    told = [(file.name, left.why) for file, left in ann.left.items()]
    assert told == [("handout.zip", "handout.zip was opened, and nothing in it is graded")]
