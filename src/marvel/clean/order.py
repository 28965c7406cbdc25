"""In which order labels are suspect, and how likely each is wrong in that order."""

from typing import Any

import numpy as np
import numpy.typing as npt

from marvel.clean.densities import falling

Numbers = npt.NDArray[np.float64]


def agreed(chance: Numbers, quality: npt.NDArray[np.floating[Any]]) -> Numbers:
    """The chances that labels are wrong, made to fall along an order that two opinions have made.

    The chance knows which confusions are systematic, but it is a model's. Where people were wrong in ways that canaries
    are not, that model is wrong as well, and the mean margin, which knows nothing, orders labels better. Neither is
    good everywhere, and the mean of the places that they give to a label is nearly as good as the better one. Along
    that order neighbours whose chances rise are given their mean, so the number of wrong labels stays what it was.
    """
    order = np.argsort(_places(-chance, quality) + _places(quality, -chance), kind="stable")
    steady = np.empty_like(chance)
    steady[order] = falling(chance[order], np.ones(len(order)))
    return steady


def _places(by: npt.NDArray[np.floating[Any]], then: npt.NDArray[np.floating[Any]]) -> Numbers:
    places = np.empty(len(by))
    places[np.lexsort((then, by))] = np.arange(len(by))
    return places
