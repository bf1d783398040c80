"""What is in a transformer layer? Its operations and the tensors that they make, in order.

Each size is written once, in letters: ``"b s a d"`` are the axes of a tensor, ``"2 b s h a d"`` the
FLOPs of a product. Numbers and formulas come from these letters.

Letters: b sequences of s tokens, h hidden size, a query heads, a_kv key and value heads, d head
dimension, f feed-forward size, t tokens that a step of decoding reads: cached ones and its own.

Not drawn: dropout, latent attention and experts; scale and mask of the scores, which keep nothing.
"""

from dataclasses import dataclass, replace
from math import prod

from course_utils import colours
from course_utils.configs import DEFAULT_KERNELS, FP32_BYTES, Kernels, ModelConfig
from course_utils.configs.validation import require_not_negative, require_positive

SCORES = "b a s s"


@dataclass(frozen=True)
class Tensor:
    """A tensor; in its label, what follows an underscore is a subscript."""

    name: str
    label: str
    axes: str
    element_bytes: int


@dataclass(frozen=True)
class Operation:
    """An operation, named as its module if it has weights.

    Attributes:
        name: Unique among operations and tensors.
        label: As in the drawing.
        reads: Its inputs.
        makes: Its result.
        lane: Where it runs beside others: 0 in the middle, -1 above, 1 below.
        flops: FLOPs of its matrix products, forward, in letters.
        weights: Parameters of each weight and bias, in letters.
        aside: What it makes for the backward pass only.
        cache: Numbers of the keys and values that a step of decoding reads, in letters.
        colour: Of its part of the layer.
    """

    name: str
    label: str
    reads: tuple[Tensor, ...]
    makes: Tensor
    lane: float = 0.0
    flops: str = ""
    weights: tuple[str, ...] = ()
    aside: Tensor | None = None
    cache: str = ""
    colour: str = colours.NEUTRAL


@dataclass(frozen=True)
class SubLayer:
    """Attention or feed-forward: stages of operations side by side, and the residual's addition."""

    entry: Tensor
    stages: tuple[tuple[Operation, ...], ...]
    addition: Operation

    @property
    def operations(self) -> list[Operation]:
        """All operations in the order of the forward pass."""
        return [*(each for stage in self.stages for each in stage), self.addition]

    @property
    def tensors(self) -> list[Tensor]:
        """The input and all that is made, but for the sum: it is the next input."""
        made = (each for step in self.operations[:-1] for each in (step.aside, step.makes))
        return [self.entry, *filter(None, made)]


@dataclass(frozen=True)
class LayerPass:
    """One forward pass of one layer: b sequences of s tokens, numbers of ``element_bytes``.

    With ``num_cached`` tokens of each sequence in a cache it is a step of decoding.
    """

    model: ModelConfig
    num_sequences: int
    seq_len: int
    element_bytes: int
    kernels: Kernels = DEFAULT_KERNELS
    num_cached: int = 0

    def __post_init__(self) -> None:
        """Reject sizes that make no sense, and layers that are not drawn."""
        require_positive("layer", num_sequences=self.num_sequences, seq_len=self.seq_len)
        require_not_negative("layer", num_cached=self.num_cached)
        if self.element_bytes not in (2, 4):
            raise ValueError(f"layer: element_bytes must be 2 or 4, got {self.element_bytes!r}")
        if self.model.latent_attention or self.model.experts or self.kernels.dropout_fraction:
            raise ValueError(
                "the drawing of a layer has no latent attention, experts or dropout: give a model "
                "and kernels without them"
            )
        if self.num_cached and not self.kernels.is_attention_fused:
            raise ValueError(
                "the drawing of a layer has a cache only for fused attention: give num_cached = 0 "
                "or fused kernels"
            )

    @property
    def has_repeated_heads(self) -> bool:
        """Whether shared keys and values are copied to every query head."""
        is_shared = self.model.num_kv_heads < self.model.num_heads
        return is_shared and not self.kernels.is_attention_fused

    def count(self, letters: str) -> int:
        """Product of letters and whole numbers, such as ``"2 b s h f"``; 0 for none."""
        m = self.model
        sizes = {"b": self.num_sequences, "s": self.seq_len, "h": m.hidden_size, "f": m.ffn_size}
        sizes |= {"a": m.num_heads, "a_kv": m.num_kv_heads, "d": m.head_dim}
        sizes["t"] = self.num_cached + self.seq_len
        return prod(sizes.get(each) or int(each) for each in letters.split()) if letters else 0

    def parameters(self, operation: Operation) -> int:
        """Parameters of the weights and biases of an operation."""
        return sum(map(self.count, operation.weights))

    def cache_bytes(self, operation: Operation) -> int:
        """Bytes of the keys and values that an operation reads of a cache and of this step."""
        return self.element_bytes * self.count(operation.cache)

    def tensor_bytes(self, tensor: Tensor) -> int:
        """Bytes of a tensor."""
        return tensor.element_bytes * self.count(tensor.axes)

    def width(self, tensor: Tensor) -> int:
        """Numbers of a tensor for each token."""
        return self.count(tensor.axes) // self.count("b s")

    def tensor(self, name: str, axes: str, label: str = "") -> Tensor:
        """A tensor of activations."""
        return Tensor(name, label or name, axes, self.element_bytes)


def sub_layers(run: LayerPass) -> tuple[SubLayer, SubLayer]:
    """Attention and feed-forward of a layer."""
    return _attention(run), _feed_forward(run)


