"""A method of one's own, in ten lines: train without the instances whose margins were lowest in the epoch before.

python examples/own_method.py
"""

from marvel import METHODS, Method, Seen
from marvel.config import Config
from marvel.run import train


class Trimmed(Method):
    """Leave out the share `trim` of the instances with the lowest margins, chosen anew after each epoch."""

    def __init__(self, n: int, classes: int, epochs: int | None = None, *, warmup: int = 5, trim: float = 0.4) -> None:
        super().__init__(n, classes, epochs)
        self.warmup, self.trim = warmup, trim

    def update(self, seen: Seen) -> None:
        if self.epoch > self.warmup:
            self.weight = (seen.margin >= seen.margin.quantile(self.trim)).float()


METHODS["trimmed"] = Trimmed  # in the package this is a line of the dict in marvel/methods/__init__.py


def main() -> None:
    for method, options in (("ce", {}), ("trimmed", {"trim": 0.4})):
        config = Config(data="digits", noise="symmetric", rate=0.4, method=method, options=options, device="cpu")
        final = train(config.but(epochs=20)).record["final"]
        print(f"{method}: test accuracy {final['test_accuracy']:.1%}, memorised {final['memorisation_ratio']:.1%}")


if __name__ == "__main__":
    main()
