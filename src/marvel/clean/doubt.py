"""Labels that the network itself doubts, and what follows where these are more than the canaries account for.

People get labels wrong where the image is hard to tell, so their mistakes are harder to find than canaries, whose
images are as clear as any. The lowest scores are then rarer among the labels than among canaries, and the models of
`marvel.clean.estimate` take that for few wrong labels. What the network says by itself does not depend on canaries:
over the epochs it held another class for three times as likely as the given one. On labels that people made, that
number was near the truth; where the data has many hard images and few wrong labels, it is too high. Which of the two a
dataset is cannot be seen, so both numbers are kept, and the interval reaches from the one to the other.
"""

from dataclasses import replace

import numpy as np

from marvel.clean.estimate import HEDGE, Estimate, Mask, Scores

DOUBTED = 0.25
"""The `label_quality` below which a label is doubted: one to three."""

MORE = (
    "The network itself doubts about {:,} labels, more than the canaries account for: they may be wrong in ways that "
    "are harder to see, or right and hard to tell. Both opinions count half, and the interval reaches from the one to "
    "the other."
)


def doubted(told: Scores) -> Mask:
    """(n,) of all but canaries."""
    doubts: Mask = (told.score < np.log(DOUBTED / (1 - DOUBTED))) & ~told.canary
    return doubts


def beyond(found: Estimate, told: Scores) -> Estimate:
    """The estimate, with both opinions where more labels are doubted than its interval holds: half of each."""
    doubts, others = doubted(told), ~told.canary
    number = float(doubts[others].mean() * len(others))
    if number <= found.high:
        return found
    chance = np.where(others, (found.chance + doubts) / 2, found.chance)
    high = min(number * (1 + HEDGE), float(len(others)))
    model = f"{found.model} {MORE.format(round(number))}"
    return replace(found, chance=chance, value=(found.value + number) / 2, high=high, model=model)
