"""`marvel.__all__` is the public interface: sorted, complete, and nothing that is there by accident."""

from types import ModuleType

import marvel


def order(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then functions: the order `ruff check` asks for."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_all_is_sorted_and_unique() -> None:
    assert list(marvel.__all__) == sorted(set(marvel.__all__), key=order)


def test_all_is_what_can_be_imported() -> None:
    """Sub-modules become attributes as soon as somebody imports them: they count only where `__all__` names them."""
    importable = {name for name in dir(marvel) if not name.startswith("_")}
    modules = {name for name in importable if isinstance(getattr(marvel, name), ModuleType)}
    exported = set(marvel.__all__) - {"__version__"}
    assert exported - importable == set(), "in __all__, but not there"
    assert importable - modules - exported == set(), "public, but not in __all__"
    assert all(getattr(marvel, name).__name__ == f"marvel.{name}" for name in modules & exported)


def test_star_import() -> None:
    names: dict[str, object] = {}
    exec("from marvel import *", names)
    assert set(marvel.__all__) <= set(names)
