"""scikit-learn: `MarvelClassifier`, an estimator for labels that cannot be trusted.

    model = MarvelClassifier("marvel+", epochs=40).fit(X, y)
    model.predict(X_new), model.predict_proba(X_new), model.score(X_test, y_test)
    model.removed_, model.label_quality_, model.find_label_issues()
    model.save_run("runs/mine", X)                                          # issues.csv, report, and what review needs

It trains with Marvel's own Trainer, so every method works, those that train something before included; data, seed and
settings being the same, it comes to what `marvel train` does.
"""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from marvel import networks
from marvel.config import Config
from marvel.data import Data, Resident, Views, from_arrays
from marvel.distributed import device_for
from marvel.errors import InvalidInput, MissingExtra, pick
from marvel.issues import Issue
from marvel.loop import Saved, save_run
from marvel.method import Method
from marvel.methods import METHODS
from marvel.trainer import Trainer, judged_at_once

if TYPE_CHECKING:
    import pandas

PREFIXED = {"method": "method_params", "network": "network_params"}
"""`method__wait=3` is short for an entry of `method_params`, as scikit-learn's searches like to write it."""

ENOUGH = 32
"""Processors multiply a matrix of a few rows by other instructions than a larger one, and the last bits differ. With so
many rows a prediction is the same whatever else is asked about."""


