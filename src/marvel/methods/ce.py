"""Cross entropy: what everybody does, and what memorises wrong labels.

    loss = mean of -log p_y

Departures: none.
"""

from marvel.method import Method


class CE(Method):
    """Plain cross entropy: the base class as it is. Its ledger still follows the margins."""
