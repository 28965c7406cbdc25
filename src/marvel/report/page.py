"""A run as one HTML page that opens offline: what was found, the most suspect instances, the training, the settings.

The page holds everything it shows and runs no program: its policy forbids scripts and every request. Whatever comes
from the data (names of classes and files, fields of a table) is escaped by the template.
"""

import base64
import io
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marvel import __version__
from marvel.errors import FolderError, amount
from marvel.report import charts
from marvel.report.figures import NAMES
from marvel.report.ranking import ranked, suspects
from marvel.runs import Facts, RunFolder, write_atomically

if TYPE_CHECKING:
    from markupsafe import Markup

    from marvel.data.shown import Instances

GALLERY, RETURNED = 60, 10
"""How many of the most suspect instances are shown, and of those that were removed and returned."""
THUMBNAIL = 256
"""The longest side of a picture, in pixels; it is shown at about two thirds of that."""
TINY = 32
"""Pictures up to this size are shown with their pixels sharp: at the size of a thumbnail, blur hides more."""
HEAVY = 20_000
"""Bytes from which a picture is written as a JPEG: sixty of them must stay below a few megabytes."""
FIELDS = 8
CLASSES, PAIRS, MATRIX, ASIDE = 24, 12, 14, 200
"""How many rows are shown of what could be long; the page says how many there are besides."""

COLUMNS = (
    *(
        "given",
        "suggested",
        "quality",
        "label_quality",
        "removed_at",
        "returned_at",
        "wrong_probability",
        "flagged",
        "canary",
        "clean",
    ),
)
BINS = 48


@dataclass(frozen=True)
class Suspect:
    """An instance of the gallery."""

    rank: int
    id: str
    given: str
    suggested: str | None
    probability: float | None
    quality: float | None
    removed_at: int
    returned_at: int
    picture: str | None
    sharp: bool
    fields: list[tuple[str, str]]
    spark: "Markup | None"


def write_page(folder: RunFolder, out: Path | None = None, instances: "Instances | None" = None) -> Path:
    """Write the page of a run; by default to report.html in its folder.

    `instances` shows the data. By default it is looked for where the run found it.
    """
    page = render(folder, shown(folder) if instances is None else instances)
    out = folder.report_file if out is None else out
    # A file name may hold bytes that are no text in any language.
    write_atomically(out, page.encode("utf-8", "backslashreplace"))
    return out


def shown(folder: RunFolder) -> "Instances | None":
    """What shows the instances of a run on one's own data; None where the run does not say where its data is."""
    config = folder.config
    origin = None if config is None else (folder.found or config["data"]).get("origin")
    if origin is None:
        return None
    columns = folder.instances(["row", "id"])
    if origin.get("kind") == "kept":
        origin = {**origin, "path": str(folder.shown_file)}  # wherever the folder lies by now
    from marvel.data.origin import Origin
    from marvel.data.shown import open_instances

    return open_instances(Origin.of(origin), columns["row"], columns["id"])


