"""The table of field reports names tests that exist, and says what came of them."""

import re
from pathlib import Path

import pytest

from scripts import field_reports

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "field-reports.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_test_that_the_table_names_exists(file, test):
    text = (ROOT / file).read_text()
    assert f"def {test}(" in text or not test


def test_every_test_of_a_report_is_in_the_table():
    for file in sorted((ROOT / "tests" / "system").glob("test_field_reports*.py")):
        for test in re.findall(r"^def (test_\w+)\(", file.read_text(), re.M):
            assert (f"tests/system/{file.name}", test) in NAMED, test


def test_each_row_has_tags_and_a_test():
    tags = {"XBAR", "PORT", "SYNC", "ENG", "BC", "CSR"}
    rows = [row for row in PAGE.splitlines() if row.startswith("| ") and "---" not in row][1:]
    assert rows
    for row in rows:
        _report, _what, tagged, test, result = row.strip("| ").split(" | ")
        assert set(tagged.split()) <= tags, row
        assert re.match(r"`tests/", test), row
        assert re.fullmatch(r"passed \(\d+\)", result), row


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ([(3, 3), (2, 2)], "passed (5)"),
        ([(3, 2), (2, 2)], "failed (1 of 5)"),
        ([(3, 3), (0, 0)], "not run"),
        ([(3, 3), None], "not run"),
    ],
)
def test_a_result_is_that_of_all_its_tests(counts, says):
    results = {
        str(number): dict(zip(("run", "passed"), count, strict=True))
        for number, count in enumerate(counts)
        if count
    }
    assert field_reports.result({"tests": ["0", "1"]}, results) == says


def test_cases_are_counted_by_the_tests_name(tmp_path):
    """Also of one that fails, and of a name that there is not."""
    some, none = "tests/lib/test_some.py::test_some", "tests/lib/test_some.py::test_none"
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuite>"
        + "".join(
            f'<testcase classname="tests.lib.test_some" name="test_some[{n}]">{child}</testcase>'
            for n, child in enumerate(("", "", "<failure/>"))
        )
        + "</testsuite>"
    )
    counts = field_reports.counted([some, none], report)
    assert counts == {some: {"run": 3, "passed": 2}, none: {"run": 0, "passed": 0}}
