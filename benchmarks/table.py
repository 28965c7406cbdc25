"""The rows as a table: on the terminal (with rich where it is installed), or in Markdown."""

import json
import re
from pathlib import Path
from typing import Any

from benchmarks import arithmetic, scale

Facts = dict[str, Any]

HEAD = ("", "what", "measured", "peer", "peer's", "against it", "target", "")
RIGHT = (2, 4, 5)
CHECKED = ("arithmetic", "million")
"""The pieces that docs/scale.md is checked by."""
MARK = re.compile(r"(<!-- (benchmarks|scale|arithmetic|checked): (\S+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


def cells(piece: str, row: Facts) -> tuple[str, ...]:
    unit = row.get("unit", "")
    met = {True: "met", False: "missed", None: ""}[row.get("met")]
    said = "; ".join(part for part in (met, row.get("note", "")) if part)
    return (
        piece,
        row["what"],
        with_spread(row) if "value" in row else "",
        row.get("peer", ""),
        f"{number(row['peer_value'])} {unit}" if "peer_value" in row else "",
        against(row),
        row.get("target", ""),
        said,
    )


def number(value: float) -> str:
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def with_spread(row: Facts) -> str:
    spread = ""
    if row.get("low") != row.get("high"):
        spread = f" ({number(row['low'])} to {number(row['high'])})"
    return f"{number(row['value'])} {row.get('unit', '')}".rstrip() + spread


def against(row: Facts) -> str:
    """0.01 -> 100x less, 1.02 -> +2.0%, 3 -> 3x; the percents with what they lie between."""
    ratio = row.get("ratio")
    if ratio is None:
        return ""
    if not 0.5 <= ratio <= 2:
        return f"{1 / ratio:.3g}x less" if ratio < 1 else f"{ratio:.3g}x"
    low, high = row.get("ratio_low", ratio), row.get("ratio_high", ratio)
    return percent(ratio) + (f" ({percent(low)} to {percent(high)})" if low != high else "")


def percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}%"


def lines(found: Facts) -> list[tuple[str, ...]]:
    """Of a whole file: every piece, every row."""
    return [cells(piece, row) for piece, part in found.items() for row in part["rows"]]


def show(found: Facts) -> None:
    """On the terminal."""
    rows = lines(found)
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        for row in rows:
            print("  ".join(cell for cell in row if cell))
        return
    table = Table(title="Marvel's benchmarks: medians (and quartiles)")
    for k, name in enumerate(HEAD):
        table.add_column(name, justify="right" if k in RIGHT else "left")
    before = ""
    for row in rows:
        if row[0] != before and before:
            table.add_section()
        table.add_row(row[0] if row[0] != before else "", *row[1:])
        before = row[0]
    console = Console()
    if not console.is_terminal:
        console.width = 200  # a file has no edge
    console.print(table)


def markdown(found: Facts) -> str:
    rule = ["---:" if k in RIGHT else "---" for k in range(len(HEAD))]
    rows = [HEAD, rule, *lines(found)]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return f"{origin(found)}\n\n{table}\n"


def origin(found: Facts) -> str:
    """Where and with what the figures were measured, one sentence for all pieces that agree on it."""
    told: dict[str, list[str]] = {}
    for piece, part in found.items():
        e = part["environment"]
        commit = (e["commit"] or "unknown")[:7]
        sentence = (
            f"{e['device']}, {e['cores']} cores, {e['memory_gib']} GiB, {e['threads']} thread"
            f"{'s' * (e['threads'] > 1)}; Python {e['python']}, torch {e['torch']}, marvel {e['marvel']} at {commit}; "
            f"measured {part['on']}"
        )
        told.setdefault(sentence, []).append(piece)
    where = [f"{', '.join(pieces)}: {sentence}." for sentence, pieces in told.items()]
    busy = [f"{piece} {part['load'][0]}" for piece, part in found.items() if part["load"]]
    return " ".join([*where, *([f"Load of the machine as each began: {', '.join(busy)}."] if busy else [])])


def rewrite(document: Path) -> list[str]:
    """Put what the marks of a document ask for between them, made from the files they name; returns the files."""
    named = []

    def table(mark: re.Match[str]) -> str:
        path = Path(mark[3])
        named.append(mark[3])
        if not path.exists():
            return f"{mark[1]}`{path}` is not here yet.\n{mark[4]}"
        make = {
            "benchmarks": markdown,
            "scale": scale.markdown,
            "arithmetic": arithmetic.markdown,
            "checked": lambda found: markdown({name: found[name] for name in CHECKED if name in found}),
        }[mark[2]]
        return f"{mark[1]}{make(json.loads(path.read_text(encoding='utf-8')))}{mark[4]}"

    document.write_text(MARK.sub(table, document.read_text(encoding="utf-8")), encoding="utf-8")
    return list(dict.fromkeys(named))
