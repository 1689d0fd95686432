"""A component's unit tests as a judge: pytest in this process, with the fault in every design.

What Amaranth's simulator runs has the fault alone; compiled models have all, and are told which.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import amaranth.sim  # noqa: F401  imported once, before the judge's copies are made
import pytest
from amaranth.hdl import Fragment

from .components import Component
from .engine import EngineFaults
from .faults import ROOT, Fault, nearest, plant

__all__ = ["UnitJudge"]

#: pytest without plugins, caches or the project's own options; up to the first failure.
OPTIONS = (
    "-x", "-q", "--import-mode=importlib", "-p", "no:cacheprovider", "-m", "not long",
    "-o", "addopts=", "-o", "python_functions=test_*", "--no-header", "--tb=line",
)  # fmt: skip


class _FirstFailure:
    """Remembers which test failed first."""

    name = ""

    def pytest_runtest_logreport(self, report):
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report):
        if report.failed and not self.name:
            self.name = report.nodeid


class UnitJudge:
    """Asks a component's unit tests for their verdict on one fault after the other."""

    name = "tests"

    def __init__(self, component: Component, faults: Sequence[Fault], folder: Path):
        self._component = component
        self._faults = faults
        self._engine = EngineFaults(faults, folder / "models")

    def __call__(self, number: int) -> str:
        """The test that fails with fault `number` (from 1; 0 is none), or an empty text."""
        prepare = Fragment.prepare

        def prepared(fragment, *arguments, **options):
            if number and not self._engine.building:
                here = nearest(fragment, self._faults[number - 1])
                plant(fragment, [here] if here else [])
            return prepare(fragment, *arguments, **options)

        first = _FirstFailure()
        with (
            mock.patch.object(Fragment, "prepare", prepared),
            self._engine.planted(number),
            mock.patch.dict(os.environ, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}),
        ):
            code = pytest.main(
                [*OPTIONS, *(str(ROOT / path) for path in self._component.tests)], [first]
            )
        if code and not first.name:
            raise RuntimeError(f"pytest ended with {code}")
        return first.name
