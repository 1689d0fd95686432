"""Judges the faults of one component; what was judged before is kept, and not judged again."""

from __future__ import annotations

import functools
import json
import random
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from amaranth.hdl import Fragment

from formal.proofs import PROOFS
from hdl.building.cache import digest

from .bench import BenchJudge
from .components import Component
from .equivalence import is_equivalent
from .faults import KINDS, ROOT, Fault, find
from .forked import JudgeError, forked
from .proofs import broken_by
from .sources import imported_files
from .unit import UnitJudge

__all__ = [
    "BUILD",
    "CAUGHT",
    "EQUIVALENT",
    "EXPLAINED",
    "OF_A_FILE",
    "SURVIVED",
    "JudgeError",
    "Mutant",
    "judge",
    "places",
    "sample",
]

#: Where judges run, and what they said is kept.
BUILD = Path("build") / "mutation"

#: What became of a fault.
CAUGHT, SURVIVED, EQUIVALENT, EXPLAINED = "caught", "survived", "equivalent", "explained"

#: Processor seconds that a judge has, in multiples of what it takes where there is no fault, and at
#: least so many.
PATIENCE, SHORTEST = 6, 20
#: Processor seconds of the run without a fault.
LONGEST = 900
#: Seconds of a solver's run for all faults of a component.
PROOF_SECONDS = 1800

#: Faults of each file of a component, at least, where it has so many.
OF_A_FILE = 2

#: Modules of this package that verdicts depend on.
JUDGES = ("bench", "engine", "equivalence", "faults", "forked", "judging", "unit")
#: Why survivors are none, by key; a line each.
EXPLANATIONS = Path(__file__).with_name("explained.toml")


@dataclass(frozen=True)
class Mutant:
    """A fault and what became of it.

    Parameters
    ----------
    result
        ``caught``; ``equivalent``, by proof; ``explained``, by hand; or ``survived``.
    by
        The test that caught it first, or the reason.
    noticed
        Of ``tests`` and ``bench``, those that noticed it; both are always asked.
    proofs
        Names of proofs that a trace breaks with it.
    seconds
        Of processor time, of tests and bench.
    """

    component: str
    fault: Fault
    result: str
    by: str
    noticed: tuple[str, ...]
    seconds: float
    proofs: tuple[str, ...] = ()

    def as_json(self) -> dict:
        """One level; the fault's fields beside the others."""
        fields = asdict(self)
        return fields.pop("fault") | fields


@functools.cache  # a whole system takes seconds
def places(component: Component) -> dict[str, Fault]:
    """Every fault that can be planted in `component`, in any of its configurations, by key."""
    found: dict[str, Fault] = {}
    for config in component.configs:
        fragment = Fragment.get(component.create(config), platform=None)
        for fault in find(fragment, component.files):
            found.setdefault(fault.key, fault)
    return found


def sample(component: Component, count: int, seed: int) -> list[Fault]:
    """`count` faults of `component`, or all; more where it has many files, for some of each.

    They are taken in turn from every kind, and of a kind from the file that has the fewest.
    """
    draw = random.Random(f"{component.name} {seed}")
    left = defaultdict(lambda: defaultdict(list))  # by kind and file
    for fault in places(component).values():
        left[fault.kind][fault.file].append(fault)
    for files in left.values():
        for faults in files.values():
            draw.shuffle(faults)
    most = max(count, OF_A_FILE * len(component.files))
    chosen: list[Fault] = []
    taken: Counter[str] = Counter()
    while len(chosen) < most and any(left.values()):
        for kind in KINDS:
            if not left[kind] or len(chosen) == most:
                continue
            file = min(sorted(left[kind]), key=lambda file: taken[file])
            chosen.append(left[kind][file].pop())
            taken[file] += 1
            if not left[kind][file]:
                del left[kind][file]
    return sorted(chosen)


def explanations() -> dict[str, str]:
    """Reasons that were written for survivors, by the faults' keys."""
    return {
        each["fault"]: each["reason"] for each in tomllib.loads(EXPLANATIONS.read_text())["fault"]
    }


def judge(
    component: Component,
    faults: Sequence[Fault],
    *,
    proofs: bool,
    say: Callable[[str], None],
    build: Path = BUILD,
) -> list[Mutant]:
    """What becomes of each of `faults`, which are all of `component`.

    The unit tests are asked, and the bench; what neither notices is compared with the design
    without it.
    """
    folder = build / component.name
    kept = _Kept(folder / "verdicts.json", _state(component))
    mutants = {fault.key: kept.get(fault) for fault in faults}
    open_faults = [fault for fault in faults if mutants[fault.key] is None]
    if open_faults:
        judges = _Judges(component, faults, folder)
        for done, fault in enumerate(open_faults, start=1):
            mutants[fault.key] = judges.ask(fault)
            kept.put(mutants[fault.key])
            say(f"{component.name}: {done} of {len(open_faults)}: {mutants[fault.key].result}: "
                f"{fault.key}")  # fmt: skip
    result = [_explained(mutants[fault.key]) for fault in faults]
    return _with_proofs(component, result, folder, say) if proofs else result


