"""The reference: what can be imported, from where, and what its docstrings say."""

from extension.described import described, find, public
from extension.methods import keys_of

PAGES: dict[str, tuple[str, dict[str, list[str] | None]]] = {
    "criterion": (
        "`marvel`: in your own loop",
        {"marvel": ["Method", "Indexed", "Issue", "Seen", "Batch", "margins", "drawn", "keep_ledger", "save_run"]},
    ),
    "runs": (
        "`marvel.config`, `marvel.run`, `marvel.runs`: whole runs",
        {"marvel.config": ["Config"], "marvel.run": ["train", "Run"], "marvel.runs": ["RunFolder"]},
    ),
    "data": ("`marvel.data`: data and views", {"marvel.data": None}),
    "noise": ("`marvel.noise`: labels made wrong", {"marvel.noise": None}),
    "clean": (
        "`marvel.clean`, `marvel.export`, `marvel.report`: from suspects to corrected data",
        {
            "marvel.clean": ["clean", "Cleaned"],
            "marvel.report.page": ["write_page"],
            "marvel.review.decisions": ["read_decisions", "Decision"],
            "marvel.export": ["export", "Exported"],
        },
    ),
    "compare": (
        "`marvel.bench`, `marvel.tune`, `marvel.metrics`: many runs",
        {"marvel.bench": ["bench"], "marvel.tune": ["tune", "replay_folder"], "marvel.metrics": None},
    ),
    "integrations": (
        "`marvel.integrations`: other frameworks",
        {
            "marvel.integrations.sklearn": ["MarvelClassifier"],
            "marvel.integrations.lightning": ["MarvelCallback"],
            "marvel.integrations.huggingface": ["MarvelTrainer", "MarvelMixin"],
            "marvel.integrations.accelerate": ["attach"],
            "marvel.integrations.tracking": None,
        },
    ),
    "errors": ("`marvel.errors`: what can go wrong", {"marvel.errors": None}),
}
"""By page: its title, and by module the names it shows; None: all that the module is for."""

MEMBERS: dict[str, tuple[str, ...]] = {
    "Run": (),
    "RunFolder": ("config", "record", "metrics", "instances", "ledger", "margins", "found"),
}
"""What is shown of classes that do more than others need to know."""


def api_pages() -> dict[str, str]:
    return {f"api/{name}.md": _page(title, modules) for name, (title, modules) in PAGES.items()}


def _page(title: str, modules: dict[str, list[str] | None]) -> str:
    parts = [f"# {title}"]
    for module, names in modules.items():
        shown = public(module) if names is None else names
        parts += [
            described(module, name, MEMBERS.get(name)) for name in shown if find(module, name) and not keys_of(name)
        ]
    return "\n\n".join(parts) + "\n"
