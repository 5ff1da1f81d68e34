"""The report as JUnit XML, one test suite a lab, for whatever reads that."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from grader.model import LabReport, Report
from grader.reporting.text import prose


def junit(*reports: Report) -> str:
    """XML text, the reports' labs one after the other; with several reports a suite is named submission/lab.

    A lab that was never run is one failing test case named `submission` (not attempted: skipped; not graded: an error).
    """
    root = ElementTree.Element("testsuites", name=prose(reports[0].submission if len(reports) == 1 else "class"))
    for report in reports:
        for lab_id, lab in report.labs.items():
            _add_suite(root, lab_id if len(reports) == 1 else f"{report.submission}/{lab_id}", lab)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_suite(root: ElementTree.Element, name: str, lab: LabReport) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=prose(name))
    if not lab.tests:
        case = ElementTree.SubElement(suite, "testcase", classname=lab.lab_id, name="submission")
        tag = {"not_attempted": "skipped", "not_graded": "error"}.get(lab.status, "failure")
        ElementTree.SubElement(case, tag, message=prose(f"{lab.status}: {lab.message}"))
    for test in lab.tests:
        seconds = str(test.metrics.get("seconds", 0))
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"{lab.lab_id}.{test.kind}", name=prose(test.name), time=seconds
        )
        if test.status in ("failed", "error", "skipped"):
            tag = {"failed": "failure", "error": "error", "skipped": "skipped"}[test.status]
            ElementTree.SubElement(case, tag, message=prose(test.message))
    suite.set("tests", str(len(suite)))
    for tag, several in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(several, str(len(suite.findall(f"testcase/{tag}"))))