def _attention(run: LayerPass) -> SubLayer:
    norm = _norm(run, 1, "attention_norm")
    q, k, v = projections = _projections(run, norm.makes)
    stages = [(norm,), projections]
    if not run.model.num_positions:
        q, k = (_copied(run, each, "rotate", "′", each.makes.axes) for each in (q, k))
        stages.append((q, k))
    if run.has_repeated_heads:
        k, v = (_copied(run, each, "repeat", "″", "b s a d") for each in (k, v))
        stages.append((k, v))
    stages += _core(run, q.makes, k.makes, v.makes)
    out = run.tensor("y_1", "b s h")
    output = _linear(run, "attention.output", "W_O", stages[-1][0].makes, out)
    return _with_residual(run, 1, (*stages, (output,)))


def _feed_forward(run: LayerPass) -> SubLayer:
    norm = _norm(run, 2, "ffn_norm")
    inner = (_gated if run.model.is_gated else _plain)(run, norm.makes)
    out = run.tensor("y_2", "b s h")
    down = _linear(run, "ffn.down", "W_down", inner[-1][0].makes, out)
    return _with_residual(run, 2, ((norm,), *inner, (down,)))


def _with_residual(
    run: LayerPass, number: int, stages: tuple[tuple[Operation, ...], ...]
) -> SubLayer:
    (entry,), out = stages[0][0].reads, stages[-1][0].makes
    total = run.tensor(f"x_{number + 1}", "b s h")
    return SubLayer(entry, stages, Operation(f"add_{number}", "+", (entry, out), total))


def _norm(run: LayerPass, number: int, name: str) -> Operation:
    """LayerNorm's statistics have the bytes of an activation on a CPU, and 4 on a GPU."""
    x = run.tensor(f"x_{number}", "b s h")
    out = run.tensor(f"normed_{number}", "b s h", f"x̂_{number}")
    if run.model.has_biases:
        two = run.tensor(f"statistics_{number}", "b s 2", "mean, 1/σ")
        return Operation(name, "LayerNorm", (x,), out, weights=("h", "h"), aside=two)
    one = Tensor(f"statistics_{number}", "1/rms", "b s", FP32_BYTES)
    return Operation(name, "RMSNorm", (x,), out, weights=("h",), aside=one)


def _linear(  # noqa: PLR0913, PLR0917  of one matrix: name, label, neighbours and place
    run: LayerPass, name: str, label: str, read: Tensor, out: Tensor, lane: float = 0.0
) -> Operation:
    inner, bias = (each.axes.removeprefix("b s ") for each in (read, out))
    weight = f"{inner} {bias}"
    weights = (weight, bias) if run.model.has_biases else (weight,)
    colour = colours.PROJECTIONS if name.startswith("attention") else colours.FEED_FORWARD
    return Operation(name, label, (read,), out, lane, f"2 b s {weight}", weights, colour=colour)


def _projections(run: LayerPass, normed: Tensor) -> tuple[Operation, ...]:
    q, k, v = (
        run.tensor(name, f"b s {heads} d")
        for name, heads in (("q", "a"), ("k", "a_kv"), ("v", "a_kv"))
    )
    return (
        _linear(run, "attention.query", "W_Q", normed, q, -1),
        _linear(run, "attention.key", "W_K", normed, k),
        _linear(run, "attention.value", "W_V", normed, v, 1),
    )


def _copied(run: LayerPass, before: Operation, how: str, mark: str, axes: str) -> Operation:
    """Queries, keys or values in a new tensor: with positions, or repeated for every head."""
    letter = before.makes.name[0]
    out = run.tensor(f"{letter}{mark}", axes)
    return Operation(f"{how}_{letter}", how, (before.makes,), out, before.lane)


def _core(run: LayerPass, q: Tensor, k: Tensor, v: Tensor) -> list[tuple[Operation, ...]]:
    colour, out = colours.ATTENTION_CORE, run.tensor("o", "b s a d")
    if run.kernels.is_attention_fused:
        core = Operation("core", "attention", (q, k, v), out, colour=colour)
        if run.num_cached:
            return [(replace(core, flops="4 b s t a d", cache="2 b t a_kv d"),)]
        aside = Tensor("log_sum_exp", "log-sum-exp", "b a s", FP32_BYTES)
        return [(replace(core, flops="4 b s s a d", aside=aside),)]
    scores, weights = run.tensor("S", SCORES), run.tensor("P", SCORES)
    flops, lane = "2 b s s a d", -1
    return [
        (Operation("q_times_k", "q kᵀ", (q, k), scores, lane, flops, colour=colour),),
        (Operation("softmax", "softmax", (scores,), weights, lane, colour=colour),),
        (Operation("weights_times_v", "P v", (weights, v), out, 0, flops, colour=colour),),
    ]


def _gated(run: LayerPass, normed: Tensor) -> list[tuple[Operation, ...]]:
    g, u, z = (run.tensor(name, "b s f") for name in ("g", "u", "z"))
    stage = (
        _linear(run, "ffn.gate", "W_gate", normed, g, -0.5),
        _linear(run, "ffn.up", "W_up", normed, u, 0.5),
    )
    if run.kernels.is_gate_fused:
        return [stage, (Operation("swiglu", "SwiGLU", (g, u), z),)]
    silu = Operation("silu", "SiLU", (g,), run.tensor("SiLU(g)", "b s f"), -0.5)
    return [stage, (silu,), (Operation("multiply", "×", (silu.makes, u), z),)]


def _plain(run: LayerPass, normed: Tensor) -> list[tuple[Operation, ...]]:
    u, z = (run.tensor(name, "b s f") for name in ("u", "z"))
    up = _linear(run, "ffn.up", "W_up", normed, u)
    return [(up,), (Operation("gelu", "GELU", (u,), z),)]
