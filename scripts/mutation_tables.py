"""Tables of docs/verification.md, made of what `python -m mutation --json` wrote."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from mutation.components import COMPONENTS
from scripts.measured import table

__all__ = ["TABLES"]

DATA = Path(__file__).resolve().parent.parent / "docs" / "data" / "mutants.json"
#: Attributes of a component, and what notices there.
JUDGES = ("tests", "bench", "proofs")
RESULTS = ("caught", "survived", "equivalent", "explained")
#: What became of those that are faults: the others change nothing.
PLANTED = ("caught", "survived")


def listed() -> list[dict]:
    """Every planted fault; none where they were not planted yet."""
    return json.loads(DATA.read_text())["mutants"] if DATA.exists() else []


def mutation() -> str:
    """Faults by component: how many, what became of them, who noticed, and how long it took."""
    mutants = listed()
    names = list(dict.fromkeys(mutant["component"] for mutant in mutants))
    body = [_row(name, [m for m in mutants if m["component"] == name]) for name in names]
    header = ["Component", "planted", *RESULTS, *JUDGES, "seconds"]
    return table(header, [*body, _row("**all**", mutants)])


def _row(name: str, mutants: list[dict]) -> list[str]:
    counts = Counter(mutant["result"] for mutant in mutants)
    planted = sum(counts[result] for result in PLANTED)
    noticed = Counter(judge for mutant in mutants for judge in mutant["noticed"])
    noticed["proofs"] = sum(bool(mutant["proofs"]) for mutant in mutants)
    component = COMPONENTS.get(name)
    seconds = sum(mutant["seconds"] for mutant in mutants)
    return [
        name,
        str(planted),
        *(str(counts[result]) for result in RESULTS),
        # A dash where the component has no such judge.
        *(
            "-" if component and not getattr(component, judge) else str(noticed[judge])
            for judge in JUDGES
        ),
        f"{seconds:.0f}",
    ]


def mutation_kinds() -> str:
    """Faults by kind."""
    mutants = listed()
    kinds = Counter(mutant["kind"] for mutant in mutants if mutant["result"] in PLANTED)
    caught = Counter(mutant["kind"] for mutant in mutants if mutant["result"] == "caught")
    body = [[kind, str(count), str(caught[kind])] for kind, count in kinds.most_common()]
    return table(["Kind of fault", "planted", "caught"], body)


def mutation_survivors() -> str:
    """What was not caught, and why."""
    body = [
        [
            f"`{mutant['file']}`",
            mutant["kind"],
            f"`{mutant['text'].replace('|', chr(92) + '|')}`",
            mutant["result"],
            mutant["by"],
        ]
        for mutant in listed()
        if mutant["result"] != "caught"
    ]
    return table(["File", "fault", "line", "result", "reason"], body)


#: Generated part to what writes it.
TABLES = {
    "mutation": mutation,
    "mutation_kinds": mutation_kinds,
    "mutation_survivors": mutation_survivors,
}
