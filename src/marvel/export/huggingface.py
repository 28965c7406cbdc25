"""A Hugging Face dataset with a column more: the corrected label, with the class names the label has."""

from pathlib import Path
from typing import Any

from marvel.data.classes import class_name
from marvel.data.huggingface import arrow, open_splits
from marvel.data.images import Watch
from marvel.errors import FolderError
from marvel.export.decided import Decided
from marvel.export.place import Written
from marvel.export.tables import cells_of, column_name


def write_huggingface(what: Decided, place: Path, keep_aside: bool, link: str, watch: Watch | None) -> Written:
    """All splits; in those that were not trained on the corrected label is the given one."""
    source = Path(what.origin.path)
    splits = open_splits(source)

    import datasets

    part, label = str(what.origin.part), str(what.origin.label)
    if part not in splits or label not in splits[part].column_names:
        raise FolderError(f"{source} has changed since the run: it has no '{label}' in a split '{part}'")
    what.check_rows(len(splits[part]))
    name = column_name(label, splits[part].column_names)
    values = arrow(splits[part].select_columns([label]))[label].to_pylist()
    said = [_name(splits[part].features[label], value) for value in values]
    labels = [what.label_of(row, one) for row, one in enumerate(said)]
    kept = [row for row in range(len(values)) if keep_aside or row not in what.aside]
    written: dict[str, Any] = {}
    for split, dataset in splits.items():
        if label not in dataset.column_names:
            raise FolderError(f"{source}, split {split} has no column '{label}': it cannot get a corrected one")
        feature = dataset.features[label]
        if split == part:
            written[split] = _with_column(dataset, name, _cells(feature, labels, values), feature, kept)
        else:
            column = arrow(dataset.select_columns([label]))[label].to_pylist()
            written[split] = _with_column(dataset, name, column, feature, range(len(dataset)))
    whole: Any = written[part]
    if (source / "dataset_dict.json").is_file():
        whole = datasets.DatasetDict(written)
    shown = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        whole.save_to_disk(str(place))
    finally:
        if not shown:
            datasets.enable_progress_bars()
    return Written(len(kept), name)


def _name(feature: Any, value: Any) -> str | None:
    """The class of a value, by the names the feature has."""
    names = getattr(feature, "names", None)
    if names is None:
        return class_name(value)
    return None if value is None or value < 0 else str(names[value])


def _cells(feature: Any, labels: list[str | None], values: list[Any]) -> list[Any]:
    """The corrected labels as the feature writes them."""
    names = getattr(feature, "names", None)
    if names is None:
        return cells_of(labels, values)
    number = {str(name): number for number, name in enumerate(names)}
    return [None if label is None else number[label] for label in labels]


def _with_column(dataset: Any, name: str, column: list[Any], feature: Any, kept: Any) -> Any:
    """In memory: `datasets` would put what it computes beside the input."""
    import datasets
    import pyarrow

    table = arrow(dataset)
    wider = table.append_column(name, pyarrow.array(column, feature())).take(pyarrow.array(list(kept), pyarrow.int64()))
    features = datasets.Features({**dataset.features, name: feature})
    info = dataset.info.copy()
    info.features = features
    return datasets.Dataset(
        datasets.table.InMemoryTable(wider.replace_schema_metadata(None)), info=info, split=dataset.split
    )
