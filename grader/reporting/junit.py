"""The report as JUnit XML, one test suite a lab, for whatever reads that."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from grader.model import LabReport, Report

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def junit(*reports: Report) -> str:
    """XML text, the reports' labs one after the other; with several reports a suite is named submission/lab.

    A lab that was never run is one failing (not attempted: skipped) test case named `submission`.
    """
    root = ElementTree.Element("testsuites", name=_clean(reports[0].submission if len(reports) == 1 else "class"))
    for report in reports:
        for lab_id, lab in report.labs.items():
            _add_suite(root, lab_id if len(reports) == 1 else f"{report.submission}/{lab_id}", lab)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_suite(root: ElementTree.Element, name: str, lab: LabReport) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=_clean(name))
    if not lab.tests:
        case = ElementTree.SubElement(suite, "testcase", classname=lab.lab_id, name="submission")
        tag = "skipped" if lab.status == "not_attempted" else "failure"
        ElementTree.SubElement(case, tag, message=_clean(f"{lab.status}: {lab.message}"))
    for test in lab.tests:
        seconds = str(test.metrics.get("seconds", 0))
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"{lab.lab_id}.{test.kind}", name=test.name, time=seconds
        )
        if test.status in ("failed", "error", "skipped"):
            tag = {"failed": "failure", "error": "error", "skipped": "skipped"}[test.status]
            ElementTree.SubElement(case, tag, message=_clean(test.message))
    counts = {tag: len(suite.findall(f"testcase/{tag}")) for tag in ("failure", "error", "skipped")}
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(counts["failure"]))
    suite.set("errors", str(counts["error"]))
    suite.set("skipped", str(counts["skipped"]))


def _clean(text: str) -> str:
    return CONTROL.sub("?", text)
