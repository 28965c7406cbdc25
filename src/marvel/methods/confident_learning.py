"""Confident learning (Northcutt et al., JAIR 2021, arXiv 1911.00068), through the authors' package `cleanlab`.

    p_i          probabilities of instance i, from a network of a cross-validation that did not see it
    t_j          mean of p_ij over the instances labelled j: the threshold of class j
    C_ij         how many are labelled i and confidently j: p_j >= t_j, and j the most probable of such classes
    Q_ij         the joint of given and clean label: C, each row brought to the number of labels i
    prune        `filter_by` says how many of which label: "prune_by_noise_rate" takes for every pair i != j the n Q_ij
                 instances labelled i with the largest p_j - p_i, but none whose label is its most probable class
    retrain      on what is left; class i weighs sum_j Q_ji / Q_ii (the prior of clean label i, by what of it is kept)

The extra `cleanlab` brings the package; its `find_label_issues` and `estimate_joint` do the counting.

Departures: the trainings of the cross-validation last as long as the first learning rate, half the epochs where it
never falls; removed instances stay in the batches with weight 0.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from marvel.errors import InvalidInput, MissingExtra
from marvel.method import Method, Steps
from marvel.methods.ce import Part

if TYPE_CHECKING:
    from marvel.trainer import Trainer

FILTERS = ("prune_by_noise_rate", "prune_by_class", "both", "confident_learning", "predicted_neq_given")


def cleanlab() -> Any:
    """The package, where it is installed."""
    try:
        import cleanlab.count
        import cleanlab.filter
    except ImportError:
        raise MissingExtra("confident-learning", "cleanlab", "cleanlab") from None
    return cleanlab


def issues_and_weights(y: Tensor, p: Tensor, filter_by: str) -> tuple[Tensor, Tensor]:
    """Which labels are wrong, and what an instance of each class weighs.  (n,), (n, K) -> (n,), (K,)"""
    told = {"labels": y.cpu().numpy(), "pred_probs": p.double().cpu().numpy()}
    wrong = cleanlab().filter.find_label_issues(**told, filter_by=filter_by, n_jobs=1)
    joint = torch.from_numpy(cleanlab().count.estimate_joint(**told))  # given by clean label
    weight = joint.sum(0) / joint.diag().clamp(min=1 / len(y))
    return torch.from_numpy(wrong).to(y.device), weight.float().to(y.device)


def folds_of(y: Tensor, order: Tensor, folds: int) -> Tensor:
    """The fold of each instance: as a permutation falls, each label spread evenly over them.  (n,), (n,) -> (n,)"""
    order = order[y[order].argsort(stable=True)]
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(y), device=y.device) % folds)


class ConfidentLearning(Method):
    """`folds` of the cross-validation, of `fold_epochs` each; `filter_by`: one of cleanlab's five ways to prune;
    `reweight`: whether the classes are weighted for what was pruned of them."""

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        folds: int = 5,
        fold_epochs: int | None = None,
        filter_by: str = "prune_by_noise_rate",
        reweight: bool = True,
    ) -> None:
        super().__init__(n, classes, epochs)
        if not 2 <= folds <= n:
            raise InvalidInput(f"folds must lie in 2..{n}, got {folds}")
        if filter_by not in FILTERS:
            raise InvalidInput(f"filter_by is one of {', '.join(FILTERS)}, got {filter_by!r}")
        self.folds, self.fold_epochs = folds, fold_epochs
        self.filter_by, self.reweight = filter_by, reweight

    def prepare(self, trainer: "Trainer") -> Steps:
        cleanlab()  # rather now than after the trainings
        fold = folds_of(trainer.y, trainer.permutation("folds"), self.folds)
        p = torch.zeros(self.n, self.classes).to(trainer.y.device)
        for k in range(self.folds):
            stage = trainer.stage(f"fold{k + 1}", epochs=self.fold_epochs or trainer.first_drop)
            ranker = Part(self.n, self.classes, stage.epochs, kept=fold != k)
            yield from stage.run(ranker)
            logits = yield from stage.logits(ranker)
            p = torch.where((fold == k)[:, None], logits.softmax(1), p)
        wrong, weight = issues_and_weights(trainer.y, p, self.filter_by)
        if self.reweight:
            self.weight = weight[trainer.y]
        self.remove(wrong)