class MarvelClassifier(ClassifierMixin, BaseEstimator):
    """A neural classifier that does not memorise wrong labels, and says which ones it took for wrong.

    `method`: a name of `marvel.METHODS`; `method_params`: its own parameters, also as `method__wait=3` in `set_params`
    and in the grids of a search.
    `network`: a name of `marvel.networks`, or a class or function that makes an `nn.Module`, called with `classes` and
    `shape` where it takes them, and with `network_params`, also as `network__width=64`; or a network, of which every
    fit trains a copy that begins with its weights. None: "mlp" for tables, "cnn2" or "resnet18" for images.
    `random_state`: the one seed, of initialisation and order. The same number gives the same result.
    `threads`: of the CPU; small networks are fastest on one.

    `X` is a table (n, D), or images (n, H, W), (n, H, W, C) or (n, C, H, W); features are standardised on the way.

    After `fit`: `classes_`; of each training instance `removed_`, `weight_`, `quality_` and `label_quality_` (0..1, low
    = suspect); the method itself, `criterion_`; and `networks_`.
    """

    def __init__(
        self,
        method: str = "marvel",
        *,
        network: str | Callable[..., nn.Module] | None = None,
        epochs: int = 60,
        batch_size: int = 32,
        lr: float = 0.01,
        optimizer: str = "sgd",
        momentum: float = 0.9,
        weight_decay: float = 2e-4,
        schedule: str = "constant",
        method_params: Mapping[str, Any] | None = None,
        network_params: Mapping[str, Any] | None = None,
        random_state: Any = 0,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        self.method = method
        self.network = network
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.optimizer = optimizer
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.method_params = method_params
        self.network_params = network_params
        self.random_state = random_state
        self.device = device
        self.threads = threads

    # ------------------------------------------------------------ training

    def fit(self, X: Any, y: Any, *, clean: Any = None) -> Self:
        """Train on instances and their given labels; `clean` marks the right ones, for methods that must be told."""
        rows = _index_of(X)
        rows = _index_of(y) if rows is None else rows  # in a pipeline, what came before may have lost those of X
        X, y = validate_data(self, _array(X), _array(y), allow_nd=True, dtype="numeric")
        check_classification_targets(y)
        self.classes_, self._given = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInput("a classification needs at least two classes, and y holds only 1 class")
        self._rows = rows
        self._ids = None if rows is None else [str(name) for name in rows]
        data = from_arrays(X, self._given, classes=[str(name) for name in self.classes_])
        config = self._config(data.shape)
        with _threads(self.threads):
            trainer = self._trainer(config, data)
            self.criterion_ = self._method(trainer.config, len(data), clean)
            if isinstance(self.network, nn.Module) and self.criterion_.networks > 1:
                raise InvalidInput(
                    f"{self.method} trains {self.criterion_.networks} networks, which must begin differently: give "
                    f"network={type(self.network).__name__}, the class"
                )
            trainer.fit(self.criterion_)
        assert isinstance(data.x, Tensor)
        self._bytes = data.x.dtype == torch.uint8
        self.networks_ = trainer.every_network
        self._views = trainer.views
        self.n_iter_ = trainer.epoch
        return self

    def _config(self, shape: tuple[int, ...]) -> Config:
        """The settings of the training. What is wrong with them is said here."""
        network = self.network
        if network is None:
            network = "mlp" if len(shape) == 1 else "cnn2" if min(shape[1:]) < 32 else "resnet18"
        elif not (isinstance(network, str) or callable(network)):
            raise InvalidInput(
                f"network should be a name, a network, or a class or function that makes one, "
                f"got {type(network).__name__}"
            )
        if isinstance(network, str):
            pick("network", network, networks.NETWORKS)
        if self.network_params and isinstance(network, str | nn.Module):
            what = f"'{network}'" if isinstance(network, str) else f"{type(network).__name__}(...)"
            raise InvalidInput(
                f"network {what} takes no network_params, got {dict(self.network_params)}: give a class or a function"
            )
        random = self.random_state
        whole = isinstance(random, int | np.integer)
        return Config(
            data="arrays",
            method=self.method,
            network=network if isinstance(network, str) else None,
            epochs=self.epochs,
            batch=self.batch_size,
            lr=self.lr,
            drops=(),
            schedule=self.schedule,
            optimizer=self.optimizer,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            precision="float32",
            seed=int(random) if whole else int(check_random_state(random).randint(2**31 - 1)),
            device=device_for(str(self.device)),
            threads=self.threads,
            options=dict(self.method_params or {}),
        )

    def _trainer(self, config: Config, data: Data) -> Trainer:
        assert isinstance(data.x, Tensor)
        device = torch.device(config.device)
        views = Views(data.mean, data.std, data.augment, data.shape).to(device)
        builder = None if config.network else self._build
        return Trainer(config, Resident(data.x, device), views, data.y, len(data.classes), data.shape, builder=builder)

    def _build(self, classes: int, shape: tuple[int, ...], seed: int) -> nn.Module:
        """The user's network, its weights a function of the seed alone, or those that it came with."""
        assert callable(self.network)
        if isinstance(self.network, nn.Module):
            return self._checked(copy.deepcopy(self.network), classes, shape)
        takes = inspect.signature(self.network).parameters
        everything = any(p.kind is p.VAR_KEYWORD for p in takes.values())
        told: dict[str, Any] = {"classes": classes, "shape": shape}
        told = {name: value for name, value in told.items() if everything or name in takes}
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.default_generator.manual_seed(seed)
            network = self.network(**{**told, **(self.network_params or {})})
        return self._checked(network, classes, shape)

    def _checked(self, network: nn.Module, classes: int, shape: tuple[int, ...]) -> nn.Module:
        with torch.no_grad():
            logits = network.to("cpu").eval()(torch.zeros(2, *shape))
        if not isinstance(logits, Tensor) or logits.shape != (2, classes):
            shown = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            hint = ", a class or function that takes `classes` can" if isinstance(self.network, nn.Module) else ""
            raise InvalidInput(f"for 2 instances the network should put out (2, {classes}) logits, got {shown}{hint}")
        return network

    def _method(self, config: Config, n: int, clean: Any) -> Method:
        """The method, told what it needs."""
        kind, told = METHODS[config.method], dict(config.options)
        needs = kind.needed(told)
        if "noise_rate" in needs and "noise_rate" not in told:
            raise InvalidInput(f"{config.method} must be told the noise rate: method_params={{'noise_rate': 0.2}}")
        if "clean" in needs:
            if clean is None:
                raise InvalidInput(f"{config.method} must be told which labels are right: fit(X, y, clean=mask)")
            told["clean"] = torch.from_numpy(np.asarray(_array(clean), dtype=bool))
        return kind(n, len(self.classes_), config.epochs, **told)

    # ------------------------------------------------------------ judging

    def predict_proba(self, X: Any) -> Any:
        """(m, classes): the probability of each class, in the order of `classes_`."""
        check_is_fitted(self)
        X = validate_data(self, _array(X), reset=False, allow_nd=True, dtype="numeric")
        # Read as `fit` reads it; the labels mean nothing.
        x = from_arrays(X, np.zeros(len(X), dtype=int), classes=["", " "]).x
        assert isinstance(x, Tensor)
        # Whether 255 is white was settled there: these instances alone may look otherwise.
        if not self._bytes:
            x = x.float()
        elif x.dtype != torch.uint8:
            x = x / 255
        device = self._views.shift.device
        for network in self.networks_:
            network.eval()
        with _threads(self.threads), torch.no_grad():
            found = [
                self.criterion_.predict(self.networks_, self._views.plain(_filled_up(part).to(device)))[: len(part)]
                for part in x.split(judged_at_once(x.shape[1:]))
            ]
        return torch.cat(found).double().softmax(1).cpu().numpy()

    def predict(self, X: Any) -> Any:
        """(m,): the likeliest class."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(1)]

    # ------------------------------------------------------------ what was found

    @property
    def removed_(self) -> Any:
        """(n,) which training instances were given up as mislabelled."""
        return self._of_each("removed")

    @property
    def weight_(self) -> Any:
        """(n,) what each training instance was worth in the end."""
        return self._of_each("weight")

    @property
    def quality_(self) -> Any:
        """(n,) the mean margin of each training instance; low = suspect."""
        return self._of_each("quality")

    @property
    def label_quality_(self) -> Any:
        """(n,) the quality between 0 and 1, low = suspect, as cleanlab's scores."""
        return self._of_each("label_quality")

    def find_label_issues(self) -> list[Issue]:
        """The training instances whose labels look wrong, most suspect first; `id` is the row's name in a DataFrame."""
        check_is_fitted(self)
        return self.criterion_.issues(self._given.tolist(), [str(name) for name in self.classes_], self._ids)

    def label_issues_frame(self) -> "pandas.DataFrame":
        """All training instances in cleanlab's columns: is_label_issue, label_quality, given_label, predicted_label.

        Its index is that of the DataFrame or Series that `fit` was given, so that the two can be joined.
        """
        try:
            import pandas
        except ImportError:
            raise MissingExtra("label_issues_frame", "pandas", "cleanlab") from None

        wrong = np.zeros(len(self._given), dtype=bool)
        wrong[[issue.index for issue in self.find_label_issues()]] = True
        other = self._of_each("suggested")
        suggested = np.where(wrong & (other >= 0), other, self._given)
        columns = {"is_label_issue": wrong, "label_quality": self.label_quality_}
        columns |= {"given_label": self.classes_[self._given], "predicted_label": self.classes_[suggested]}
        return pandas.DataFrame(columns, index=self._rows)

    def save_run(self, folder: str | Path, X: Any, **options: Any) -> Saved:
        """Write issues.csv, report.html and what `marvel review` and `export` need; `X` as `fit` had it.

        The options are those of `marvel.save_run`.
        """
        check_is_fitted(self)
        options = {"classes": [str(name) for name in self.classes_], "labels": self._given, **options}
        if self._ids is not None and len(set(self._ids)) == len(self._ids):
            options = {"ids": self._ids, **options}
        return save_run(folder, self.criterion_, (X, self._given), **options)

    def _of_each(self, name: str) -> Any:
        if "criterion_" not in vars(self):
            raise AttributeError(f"{name}_ is known after fit")
        return getattr(self.criterion_, name).cpu().numpy().copy()

    # ------------------------------------------------------------ parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; with `deep` also those of the method and the network, as `method__wait`."""
        params: dict[str, Any] = super().get_params(deep)
        for prefix, home in PREFIXED.items() if deep else ():
            if isinstance(params[home], Mapping):
                params |= {f"{prefix}__{name}": value for name, value in params[home].items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `method__wait=3` changes one entry of `method_params`."""
        nested = {name for name in params if name.startswith(tuple(f"{prefix}__" for prefix in PREFIXED))}
        super().set_params(**{name: value for name, value in params.items() if name not in nested})
        for name in params:
            if name in nested:
                prefix, _, key = name.partition("__")
                home = PREFIXED[prefix]
                setattr(self, home, {**(getattr(self, home) or {}), key: params[name]})
        return self


def _index_of(table: Any) -> Any:
    """The index of a DataFrame or Series; None of all else. (The `index` of a list is a method.)"""
    index = getattr(table, "index", None)
    return None if callable(index) else index


def _filled_up(rows: Tensor) -> Tensor:
    """Rows of a table, the last one repeated until they are enough to be computed as many are."""
    lacking = max(0, ENOUGH - len(rows)) if rows.ndim == 2 else 0
    return torch.cat([rows, rows[-1:].expand(lacking, -1)]) if lacking else rows


def _array(values: Any) -> Any:
    """Tensors as numpy arrays; all else is scikit-learn's to read."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).numpy()
    return values


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """So many threads of the CPU, for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
