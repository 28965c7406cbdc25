"""What Marvel found, in other people's tools: cleanlab goes on from it; pandas, polars and DuckDB open the tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from cleanlab.classification import CleanLearning
from cleanlab.dataset import overall_label_health_score
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores, order_label_issues
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from marvel.clean.findings import HEADING
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


def test_the_tables_in_polars(run: Run) -> None:
    polars = pytest.importorskip("polars")
    folder = RunFolder(folder_of(run))
    table = polars.read_parquet(folder_of(run) / "instances.parquet")
    for name, column in folder.instances().items():
        assert np.array_equal(table[name].to_numpy(), column), name
    margins = polars.DataFrame({str(epoch): kept["margin"].float().numpy() for epoch, kept in folder.ledger()})
    assert margins.shape == (len(run.data), 6)
    kept = dict(folder.ledger())[6]["margin"].float()
    assert np.array_equal(margins["6"].to_numpy(), kept.numpy(), equal_nan=True)


def test_the_tables_in_duckdb(run: Run) -> None:
    duckdb = pytest.importorskip("duckdb")
    folder = RunFolder(folder_of(run))
    path = folder_of(run) / "instances.parquet"
    counts = duckdb.sql(f"SELECT given, count(*) FROM '{path}' WHERE removed_at > 0 GROUP BY given").fetchall()
    columns = folder.instances()
    given = columns["given"][columns["removed_at"] > 0]
    assert dict(counts) == {int(c): int((given == c).sum()) for c in np.unique(given)} != {}
    margins = {str(epoch): kept["margin"].float().numpy() for epoch, kept in folder.ledger()}
    ((lowest,),) = duckdb.sql('SELECT min("6") FROM margins').fetchall()
    assert lowest == np.nanmin(margins["6"])


# ------------------------------------------------------------ the list, as cleanlab's


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, model: MarvelClassifier) -> Path:
    return model.save_run(tmp_path_factory.mktemp("saved") / "run", X).folder


def test_issues_csv_are_cleanlabs_label_issue_indices(saved: Path, model: MarvelClassifier) -> None:
    """The list is what cleanlab calls the ranked indices of label issues: it orders them as its own score would."""
    issues = pandas.read_csv(saved / "issues.csv")
    indices = issues["id"].to_numpy()
    assert sorted(indices) == np.flatnonzero(model.removed_).tolist() != []
    assert issues.label_quality.between(0, 1).all() and issues.label_quality.is_monotonic_increasing
    # cleanlab counts the classes of its own label issues from such indices.
    theirs = find_label_issues(Y, model.predict_proba(X), return_indices_ranked_by="self_confidence")
    assert theirs.dtype.kind == indices.dtype.kind == "i"
    assert len(set(theirs) & set(indices)) >= 0.7 * min(len(theirs), len(indices))
    mask = np.zeros(N, dtype=bool)
    mask[indices] = True
    learner = CleanLearning(Counting()).fit(X, Y, label_issues=mask)
    assert np.array_equal(learner.clf.y_, Y[~mask])


def test_label_quality_is_a_score_as_cleanlabs(saved: Path, model: MarvelClassifier) -> None:
    """Between 0 and 1, low = suspect: wrong labels rank lower by ours and by cleanlab's, and the two agree."""
    ours = RunFolder(saved).instances()["label_quality"]
    assert np.array_equal(ours, model.label_quality_) and ours.min() >= 0 and ours.max() <= 1
    theirs = get_label_quality_scores(Y, model.predict_proba(X))
    for scores in (ours, theirs):
        assert roc_auc_score(CLEAN, scores) > 0.9
    assert pandas.Series(ours).corr(pandas.Series(theirs), method="spearman") > 0.5
    # cleanlab's summary of a dataset takes such scores' counterpart, the labels and the probabilities.
    assert overall_label_health_score(Y, model.predict_proba(X), verbose=False) < 1


def test_a_list_of_marvel_clean_has_the_same_columns(saved: Path) -> None:
    assert (saved / "issues.csv").read_text().splitlines()[0].split(",") == list(HEADING)
