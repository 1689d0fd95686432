"""Write the snippets of docs/examples into the pages that show them.

A page shows a file's snippet between `<!-- example: FILE -->` and `<!-- end -->`; the snippet is
what stands in the file between `-- snippet` and `-- end`. With --check nothing is written; the
exit code is 1 if a page differs, and each is named.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
EXAMPLES = DOCS / "examples"

LANGUAGES = {".py": "python", ".v": "verilog"}
_SNIPPET = re.compile(r"^[^\n]*-- snippet\n(.*?)^[^\n]*-- end$", re.M | re.S)
_PLACE = re.compile(r"(<!-- example: (\S+) -->)\n.*?<!-- end -->", re.S)


def snippet(name: str) -> str:
    """The part of file `name` that a page shows, without indentation."""
    found = _SNIPPET.search((EXAMPLES / name).read_text())
    if found is None:
        raise ValueError(f"{name}: must have a part between '-- snippet' and '-- end'")
    return textwrap.dedent(found[1])


def render(text: str) -> str:
    """`text` with each snippet written again."""

    def part(match: re.Match) -> str:
        language = LANGUAGES[Path(match[2]).suffix]
        return f"{match[1]}\n```{language}\n{snippet(match[2])}```\n<!-- end -->"

    return _PLACE.sub(part, text)


def stale() -> dict[Path, str]:
    """Pages that would change, with their new text."""
    texts = {path: path.read_text() for path in sorted(DOCS.glob("*.md"))}
    return {path: render(text) for path, text in texts.items() if render(text) != text}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.include_examples", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs")
    check = parser.parse_args().check
    changed = stale()
    for path, text in changed.items():
        if check:
            print(f"docs/{path.name}: differs from docs/examples", file=sys.stderr)
        else:
            path.write_text(text)
            print(f"docs/{path.name}: written")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
