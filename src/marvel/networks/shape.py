"""Whether what one instance looks like suits a network."""

from marvel.errors import InvalidInput


def image(shape: tuple[int, ...], network: str, least: int = 1) -> tuple[int, int, int]:
    """The (C, H, W) of an image of at least `least` x `least` pixels, or an error that says what to use instead."""
    if len(shape) != 3:
        raise InvalidInput(
            f"network '{network}' takes images of shape (C, H, W), given vectors of shape {shape}: use 'mlp'"
        )
    channels, height, width = shape
    if min(height, width) < least:
        raise InvalidInput(
            f"network '{network}' takes images of at least {least} x {least} pixels, given {height} x {width}: "
            "enlarge them, or use 'mlp'"
        )
    return channels, height, width