def render(folder: RunFolder, instances: "Instances | None" = None) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    config, record = folder.config, folder.record
    if config is None or record is None:
        raise FolderError(f"{folder.path} holds no finished run: name the folder of one")
    environment = Environment(
        loader=PackageLoader("marvel.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": _count, "share": _share, "chance": _chance, "margin": _margin}
    environment.filters |= {"short": _short, "soft": _soft}
    try:
        return environment.get_template("page.html").render(facts(folder, config, record, instances))
    except (KeyError, TypeError, IndexError) as error:
        raise FolderError(f"{folder.path} is no run folder of this version of Marvel ({error!r})") from error


def facts(folder: RunFolder, config: Facts, record: Facts, instances: "Instances | None") -> dict[str, Any]:
    """Everything the page says."""
    columns, found = folder.instances(COLUMNS), folder.found
    classes: Sequence[str] = config["data"]["classes"]
    warmup = record.get("chosen", {}).get("warmup")
    order, back = ranked(columns), _returned(columns)
    listed = suspects(columns, order)
    gallery = _gallery(folder, columns, classes, listed[:GALLERY], instances)
    again = [] if back is None else _gallery(folder, columns, classes, order[back[order] > 0][:RETURNED], instances)
    aside = (found or config["data"]).get("set_aside", [])
    by_class, pairs = _by_class(columns, classes, found), _pairs(columns, classes, found)
    return {
        "name": config["data"]["name"],
        "n": config["data"]["n"],
        "classes": len(classes),
        "method": NAMES.get(config["config"]["method"], config["config"]["method"]),
        "found": found,
        "listed": len(listed),
        "removed": int((columns["removed_at"] > 0).sum()),
        "returned": None if back is None else int((back > 0).sum()),
        "final": record["final"],
        "truth": "clean" in columns,
        "interval": _interval(found),
        "gallery": gallery,
        "again": again,
        "pictured": any(suspect.picture for suspect in gallery),
        "by_class": by_class[:CLASSES],
        "more_classes": by_class[CLASSES:],
        "pairs": pairs[:PAIRS],
        "more_pairs": pairs[PAIRS:],
        "matrix": _matrix(pairs),
        "charts": _charts(record, config["config"].get("epochs") or 0, columns, found, warmup),
        "warmup": warmup,
        "warnings": [_sentence(warning) for warning in found["warnings"]] if found else [],
        "aside": len(aside),
        "set_aside": aside[:ASIDE],
        "settings": _settings(config["config"], record.get("chosen", {})),
        "environment": config["environment"],
        "fingerprint": config["data"]["fingerprint"],
        "seconds": found["seconds"] if found else record["seconds"],
        "reviewable": instances is not None,
        "own_loop": "loop" in config,
        "has_files": ((found or config["data"]).get("origin") or {}).get("kind") != "kept",
        "run": shlex.quote(str(folder.path)),
        "version": __version__,
        "today": f"{date.today():%-d %B %Y}",
    }


# ------------------------------------------------------------ the suspects


def _gallery(
    folder: RunFolder, columns: Mapping[str, Any], classes: Sequence[str], chosen: Any, instances: "Instances | None"
) -> list[Suspect]:
    ids = folder.instances(["id"], rows=chosen).get("id", [f"instance {index}" for index in chosen])
    margins = folder.margins(chosen)
    cards = []
    for rank, index in enumerate(map(int, chosen), 1):
        suggested, removed_at = int(columns["suggested"][index]), int(columns["removed_at"][index])
        returned_at = int(columns["returned_at"][index]) if "returned_at" in columns else 0
        probability = columns["wrong_probability"][index] if "wrong_probability" in columns else None
        picture, sharp = _picture(instances, index)
        fields = list(instances.fields(index).items()) if instances is not None and picture is None else []
        own = as_list(margins[:, rank - 1])
        cards.append(
            Suspect(
                rank=rank,
                id=str(ids[rank - 1]),
                given=classes[columns["given"][index]],
                suggested=classes[suggested] if suggested >= 0 else None,
                probability=None if probability is None or np.isnan(probability) else float(probability),
                quality=None if np.isnan(columns["quality"][index]) else float(columns["quality"][index]),
                removed_at=removed_at,
                returned_at=returned_at,
                picture=picture,
                sharp=sharp,
                fields=fields[:FIELDS],
                spark=_spark(own, removed_at, returned_at, bool(fields)) if any_known(own) else None,
            )
        )
    return cards


def as_list(margins: Any) -> list[float | None]:
    """One instance's margins by epoch, as JSON can hold them."""
    return [None if np.isnan(margin) else round(float(margin), 2) for margin in margins]


def any_known(margins: Sequence[float | None]) -> bool:
    return any(margin is not None for margin in margins)


def _spark(margins: Sequence[float | None], removed_at: int, returned_at: int, wide: bool) -> "Markup":
    known = [margin for margin in margins if margin is not None]
    told = [f"Margins by epoch: first {known[0]:.1f}, last {known[-1]:.1f}, lowest {min(known):.1f}."]
    # One that was returned and is removed all the same was removed again.
    told += [f"Returned in epoch {returned_at}."] if returned_at else []
    told += [f"Removed{' again' if returned_at else ''} in epoch {removed_at}."] if removed_at else []
    return charts.spark(margins, " ".join(told), removed_at, returned_at, wide)


def _picture(instances: "Instances | None", index: int) -> tuple[str | None, bool]:
    """A picture as a `data:` address, and whether it is so small that its pixels should be seen."""
    content = None if instances is None else instances.picture(index, THUMBNAIL)
    if content is None:
        return None, False
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as image:
            kind, sharp = Image.MIME[image.format or "PNG"], max(image.size) <= TINY
            if len(content) > HEAVY or max(image.size) > 2 * THUMBNAIL:
                image.thumbnail((THUMBNAIL, THUMBNAIL))
                smaller = io.BytesIO()
                image.convert("RGB").save(smaller, "JPEG", quality=80, optimize=True)
                content, kind = smaller.getvalue(), "image/jpeg"
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None, False
    return f"data:{kind};base64,{base64.b64encode(content).decode()}", sharp


# ------------------------------------------------------------ the numbers


def _returned(columns: Mapping[str, Any]) -> Any:
    """(n,) the epoch in which what is kept had been returned, 0: never removed; None where removal is for good."""
    return np.where(columns["removed_at"] > 0, 0, columns["returned_at"]) if "returned_at" in columns else None


def _by_class(columns: Mapping[str, Any], classes: Sequence[str], found: Facts | None) -> list[Facts]:
    """For each class how many instances it has, and how many are suspect; the most suspect first."""
    if found is not None:
        rows = list(found["found"]["by_class"])
    else:
        n = np.bincount(columns["given"], minlength=len(classes))
        removed = np.bincount(columns["given"][columns["removed_at"] > 0], minlength=len(classes))
        rows = [{"name": name, "n": int(n[c]), "removed": int(removed[c])} for c, name in enumerate(classes)]
    key = "flagged" if found is not None else "removed"
    rows = [{**row, "listed": row[key], "share": row[key] / row["n"] if row["n"] else 0.0} for row in rows]
    return sorted(rows, key=lambda row: (-row["listed"], row["name"]))


def _pairs(columns: Mapping[str, Any], classes: Sequence[str], found: Facts | None) -> list[Facts]:
    """How often which given label came with which suggested one, the most frequent first."""
    if found is not None:
        return list(found["found"]["pairs"])
    which = (columns["removed_at"] > 0) & (columns["suggested"] >= 0)
    joined = columns["given"][which].astype(np.int64) * len(classes) + columns["suggested"][which]
    values, counts = np.unique(joined, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [
        {
            "given": classes[values[k] // len(classes)],
            "suggested": classes[values[k] % len(classes)],
            "count": int(counts[k]),
        }
        for k in order
    ]


def _matrix(pairs: Sequence[Facts]) -> Facts | None:
    """given x suggested, of the classes that take part most; None where there is nothing to show."""
    taken: dict[str, int] = {}
    for pair in pairs:
        for side in ("given", "suggested"):
            taken[pair[side]] = taken.get(pair[side], 0) + pair["count"]
    if len(pairs) < 2:
        return None
    most = sorted(taken, key=lambda name: -taken[name])[:MATRIX]
    names = sorted(most)
    counts = {(pair["given"], pair["suggested"]): pair["count"] for pair in pairs}
    shown = [[counts.get((row, column), 0) for column in names] for row in names]
    highest = max(map(max, shown))
    return {
        "names": names,
        "rows": [
            {"name": name, "cells": [(count, (count / highest) ** 0.5 if highest else 0.0) for count in row]}
            for name, row in zip(names, shown)
        ],
        "outside": sum(counts.values()) - sum(map(sum, shown)),
        "more": len(taken) - len(names),
    }


def _interval(found: Facts | None) -> "Markup | None":
    if found is None or found["estimate"] is None:
        return None
    wrong, listed = found["estimate"]["wrong"], found["found"]["flagged"]
    told = (
        f"About {amount(round(wrong['value']), 'label is', 'labels are')} wrong; the interval goes from "
        f"{wrong['low']:,.0f} to "
        f"{wrong['high']:,.0f}. {listed:,} are listed."
    )
    return charts.interval(wrong["value"], wrong["low"], wrong["high"], listed, told)


# ------------------------------------------------------------ the charts


def _charts(
    record: Facts, epochs: int, columns: Mapping[str, Any], found: Facts | None, warmup: int | None
) -> dict[str, Any]:
    curves = record["curves"]
    learned = {
        key: curves[name]
        for name, key in (
            ("train_accuracy", "learned"),
            ("test_accuracy", "tested"),
            ("memorisation_ratio", "memorised"),
        )
        if name in curves
    }
    made: dict[str, Any] = {"learned_keys": list(learned)}
    last = {key: next((value for value in values[::-1] if value is not None), None) for key, values in learned.items()}
    words = {"learned": "training accuracy", "tested": "test accuracy", "memorised": "memorisation ratio"}
    ended = ", ".join(f"{words[key]} {value:.0%}" for key, value in last.items() if value is not None)
    # A loop of one's own need not have kept its epochs.
    made["curves"] = charts.curves(learned, f"By epoch; at the end: {ended}.", warmup) if learned else None
    made["guesses"] = None
    if "suggestion_accuracy" in curves:
        guessed = curves["suggestion_accuracy"]
        told = f"At the end {guessed[-1]:.0%} of the guesses for removed wrong labels are right."
        made["guesses"] = charts.curves({"ink": guessed}, told, warmup)
    quantiles = curves.get("margin_quantiles")
    made["fan"] = charts.fan(quantiles, _fan_told(quantiles), warmup) if quantiles else None
    for name, word, at in (("removals", "removed", columns["removed_at"]), ("returns", "returned", _returned(columns))):
        counts = [] if at is None else _by_epoch(at, columns, epochs)
        made[name] = charts.bars(counts, _by_epoch_told(counts, word), warmup) if sum(counts) else None
    made |= _distribution(columns)
    made["trade"] = None
    if found is not None and found["estimate"] is not None and len(found["curve"]) > 1:
        told = "Expected precision falls and recall rises as more labels are listed."
        made["trade"] = charts.trade(found["curve"], found["found"]["flagged"], told)
    return made


def _fan_told(quantiles: Sequence[Sequence[float] | None]) -> str:
    known = [row for row in quantiles if row is not None]
    if not known:
        return "No margins were recorded."
    _, low, median, high, _ = known[-1]
    return f"At the end half of all margins lie between {low:.1f} and {high:.1f}, the median at {median:.1f}."


def _by_epoch(at: Any, columns: Mapping[str, Any], epochs: int) -> list[int]:
    """How many have each epoch in `at` (n,), labels flipped on purpose left out."""
    if "canary" in columns:
        at = at[~columns["canary"]]
    return [int(count) for count in np.bincount(at, minlength=epochs + 1)[1:]]


def _by_epoch_told(counts: Sequence[int], word: str) -> str:
    most = int(np.argmax(counts)) + 1
    if sum(counts) == 1:
        return f"1 instance was {word}, in epoch {most}."
    return f"{sum(counts):,} instances were {word} in all, most of them ({max(counts):,}) in epoch {most}."


def _distribution(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The qualities, parted by what is known best: right and wrong labels; else listed and not; else removed or not."""
    keep = np.isfinite(columns["quality"])
    if "canary" in columns:
        keep &= ~columns["canary"]
    quality = columns["quality"][keep]
    if "clean" in columns:
        suspect, names = columns["clean"][keep] != columns["given"][keep], ("wrong labels", "right labels")
    elif "flagged" in columns:
        suspect, names = columns["flagged"][keep], ("listed", "not listed")
    else:
        suspect, names = columns["removed_at"][keep] > 0, ("removed", "kept")
    if not len(quality):
        return {"distribution": None, "distribution_names": names}
    low, high = np.quantile(quality, [0.001, 0.999])
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    inside = np.clip(quality, edges[0], edges[-1])
    layers = {"given": inside[suspect], "rest": inside[~suspect]}
    counts = {key: [int(c) for c in np.histogram(values, edges)[0]] for key, values in layers.items()}
    medians = [f"{np.median(values):.1f}" if len(values) else "none" for values in layers.values()]
    told = f"Median quality: {names[0]} {medians[0]}, {names[1]} {medians[1]}."
    chart = charts.histogram([float(edge) for edge in edges], counts, told, "quality (mean margin)")
    return {"distribution": chart, "distribution_names": names}


# ------------------------------------------------------------ words


def _settings(config: Facts, chosen: Facts) -> list[tuple[str, str]]:
    """What was set, and what the run chose itself."""
    options = dict(config.get("options") or {})
    skipped = {"options"} | ({"noise", "rate", "oracle_rate"} if config.get("noise", "none") == "none" else set())
    rows = {key: value for key, value in config.items() if key not in skipped and value not in (None, [], "")}
    rows |= options
    said = [(key.replace("_", " "), _plain(value)) for key, value in rows.items() if key not in chosen]
    return said + [
        (key, f"{_plain(value)} (chosen by the run)" if _auto(options.get(key)) else _plain(value))
        for key, value in chosen.items()
    ]


def _auto(value: Any) -> bool:
    return value in (None, "auto")


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _share(value: float) -> str:
    """A share as people read it: 12%, 4.1%, below 0.1%."""
    if 0 < value < 0.001:
        return "<0.1%"
    return f"{value:.0%}" if value >= 0.1 or value == 0 else f"{value:.1%}"


def _chance(value: float) -> str:
    """A probability is never said to be certain."""
    return ">99%" if value > 0.99 else "<1%" if value < 0.01 else f"{value:.0%}"


def _margin(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")


def _soft(text: str) -> "Markup":
    """The text, which may be broken where its own marks part it: names of columns and files hold no spaces."""
    from markupsafe import Markup

    return Markup("<wbr>").join(re.split(r"(?<=[_/.\\-])(?=[^\s_/.\\-])", text))


def _short(name: str) -> str:
    """The end of a path, its middle left out where it is long: what differs is mostly at either end."""
    if name.isdigit():
        return f"instance {name}"
    last = name.rstrip("/").rpartition("/")[2] or name
    return last if len(last) <= 22 else f"{last[:11]}…{last[-9:]}"
