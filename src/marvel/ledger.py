"""What an epoch showed, in numbers: the lines of metrics.jsonl, and what the paper's figures need of them."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from marvel import metrics
from marvel.method import Method, Seen, running_majority

APEX_EPOCHS = 5


class Ledger:
    """Follows a run on `n` instances with given labels `y`; `clean` marks the right ones, where that is known, and
    `truth` are the clean labels themselves."""

    def __init__(self, y: Tensor, clean: Tensor | None, truth: Tensor | None = None) -> None:
        self.clean = None if clean is None else clean.cpu().numpy().astype(bool)
        self.truth = None if truth is None or clean is None else truth.cpu().numpy()
        self.positives = torch.zeros(len(y), dtype=torch.int8)
        """In how many of the first epochs after the warm-up each instance had a positive margin."""
        self.apex = torch.tensor(0)
        """How many of those epochs have passed."""
        self.trust = torch.zeros(len(y))
        """The mean of sigmoid(margin) over the epochs seen, the first excepted unless it is the only one."""
        self.rival = torch.full((len(y),), -1, dtype=torch.int32)
        """The class its margins were measured against most often, since the warm-up ended; -1: never visited."""
        self.lead = torch.zeros(len(y), dtype=torch.int16)
        """By how many epochs that class leads."""

    def state(self) -> dict[str, Tensor]:
        names = ("positives", "apex", "trust", "rival", "lead")
        return {name: getattr(self, name) for name in names}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    def line(self, method: Method, seen: Seen) -> dict[str, Any]:
        """The epoch in numbers, taken after `method.step()`."""
        mask = seen.mask.cpu().numpy()
        margin = seen.margin.cpu().numpy()
        removed = method.removed.cpu().numpy()
        shown, kept = margin[mask], margin[mask & ~removed]
        line: dict[str, Any] = {
            "train_accuracy": metrics.share(shown > 0),
            "removed": int(removed.sum()),
            "idle_batches": int(method.idle),
            "margin": {
                "quantiles": metrics.quantiles(shown),
                "survivors": metrics.quantiles(kept),
                "moments": {"all": metrics.moments(shown), "survivors": metrics.moments(kept)},
            },
        }
        if method.returned_at is not None:
            line["returned"] = int(((method.returned_at > 0) & ~method.removed).sum())
        sets = {"all": mask, "survivors": mask & ~removed}
        self.count_apex(method, margin, mask)
        self.judge(method, seen)
        if self.clean is not None:
            line |= {
                "memorisation_ratio": metrics.memorisation_ratio(margin[mask], self.clean[mask]),
                "label_precision": metrics.label_precision(removed, self.clean),
                "label_recall": metrics.label_recall(removed, self.clean),
                "clean_remaining": int((self.clean & ~removed).sum()),
                "noisy_remaining": int((~self.clean & ~removed).sum()),
            }
            sets |= {"clean": mask & self.clean, "noisy": mask & ~self.clean}
        if self.clean is not None and self.truth is not None:
            right = method.suggested.cpu().numpy() == self.truth
            line["suggestion_accuracy"] = metrics.share(right[removed & ~self.clean])
        low, high = metrics.reach(shown)
        line["histogram"] = {"range": [low, high]}
        line["histogram"] |= {name: metrics.histogram(margin[which], low, high) for name, which in sets.items()}
        return line

    def count_apex(self, method: Method, margin: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> None:
        warmup = method.chosen.get("warmup")
        passed = method.epoch - 1
        if warmup is not None and warmup < passed <= warmup + APEX_EPOCHS:
            self.positives += torch.from_numpy(mask & (margin > 0))
            self.apex += 1

    def judge(self, method: Method, seen: Seen) -> None:
        """What the epoch says of each label: how far it is to be trusted, and which class competes with it.

        A margin counts by its sigmoid, so that no single epoch decides. The competitor is that of most epochs, whatever
        the margin's sign, and is found anew after the first epoch and once the warm-up is over.
        """
        mask, rival = seen.mask.cpu(), seen.rival.cpu()
        now, before = seen.margin.cpu().sigmoid(), method.epochs_seen.cpu() - mask.to(torch.int16)
        mean = torch.where(before <= 1, now, self.trust + (now - self.trust) / before.clamp(min=1))
        self.trust.copy_(torch.where(mask, mean, self.trust))
        passed = method.epoch - 1
        if passed - 1 in (1, method.chosen.get("warmup")):
            self.lead.zero_()
        leader, lead = running_majority(self.rival, self.lead, rival, mask)
        self.rival.copy_(leader)
        self.lead.copy_(lead)

    def apex_counts(self) -> dict[str, list[int]] | None:
        """How many instances had 0, 1, ... 5 positive margins in those epochs; clean and noisy apart where known."""
        if not self.apex:
            return None
        counts = self.positives.numpy()
        sets = {"all": np.ones_like(counts, dtype=bool)}
        if self.clean is not None:
            sets |= {"clean": self.clean, "noisy": ~self.clean}
        return {name: np.bincount(counts[which], minlength=APEX_EPOCHS + 1).tolist() for name, which in sets.items()}
