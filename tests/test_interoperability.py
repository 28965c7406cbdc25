"""What Marvel found, in other people's tools: cleanlab goes on from it, and pandas opens the tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from cleanlab.classification import CleanLearning
from cleanlab.rank import order_label_issues
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from marvel.config import Config
from marvel.integrations.sklearn import MarvelClassifier
from marvel.run import Run, train
from marvel.runs import RunFolder
from toy import problem

N = 120
X, Y, CLEAN = (tensor.numpy() for tensor in problem(N, 3, noise=0.2, seed=0))


class Counting(ClassifierMixin, BaseEstimator):
    """A classifier that remembers what it was given."""

    def fit(self, X: Any, y: Any) -> "Counting":
        self.inner_ = LogisticRegression(max_iter=500).fit(X, y)
        self.classes_, self.X_, self.y_ = self.inner_.classes_, X, y
        return self

    def predict(self, X: Any) -> Any:
        return self.inner_.predict(X)

    def predict_proba(self, X: Any) -> Any:
        return self.inner_.predict_proba(X)


@pytest.fixture(scope="module")
def model() -> MarvelClassifier:
    settings = {"warmup": 2, "wait": 2}
    return MarvelClassifier(epochs=10, batch_size=16, lr=0.05, method_params=settings).fit(X, Y)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = Config(data="digits", noise="symmetric", rate=0.3, method="marvel", epochs=6, ledger=True)
    return train(config.but(options={"warmup": 2, "wait": 2}), tmp_path_factory.mktemp("run"))


def folder_of(run: Run) -> Path:
    assert run.folder is not None
    return run.folder.path


def test_cleanlab_takes_our_label_issues_for_its_own(model: MarvelClassifier) -> None:
    found = model.label_issues_frame()
    learner = CleanLearning(Counting()).fit(X, Y, label_issues=found)
    kept = ~found.is_label_issue.to_numpy()
    assert 0 < kept.sum() < N
    assert np.array_equal(learner.clf.X_, X[kept]) and np.array_equal(learner.clf.y_, Y[kept])
    theirs = learner.get_label_issues()
    assert np.array_equal(theirs.is_label_issue, found.is_label_issue)
    assert np.array_equal(theirs.label_quality, found.label_quality)


def test_cleanlabs_columns_are_ours(model: MarvelClassifier) -> None:
    """Names and kinds, as cleanlab itself makes them."""
    theirs = CleanLearning(LogisticRegression(max_iter=500)).find_label_issues(X, Y)
    ours = model.label_issues_frame()
    assert list(ours.columns) == list(theirs.columns)
    assert [kind.kind for kind in ours.dtypes] == [kind.kind for kind in theirs.dtypes]
    assert ours.label_quality.between(0, 1).all() and theirs.label_quality.between(0, 1).all()
    # Two methods that know nothing of each other: low is suspect for both.
    assert ours.label_quality.corr(theirs.label_quality, method="spearman") > 0.5


def test_removed_is_a_mask_that_cleanlab_orders(model: MarvelClassifier) -> None:
    """Ranked by cleanlab with the probabilities of our model, the removed instances are the removed instances."""
    ranked = order_label_issues(model.removed_, Y, model.predict_proba(X), rank_by="self_confidence")
    assert sorted(ranked) == np.flatnonzero(model.removed_).tolist() != []
    assert np.mean(~CLEAN[ranked[:15]]) > 0.9  # of all labels a fifth is wrong


def test_a_runs_instances_in_pandas_and_cleanlab(run: Run) -> None:
    table = pandas.read_parquet(folder_of(run) / "instances.parquet")
    for name, column in RunFolder(folder_of(run)).instances().items():
        assert np.array_equal(table[name].to_numpy(), column), name
    assert len(table) == len(run.data) and table.label_quality.between(0, 1).all()
    wrong = (table.removed_at > 0).to_numpy()
    assert np.array_equal(wrong, run.method.removed.numpy()) and wrong.any()
    x, y = run.data.x.flatten(1).numpy(), table.given.to_numpy()
    learner = CleanLearning(Counting()).fit(x, y, label_issues=wrong)
    assert len(learner.clf.y_) == (~wrong).sum()


def test_the_ledger_in_pandas(run: Run) -> None:
    margins = pandas.DataFrame({epoch: kept["margin"] for epoch, kept in RunFolder(folder_of(run)).ledger()})
    assert list(margins.columns) == [1, 2, 3, 4, 5, 6] and len(margins) == len(run.data)
    # The quality is the mean margin over the epochs, the first excepted; the ledger keeps halves.
    mean = margins.drop(columns=1).astype(float).mean(axis=1).to_numpy()
    assert np.allclose(mean, run.method.quality.numpy(), atol=0.02, rtol=1e-2)
