"""Measured runs that are sold for GPU-hours: what is on offer, what it costs, what is left.

>>> run = SweptRun("one", 1, 1, 1, 8, num_layers=16, work_seconds=0.1, price=0.5)
>>> shop = Shop({run: 1.6}, budget=1.2)
>>> shop.buy(run), shop.left
(1.6, 0.7)
"""

from collections.abc import Mapping
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
    """Runs that are measured for GPU-hours.

    Attributes:
        offers: The runs on offer.
        left: GPU-hours that are left.
        bought: Seconds of a step of each run that was bought.
    """

    def __init__(self, seconds: Mapping[SweptRun, float], budget: float) -> None:
        """Open with all GPU-hours left.

        Args:
            seconds: Of a step of each run on offer.
            budget: GPU-hours.
        """
        self._seconds = dict(seconds)
        self.offers, self.left = tuple(self._seconds), budget
        self.bought: dict[SweptRun, float] = {}

    def buy(self, run: SweptRun) -> float:
        """Measured seconds of a step, for the run's price; who has paid does not pay again.

        Raises:
            NotOnOffer: If the run is not for sale.
            OverBudget: If it costs more than is left; then nothing is bought.
        """
        if run not in self._seconds:
            raise NotOnOffer(f"wanted a run of `offers`, got {run}")
        if run not in self.bought:
            if run.price > self.left:
                raise OverBudget(
                    f"{run.name} costs {run.price} GPU-hours, and {self.left} are left: "
                    "compare its `price` with `left` before you buy"
                )
            self.left = round(self.left - run.price, CENTS)
            self.bought[run] = self._seconds[run]
        return self.bought[run]

    def __repr__(self) -> str:
        """How many runs there are, and what is left."""
        return f"<shop: {len(self.offers)} on offer, {self.left} GPU-hours left>"
