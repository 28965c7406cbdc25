"""Charts for the HTML report, drawn as SVG: small, sharp in print, and coloured by the page's style sheet.

Every chart says in words what it shows (`told`), for those who cannot see it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

WIDTH, HEIGHT = 340, 228
LEFT, RIGHT, TOP, BOTTOM = 42, 10, 26, 36
"""Room around the plot, for what the axes say."""

AROUND = 3
"""How many times as many labels as are listed a chart of list lengths shows."""

Values = Sequence[float | None]


@dataclass(frozen=True)
class Scale:
    """From numbers to places: `low` lies at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, about: int = 5) -> list[float]:
        """About that many round numbers between low and high."""
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        rough = span / about
        power = 10 ** math.floor(math.log10(rough))
        step = power * next(k for k in (1, 2, 5, 10) if k * power >= 0.7 * rough)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(k * step, 10) for k in range(first, last + 1)]


def across(low: float, high: float) -> Scale:
    return Scale(low, high, LEFT, WIDTH - RIGHT)


def upwards(low: float, high: float) -> Scale:
    return Scale(low, high, HEIGHT - BOTTOM, TOP)


def percent(value: float) -> str:
    return f"{100 * value:g}%"


def number(value: float) -> str:
    """1,200 and 0.5; a true minus sign."""
    return f"{value:,.0f}".replace("-", "−") if float(value).is_integer() else f"{value:g}".replace("-", "−")


# ------------------------------------------------------------ the charts


def curves(series: Mapping[str, Values], told: str, warmup: int | None = None) -> Markup:
    """Shares by epoch, a line each; the keys are the classes of the lines in the style sheet."""
    epochs = max(len(values) for values in series.values())
    x, y = across(1, max(2, epochs)), upwards(0, 1)
    marks = [_warmup(x, warmup)]
    for key, values in series.items():
        marks += [_line(run, f"line {key}") for run in _runs(x, y, values)]
    return _chart(marks, x, y, told, "epoch", "share of labels", tick=percent)


def fan(quantiles: Sequence[Sequence[float] | None], told: str, warmup: int | None = None) -> Markup:
    """The 5, 25, 50, 75 and 95% quantiles of something by epoch: two bands and a line."""
    known = [(epoch, row) for epoch, row in enumerate(quantiles, 1) if row is not None]
    x = across(1, max(2, len(quantiles)))
    y = upwards(*_around(value for _, row in known for value in row))
    marks = [_warmup(x, warmup)]
    for low, high in ((0, 4), (1, 3)):
        there = [(x(epoch), y(row[low])) for epoch, row in known]
        back = [(x(epoch), y(row[high])) for epoch, row in reversed(known)]
        marks.append(_tag("path", d=_path([*there, *back]) + "Z", class_="band"))
    marks += [_zero(x, y), _line([(x(epoch), y(row[2])) for epoch, row in known], "line ink")]
    return _chart(marks, x, y, told, "epoch", "margin")


def bars(counts: Sequence[int], told: str, warmup: int | None = None) -> Markup:
    """How many in each epoch."""
    x, y = across(0.5, len(counts) + 0.5), upwards(0, max(1, *counts))
    gap = min(1.5, (x(2) - x(1)) / 5) if len(counts) > 1 else 0
    marks = [_warmup(x, warmup)]
    for epoch, count in enumerate(counts, 1):
        if count:
            marks.append(
                _bar(x(epoch - 0.5) + gap / 2, x(epoch + 0.5) - gap / 2, y(0), y(count), "bar ink", _said(epoch, count))
            )
    return _chart(marks, x, y, told, "epoch", "instances", whole=True)


