"""What is to be planned: a model, devices, a number of tokens, a deadline."""

from dataclasses import dataclass, replace

from course_utils.configs import Device, Machine, ModelConfig, device, machine_of, preset


@dataclass(frozen=True, kw_only=True)
class Mission:
    """One training run that is wanted.

    Attributes:
        model_name: Of a preset.
        device_name: Of a device.
        num_devices: How many of it.
        seq_len: Tokens of a sequence.
        num_tokens: Tokens to train on.
        tokens_per_step: Tokens after which the weights change once.
        num_days: The deadline.
        utilisation: Share of the devices' dense peak in bf16 that is hoped for.
        link_bytes_per_second: What each device sends and receives inside of a node.
        usd_per_device_hour: A price; prices differ and change.
    """

    model_name: str
    device_name: str
    num_devices: int
    seq_len: int
    num_tokens: int
    tokens_per_step: int
    num_days: int
    utilisation: float
    link_bytes_per_second: int
    usd_per_device_hour: float

    @property
    def model(self) -> ModelConfig:
        """Its sizes."""
        return preset(self.model_name)

    @property
    def device(self) -> Device:
        """Its data sheet."""
        return device(self.device_name)

    @property
    def machine(self) -> Machine:
        """Its devices by the rates that they reach, with its own links."""
        node = machine_of(self.device_name, self.num_devices)
        return replace(node, link_bytes_per_second=self.link_bytes_per_second)

    @property
    def sequences_per_step(self) -> int:
        """Sequences after which the weights change once."""
        return self.tokens_per_step // self.seq_len

    def __str__(self) -> str:
        """The mission in one line."""
        return (
            f"{self.model_name} on {self.num_devices} × {self.device_name}: "
            f"{self.num_tokens / 1e9:,.0f} billion tokens in {self.num_days} days, "
            f"in sequences of {self.seq_len:,}"
        )


MISSION = Mission(
    model_name="Llama-3-8B",
    device_name="H100-SXM",
    num_devices=8,
    seq_len=8192,
    num_tokens=100 * 10**9,
    tokens_per_step=4 * 2**20,
    num_days=30,
    utilisation=0.4,
    link_bytes_per_second=200 * 10**9,
    usd_per_device_hour=2.5,
)
