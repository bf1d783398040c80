"""Measured runs that are sold for GPU-hours: what is on offer, what it costs, what is left.

>>> run = SweptRun("one", 1, 1, 1, 8, num_layers=16, work_seconds=0.1, price=0.5)
>>> shop = Shop({run: 1.6}, budget=1.2)
>>> shop.buy(run), shop.left
(1.6, 0.7)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

CENTS = 2  # digits of a price in GPU-hours


class OverBudget(ValueError):
    """A run costs more than is left."""


class NotOnOffer(ValueError):
    """A run is not for sale."""


@dataclass(frozen=True)
class SweptRun:
    """A layout of a sweep, without its time.

    Attributes:
        name: In short; no other run has the same.
        nodes: Of eight devices.
        tensor: Tensor ranks t.
        stages: Pipeline stages p.
        num_micro_batches: Micro-batches m of a replica in a step.
        num_layers: Layers L of the fullest stage.
        work_seconds: Of a GPU for a micro-batch, on the stage with the most, as predicted.
        price: GPU-hours of a measurement.
        step_flops: Of the model for a step, on all devices together.
    """

    name: str
    nodes: int
    tensor: int
    stages: int
    num_micro_batches: int
    num_layers: int
    work_seconds: float
    price: float = 0.0
    step_flops: float = 0.0


class Shop:
    """Runs that are measured for GPU-hours; what is paid is paid.

    Attributes:
        offers: The runs on offer.
    """

    def __init__(self, seconds: Mapping[SweptRun, float], budget: float) -> None:
        """Open with all GPU-hours left.

        Args:
            seconds: Of a step of each run on offer.
            budget: GPU-hours.
        """
        self.offers = tuple(seconds)
        self._bought, self._left, self._buy = _till(dict(seconds), budget)

    @property
    def left(self) -> float:
        """GPU-hours that are left."""
        return self._left()

    @property
    def bought(self) -> dict[SweptRun, float]:
        """Seconds of a step of each run that was bought."""
        return self._bought()

    def buy(self, run: SweptRun) -> float:
        """Measured seconds of a step, for the run's price; who has paid does not pay again.

        Raises:
            NotOnOffer: If the run is not for sale.
            OverBudget: If it costs more than is left; then nothing is bought.
        """
        return self._buy(run)

    def __repr__(self) -> str:
        """How many runs there are, and what is left."""
        return f"<shop: {len(self.offers)} on offer, {self.left} GPU-hours left>"


def _till(
    seconds: dict[SweptRun, float], budget: float
) -> tuple[Callable[[], dict[SweptRun, float]], Callable[[], float], Callable[[SweptRun], float]]:
    """What was bought, what is left, and how to buy; in no attribute that somebody could set."""
    paid: dict[SweptRun, float] = {}

    def left() -> float:
        return round(budget - sum(run.price for run in paid), CENTS)

    def buy(run: SweptRun) -> float:
        if run not in seconds:
            raise NotOnOffer(f"wanted a run of `offers`, got {run}")
        if run not in paid:
            if run.price > left():
                raise OverBudget(
                    f"{run.name} costs {run.price} GPU-hours, and {left()} are left: "
                    "compare its `price` with `left` before you buy"
                )
            paid[run] = seconds[run]
        return paid[run]

    return lambda: dict(paid), left, buy
