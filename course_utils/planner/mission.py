"""What is to be planned: a model, devices, a number of tokens, a deadline."""

from dataclasses import dataclass

from course_utils.configs import Machine, ModelConfig, Plan, machine_of, preset

SECONDS_PER_DAY, HOURS_PER_DAY = 86_400, 24


@dataclass(frozen=True, kw_only=True)
class Mission:
    """One training run that is wanted; all that is of the devices is the machine's.

    Attributes:
        name: Of the model.
        model: Its sizes.
        machine: The devices by the rates that they reach, and the links between them.
        seq_len: Tokens of a sequence.
        num_tokens: Tokens to train on.
        tokens_per_step: Tokens after which the weights change once.
        num_days: The deadline.
        utilisation: Share of the devices' dense peak in bf16 that is hoped for.
        has_fp32_gradients: Whether gradients are kept in fp32 instead of bf16.
    """

    name: str
    model: ModelConfig
    machine: Machine
    seq_len: int
    num_tokens: int
    tokens_per_step: int
    num_days: int
    utilisation: float
    has_fp32_gradients: bool = False

    def __post_init__(self) -> None:
        """Refuse what no run can be.

        Raises:
            ValueError: If a step has less than a sequence, or the utilisation is no share.
        """
        if self.tokens_per_step < self.seq_len:
            raise ValueError(
                f"Mission: tokens_per_step = {self.tokens_per_step:,} is less than one sequence of "
                f"{self.seq_len:,} tokens; take at least a sequence for each device"
            )
        if not 0 < self.utilisation <= 1:
            raise ValueError(
                f"Mission: utilisation is a share between 0 and 1, as in 0.4 for 40 %; "
                f"got {self.utilisation!r}"
            )

    @property
    def num_devices(self) -> int:
        """How many devices train."""
        return self.machine.num_devices

    @property
    def usd_per_device_hour(self) -> float:
        """The machine's price."""
        return self.machine.usd_per_device_hour

    @property
    def flops_per_second(self) -> float:
        """FLOP/s of one device, at the utilisation that is hoped for."""
        return self.utilisation * self.machine.peak_flops_per_second

    @property
    def recipe(self) -> str:
        """The precision, by its name in `PRECISIONS`."""
        return Plan(has_fp32_gradients=self.has_fp32_gradients).recipe

    @property
    def sequences_per_step(self) -> int:
        """Sequences after which the weights change once."""
        return self.tokens_per_step // self.seq_len

    @property
    def tokens_in_step(self) -> int:
        """Tokens of a step in whole sequences; at most those wanted, `tokens_per_step`."""
        return self.sequences_per_step * self.seq_len

    @property
    def step_in_words(self) -> str:
        """Tokens that a step really has; where they are not those wanted, what divides better."""
        num_sequences, num_tokens = self.sequences_per_step, self.tokens_in_step
        if num_tokens == self.tokens_per_step:
            return f"{num_tokens:,} tokens per step"
        better = 1 << (num_sequences - 1).bit_length()
        return (
            f"{num_tokens:,} tokens per step, {num_sequences} whole sequences of the "
            f"{self.tokens_per_step:,} tokens wanted; {better * self.seq_len:,} ({better} "
            "sequences) would divide better"
        )

    def days(self, step_seconds: float) -> float:
        """Days of the run, by seconds of a step."""
        return self.num_tokens / self.tokens_in_step * step_seconds / SECONDS_PER_DAY

    def usd(self, days: float) -> float:
        """Price of all devices in so many days."""
        return days * HOURS_PER_DAY * self.num_devices * self.usd_per_device_hour

    def __str__(self) -> str:
        """The mission in one line."""
        billions = f"{self.num_tokens / 1e9:,.1f}"
        return (
            f"{self.name} on {self.machine}: {billions.removesuffix('.0')} billion tokens in "
            f"{self.num_days} days, in sequences of {self.seq_len:,}"
        )


MISSION = Mission(
    name="Llama-3-8B",
    model=preset("Llama-3-8B"),
    machine=machine_of("H100-SXM", num_devices=8),
    seq_len=8192,
    num_tokens=100 * 10**9,
    tokens_per_step=4 * 2**20,
    num_days=30,
    utilisation=0.4,
)