def _explained(mutant: Mutant) -> Mutant:
    reason = explanations().get(mutant.fault.key)
    if mutant.result != SURVIVED or reason is None:
        return mutant
    return replace(mutant, result=EXPLAINED, by=reason)


def _with_proofs(component, mutants, folder, say) -> list[Mutant]:
    """The same, with those proofs that a trace breaks."""
    faults = [mutant.fault for mutant in mutants]
    broken = defaultdict(list)
    for name in component.proofs:
        found = broken_by(PROOFS[name], faults, folder / "proofs", seconds=PROOF_SECONDS)
        late = "" if found["ended"] else f", given up after {PROOF_SECONDS} s"
        say(f"{component.name}: proof {name}: {len(found['caught'])} of {found['planted']}{late}")
        for number in found["caught"]:
            broken[number].append(name)
    return [
        replace(mutant, proofs=tuple(broken[number]))
        for number, mutant in enumerate(mutants, start=1)
    ]


class _Judges:
    """The judges of one component, each with its limit."""

    def __init__(self, component: Component, faults: Sequence[Fault], folder: Path):
        self._component, self._faults, self._folder = component, list(faults), folder
        self._kinds = [UnitJudge] * bool(component.tests) + [BenchJudge] * bool(component.bench)
        self._made: dict[str, UnitJudge | BenchJudge] = {}
        self._limits: dict[str, int] = {}

    def ask(self, fault: Fault) -> Mutant:
        number, seconds, noticed = self._faults.index(fault) + 1, 0.0, {}
        for kind in self._kinds:
            judge = self._judge(kind)
            verdict = self._verdict(judge, number, self._limit(judge))
            seconds += verdict.seconds
            if verdict.caught:
                noticed[judge.name] = verdict.by
        if noticed:
            result, by = CAUGHT, next(iter(noticed.values()))
        else:
            equivalent = self._component.compared and is_equivalent(self._component, fault)
            result, by = (EQUIVALENT, "by proof") if equivalent else (SURVIVED, "")
        name, seconds = self._component.name, round(seconds, 2)
        return Mutant(name, fault, result, by, tuple(noticed), seconds)

    def _judge(self, kind: type):
        """Made when it is first asked: benches are built then."""
        if kind.name not in self._made:
            self._made[kind.name] = kind(self._component, self._faults, self._folder)
        return self._made[kind.name]

    def _verdict(self, judge, number: int, limit: int):
        log = self._folder / f"{judge.name}-{number}.log"
        return forked(lambda: judge(number), seconds=limit, log=log)

    def _limit(self, judge) -> int:
        """What the judge may take; it must be content with the design as it is."""
        if judge.name not in self._limits:
            verdict = self._verdict(judge, 0, LONGEST)
            if verdict.caught:
                raise JudgeError(
                    f"{self._component.name}: {judge.name}: fails without a fault, too: "
                    f"{verdict.by}; see {self._folder / judge.name}-0.log"
                )
            self._limits[judge.name] = max(SHORTEST, int(PATIENCE * verdict.seconds))
        return self._limits[judge.name]


class _Kept:
    """Verdicts in a file, for as long as neither design nor judges change."""

    def __init__(self, path: Path, state: str):
        self._path, self._state = path, state
        kept = json.loads(path.read_text()) if path.exists() else {}
        self._verdicts = kept.get("verdicts", {}) if kept.get("state") == state else {}

    def get(self, fault: Fault) -> Mutant | None:
        fields = self._verdicts.get(fault.key)
        return fields and Mutant(
            **{**fields, "fault": fault, "noticed": tuple(fields["noticed"]), "proofs": ()}
        )

    def put(self, mutant: Mutant):
        fields = asdict(mutant)
        del fields["fault"]
        self._verdicts[mutant.fault.key] = fields
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(
            json.dumps({"state": self._state, "verdicts": self._verdicts}, indent=1) + "\n"
        )


def _state(component: Component) -> str:
    """A hash of the component's source and of all that judges it."""
    files = [Path(file) for file in (*component.files, *component.tests)]
    if component.bench:
        files.append(Path("cocotb_tests", f"{component.bench.module}.py"))
    judges = (f"mutation/{name}.py" for name in JUDGES)
    configs = (config.to_json() for config in component.configs)
    paths = (ROOT / file for file in (*judges, *imported_files(files, ROOT)))
    return digest([*configs, *(path.read_text() for path in paths)])
