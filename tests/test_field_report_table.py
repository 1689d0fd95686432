"""The table of field reports names tests that exist."""

import re
from pathlib import Path

import pytest

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
        _report, _what, tagged, test = row.strip("| ").split(" | ")
        assert set(tagged.split()) <= tags, row
        assert re.match(r"`tests/", test), row
