"""A table for people, in the forms they want it in: Markdown, LaTeX, HTML."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from marvel.report.words import NOT_RUN, NOTHING

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ sheet.title }}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #222; background: #fff; margin: 2rem auto; max-width: 70rem;
       padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: .25rem .8rem .25rem 0; text-align: left; border-bottom: 1px solid #e4e4e4; white-space: nowrap; }
thead th { border-bottom: 2px solid #6b6b6b; }
.differs { color: #a33c00; font-weight: 600; }
.quiet { color: #6b6b6b; }
</style>
</head>
<body>
<h1>{{ sheet.title }}</h1>
<div class="wide">
<table>
<thead><tr>{% for heading in sheet.headings %}<th scope="col">{{ heading }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in sheet.rows %}<tr>{% for cell in row %}<td{{ kind(cell) }}>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table>
</div>
{% for note in sheet.notes %}<p>{{ note }}</p>
{% endfor %}</body>
</html>
"""

SPECIAL = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "–": "--",
    "†": r"$^{\dagger}$",
    "±": r"$\pm$",
    "²": r"$^{2}$",
    "√": r"$\surd$",
}


@dataclass(frozen=True)
class Sheet:
    """A title, a table, and what is said below it."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


def markdown(sheet: Sheet) -> str:
    return "\n\n".join([f"## {sheet.title}", markdown_table(sheet.headings, sheet.rows), *sheet.notes]) + "\n"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def latex(sheet: Sheet) -> str:
    """A table over as many pages as it needs; the document loads booktabs and longtable."""
    body = [" & ".join(map(escaped, row)) + r" \\" for row in sheet.rows]
    return "\n".join(
        [
            "% needs \\usepackage{booktabs,longtable}",
            rf"\begin{{longtable}}{{{'l' * len(sheet.headings)}}}",
            rf"\caption{{{escaped(' '.join([sheet.title + '.', *sheet.notes]))}}} \\",
            r"\toprule",
            " & ".join(map(escaped, sheet.headings)) + r" \\",
            r"\midrule",
            r"\endhead",
            *body,
            r"\bottomrule",
            r"\end{longtable}",
            "",
        ]
    )


def escaped(text: str) -> str:
    """What TeX would take for itself, as it is to be read."""
    return re.sub("[" + re.escape("".join(SPECIAL)) + "]", lambda found: SPECIAL[found[0]], text)


def html(sheet: Sheet) -> str:
    """A page of its own, which fetches nothing."""
    from jinja2 import Environment
    from markupsafe import Markup

    def kind(cell: str) -> Markup:
        loud = cell.startswith("differs") or cell == "failed"
        name = "differs" if loud else "quiet" if cell in (NOT_RUN, NOTHING, "none") else ""
        return Markup(f' class="{name}"') if name else Markup()

    return Environment(autoescape=True).from_string(PAGE).render(sheet=sheet, kind=kind) + "\n"
