"""Records as runs of the paper's cells would leave them, with curves that a test makes up."""

from typing import Any

from marvel.paper import paper_cell, paper_number
from marvel.presets import PRESETS
from marvel.report.cells import Cell


def paper_record(cell: Cell, seed: int = 0, **parts: Any) -> dict[str, Any]:
    """A record of a cell, with the paper's settings. `parts` fill `final`, `curves`, `histograms`, `apex`, ...; the key
    `options` changes the method's options, and any other setting is told as `config={...}`."""
    preset = PRESETS[cell.data]
    config: dict[str, Any] = {
        **cell.config(),
        "network": cell.network or preset.network,
        "epochs": preset.epochs,
        "batch": 128,
        "lr": preset.lr,
        "drops": list(preset.drops_for(cell.method)),
        "schedule": "drops",
        "hold_out": 0.0,
        "protocol": "final",
        "seed": seed,
        "device": "cpu",
        "options": {},
    }
    if cell.method == "npcl" and cell.data != "boot-sneaker":
        config |= {"epochs": 200, "drops": [150, 180]}
    if cell.network == "resnet34":
        config |= {"hold_out": 0.1, "protocol": "final" if cell.method == "ce" else "validation"}
    chosen: dict[str, int] = {}
    if cell.method.startswith("marvel"):
        place = paper_cell(config)
        assert place is not None
        wait = paper_number(f"{place[0]}-waits", *place[1:], cell.method)
        assert wait is not None and wait.mean is not None
        warmup = 40 if cell.network == "resnet34" else preset.warmup
        config["options"] = {"wait": int(wait.mean), "warmup": warmup} | parts.pop("options", {})
        chosen = {key: config["options"][key] for key in ("wait", "warmup")}
    config["options"] |= parts.pop("options", {})
    config |= parts.pop("config", {})
    final = {"test_accuracy": 0.5, "memorisation_ratio": 0.1} | parts.pop("final", {})
    record = {
        "config": config,
        "data": {"name": cell.data, "n": 1000, "classes": ["a", "b"]},
        "noise": {"realised_rate": sum(cell.rates) / len(cell.rates)},
        "final": final,
        "chosen": chosen,
        "curves": {},
        "histograms": {},
        "apex": None,
    }
    return record | parts


def flat(value: Any, epochs: int) -> list[Any]:
    """A curve that stays where it is."""
    return [value] * epochs