def histogram(edges: Sequence[float], layers: Mapping[str, Sequence[int]], told: str, below: str) -> Markup:
    """Counts between edges, the layers stacked in their order."""
    x = across(edges[0], edges[-1])
    y = upwards(0, max(1, *(sum(column) for column in zip(*layers.values(), strict=True))))
    marks = []
    for k, (left, right) in enumerate(pairwise(edges)):
        base = 0
        for key, counts in layers.items():
            if counts[k]:
                marks.append(_bar(x(left) + 0.5, x(right) - 0.5, y(base), y(base + counts[k]), f"bar {key}"))
            base += counts[k]
    return _chart(marks, x, y, told, below, "instances", whole=True)


def trade(points: Sequence[Mapping[str, float | None]], chosen: int, told: str) -> Markup:
    """Precision and recall of a list by its length; the length that was chosen is marked."""
    # Far beyond the list there is nothing to choose.
    points = [point for k, point in enumerate(points) if k < 2 or float(point["flagged"] or 0) <= AROUND * chosen]
    x, y = across(0, max([1, chosen, *(int(point["flagged"] or 0) for point in points)])), upwards(0, 1)
    marks = []
    for key in ("precision", "recall"):
        known = [(x(float(p["flagged"] or 0)), y(float(value))) for p in points if (value := p[key]) is not None]
        marks.append(_line(known, f"line {key}"))
    marks.append(_tag("line", x1=x(chosen), x2=x(chosen), y1=TOP, y2=HEIGHT - BOTTOM, class_="mark"))
    near_right = x(chosen) > (LEFT + WIDTH) / 2
    place = {"x": x(chosen) + (-5 if near_right else 5), "text_anchor": "end" if near_right else "start"}
    marks.append(_tag("text", "the list", y=HEIGHT - BOTTOM - 7, class_="said", **place))
    return _chart(marks, x, y, told, "labels listed", "share", tick=percent)


def spark(margins: Values, told: str, removed_at: int = 0, returned_at: int = 0, wide: bool = False) -> Markup:
    """One instance's margins by epoch: below the line the network believes another class; a ring where it returned."""
    width, height, room = 330 if wide else 200, 46, 3
    x = Scale(1, max(2, len(margins)), room, width - room)
    low, high = _around((value for value in margins if value is not None), least=1)
    y = Scale(low, high, height - room, room)
    zero = y(0)
    marks = []
    for run in _runs(x, y, margins):
        marks.append(_tag("path", d=_path([(run[0][0], zero), *run, (run[-1][0], zero)]) + "Z", class_="fill"))
        marks.append(_line(run, "line"))
    marks.append(_tag("line", x1=0, x2=width, y1=zero, y2=zero, class_="zero"))
    for epoch, kind in ((removed_at, "removed"), (returned_at, "returned")):
        if epoch and epoch <= len(margins) and (value := margins[epoch - 1]) is not None:
            marks.append(_tag("circle", cx=x(epoch), cy=y(value), r=3, class_=kind))
    return _svg(width, height, marks, told, "spark")


def interval(value: float, low: float, high: float, listed: int, told: str) -> Markup:
    """An estimate with its interval, and how many are listed, on one line."""
    width, height, line = 340, 96, 40
    x = Scale(0, 1.12 * max(high, listed, 1), 8, width - 8)
    marks = [
        _tag("line", x1=x(0), x2=x(x.high), y1=line, y2=line, class_="base"),
        _tag("rect", x=x(low), y=line - 7, width=round(max(2, x(high) - x(low)), 1), height=14, rx=7, class_="range"),
        _tag("circle", cx=x(value), cy=line, r=5, class_="dot"),
        _tag("line", x1=x(listed), x2=x(listed), y1=line - 16, y2=line - 8, class_="mark"),
    ]
    anchor = "end" if x(listed) > width * 0.66 else "start" if x(listed) < width * 0.34 else "middle"
    marks.append(_tag("text", f"{listed:,} listed", x=x(listed), y=line - 20, text_anchor=anchor, class_="said"))
    axis = [_tag("text", "0", x=x(0), y=height - 24, text_anchor="middle")]
    apart = x(high) - x(low) > 64
    if apart:
        axis += [_tag("text", number(round(end)), x=x(end), y=height - 24, text_anchor="middle") for end in (low, high)]
    else:
        both = f"{number(round(low))}–{number(round(high))}"
        axis.append(_tag("text", both, x=x((low + high) / 2), y=height - 24, text_anchor="middle"))
    axis.append(_tag("text", "wrong labels", x=width / 2, y=height - 4, text_anchor="middle", class_="name"))
    return _svg(width, height, [*marks, _tag("g", Markup().join(axis), class_="axis")], told, "chart interval")


