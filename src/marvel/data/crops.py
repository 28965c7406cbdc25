"""Where an image is cut out of a larger one, as trainings on ImageNet do it.

In training a random rectangle of 8% to 100% of the area, its sides in a ratio of 3:4 to 4:3, is scaled to the size of
the network's input. In tests the shorter side is scaled to 8/7 of that size (256 for 224), and the middle taken.
"""

import math
import random
from collections.abc import Callable
from typing import TypeAlias

AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
ATTEMPTS = 10
MARGIN = 8 / 7
"""The shorter side of an image that is tested, in sizes of the network's input."""

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels."""
Cut: TypeAlias = Callable[[int, int], Box]
"""Width and height of an image -> the part of it that becomes the instance."""


def centre(width: int, height: int) -> Box:
    """The middle, a square."""
    side = min(width, height) / MARGIN
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def random_part(seed: int, index: int) -> Cut:
    """A random rectangle, a function of the epoch's seed and of the instance."""

    def cut(width: int, height: int) -> Box:
        draw = random.Random(f"{seed} {index}")
        for _ in range(ATTEMPTS):
            area = width * height * draw.uniform(*AREA)
            ratio = math.exp(draw.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
            across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < across <= width and 0 < down <= height:
                left, top = draw.randint(0, width - across), draw.randint(0, height - down)
                return left, top, left + across, top + down
        # A very long or very narrow image: as much of its middle as the ratio allows.
        across, down = min(width, round(height * RATIO[1])), min(height, round(width / RATIO[0]))
        left, top = (width - across) // 2, (height - down) // 2
        return left, top, left + across, top + down

    return cut
