"""MARVEL as a scikit-learn estimator: in a pipeline, searched over, and asked which labels are wrong.

python examples/sklearn_classifier.py [FOLDER]
"""

import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from marvel.integrations.sklearn import MarvelClassifier


def main(folder: str) -> None:
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    digits = load_digits()
    X, X_test, y, y_test = train_test_split(digits.data, names[digits.target], test_size=0.3, random_state=0)
    rng = np.random.default_rng(0)
    wrong = rng.random(len(y)) < 0.4
    given = y.copy()
    for i in np.flatnonzero(wrong):
        given[i] = rng.choice(names[names != y[i]])

    scores = {}
    for method in ("ce", "marvel"):
        pipeline = make_pipeline(MinMaxScaler(), MarvelClassifier(method, epochs=30))
        scores[method] = pipeline.fit(X, given).score(X_test, y_test)
        print(f"{method}: test accuracy {scores[method]:.1%}")

    model = pipeline[-1]
    print(f"{(model.removed_ & wrong).sum()} of {model.removed_.sum()} removed labels are wrong; the most suspect:")
    for issue in model.find_label_issues()[:5]:
        print(f"  row {issue.id}: given {issue.given}, suggested {issue.suggested}; in truth {y[issue.index]}")

    saved = model.save_run(folder, pipeline[:-1].transform(X), replace=True)
    print(f"The report is {saved.report}. Next: marvel review {folder}")

    # A search judges by given labels, wrong ones included: that still ranks the settings.
    search = GridSearchCV(MarvelClassifier(epochs=10), {"lr": [0.001, 0.01], "method__wait": [2]}, cv=2)
    print(f"best: {search.fit(X[:300], given[:300]).best_params_}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/sklearn-classifier")