# ------------------------------------------------------------ what they are made of


def _chart(
    marks: Iterable[Markup],
    x: Scale,
    y: Scale,
    told: str,
    below: str,
    beside: str,
    tick: Callable[[float], str] = number,
    whole: bool = False,
) -> Markup:
    behind, axes = [], []
    for value in y.ticks(4):
        if whole and not float(value).is_integer():
            continue
        behind.append(_tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(value), y2=y(value), class_="grid"))
        axes.append(_tag("text", escape(tick(value)), x=LEFT - 7, y=y(value) + 4, text_anchor="end"))
    for value in x.ticks(5):
        axes.append(_tag("text", escape(number(value)), x=x(value), y=HEIGHT - BOTTOM + 16, text_anchor="middle"))
    base = HEIGHT - BOTTOM
    axes.append(_tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base, class_="base"))
    axes.append(
        _tag("text", escape(below), x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 3, text_anchor="middle", class_="name")
    )
    axes.append(_tag("text", escape(beside), x=0, y=11, class_="name"))
    return _svg(WIDTH, HEIGHT, [*behind, *marks, _tag("g", Markup().join(axes), class_="axis")], told, "chart")


def _svg(width: int, height: int, marks: Iterable[Markup], told: str, kind: str) -> Markup:
    box = f"0 0 {width} {height}"
    return _tag(
        "svg", Markup().join(marks), viewBox=box, width=width, height=height, class_=kind, role="img", aria_label=told
    )


def _tag(tag: str, content: Markup | str = "", /, **attributes: object) -> Markup:
    said = Markup().join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    return Markup("<{}{}>{}</{}>").format(Markup(tag), said, content, Markup(tag))


def _line(points: Sequence[tuple[float, float]], kind: str) -> Markup:
    return _tag("path", d=_path(points), class_=kind)


def _bar(left: float, right: float, low: float, high: float, kind: str, title: str = "") -> Markup:
    told = _tag("title", title) if title else ""
    box = {
        "x": round(left, 1),
        "y": high,
        "width": round(max(0.5, right - left), 1),
        "height": round(max(0.5, low - high), 1),
    }
    return _tag("rect", told, class_=kind, **box)


def _warmup(x: Scale, warmup: int | None) -> Markup:
    """A shade over the epochs of the warm-up."""
    if not warmup or x(warmup) <= LEFT:
        return Markup()
    return _tag("rect", x=LEFT, y=TOP, width=round(x(warmup) - LEFT, 1), height=HEIGHT - TOP - BOTTOM, class_="warmup")


def _zero(x: Scale, y: Scale) -> Markup:
    return _tag("line", x1=x.start, x2=x.end, y1=y(0), y2=y(0), class_="zero")


def _runs(x: Scale, y: Scale, values: Values) -> list[list[tuple[float, float]]]:
    """The points, epoch by epoch, parted where a value is not known."""
    runs: list[list[tuple[float, float]]] = [[]]
    for epoch, value in enumerate(values, 1):
        if value is not None:
            runs[-1].append((x(epoch), y(value)))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _around(values: Iterable[float], least: float = 0.0) -> tuple[float, float]:
    """From the lowest to the highest, zero among them."""
    found = list(values)
    return min([-least, *found]), max([least, *found])


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


def _said(epoch: int, count: int) -> str:
    return f"epoch {epoch}: {count:,}"
