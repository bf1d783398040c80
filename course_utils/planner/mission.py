"""What is to be planned: a model, devices, a number of tokens, a deadline."""

from dataclasses import dataclass, replace

from course_utils.configs import Device, Machine, ModelConfig, device, machine_of, preset


@dataclass(frozen=True, kw_only=True)
class Mission:
    """One training run that is wanted.

    Attributes:
        name: Which model on which devices, in a few words.
        model: Its sizes.
        device: Data sheet of a device.
        machine: The devices by the rates that they reach, and the links between them.
        seq_len: Tokens of a sequence.
        num_tokens: Tokens to train on.
        tokens_per_step: Tokens after which the weights change once.
        num_days: The deadline.
        utilisation: Share of the devices' dense peak in bf16 that is hoped for.
        usd_per_device_hour: A price; prices differ and change.
    """

    name: str
    model: ModelConfig
    device: Device
    machine: Machine
    seq_len: int
    num_tokens: int
    tokens_per_step: int
    num_days: int
    utilisation: float
    usd_per_device_hour: float

    @property
    def num_devices(self) -> int:
        """How many devices train."""
        return self.machine.num_devices

    @property
    def link_bytes_per_second(self) -> int:
        """What each device sends and receives."""
        return int(self.machine.link_bytes_per_second)

    @property
    def sequences_per_step(self) -> int:
        """Sequences after which the weights change once."""
        return self.tokens_per_step // self.seq_len

    def __str__(self) -> str:
        """The mission in one line."""
        return (
            f"{self.name}: {self.num_tokens / 1e9:,.0f} billion tokens in {self.num_days} days, "
            f"in sequences of {self.seq_len:,}"
        )


MISSION = Mission(
    name="Llama-3-8B on 8 × H100-SXM",
    model=preset("Llama-3-8B"),
    device=device("H100-SXM"),
    machine=replace(machine_of("H100-SXM", num_devices=8), link_bytes_per_second=200 * 10**9),
    seq_len=8192,
    num_tokens=100 * 10**9,
    tokens_per_step=4 * 2**20,
    num_days=30,
    utilisation=0.4,
    usd_per_device_hour=2.5,
)
