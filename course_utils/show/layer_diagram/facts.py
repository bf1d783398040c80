"""The numbers of a layer in words: short for the drawing, exact where a part is clicked.

>>> short_count(274_877_906_944), short_bytes(6_422_528)
('275 G', '6.125 MiB')
"""

from collections.abc import Sequence
from typing import Literal

from course_utils.show.layer_diagram.layer import LayerPass, Operation, SubLayer, Tensor

Shown = Literal["flops", "bytes", "parameters"] | None
SHOWN = ("flops", "bytes", "parameters", None)


def short_count(number: int) -> str:
    """Three digits and a decimal prefix."""
    return _short(number, 1000, ("", " k", " M", " G", " T", " P"), digits=3)


def short_bytes(number: int) -> str:
    """Four digits and a binary prefix."""
    return _short(number, 1024, (" B", " KiB", " MiB", " GiB", " TiB"), digits=4)


def _short(number: float, base: int, units: Sequence[str], digits: int) -> str:
    for unit in units[:-1]:
        if number < base - 0.5:  # more would be rounded to the base
            return f"{number:.{digits}g}{unit}"
        number /= base
    return f"{number:.{digits}g}{units[-1]}"


def on_box(run: LayerPass, operation: Operation, show: Shown) -> str:
    """The number that an operation carries in the drawing; a second line says of what else."""
    if show == "flops":
        return short_count(run.count(operation.flops))
    parameters = run.parameters(operation)
    if show == "bytes" and operation.cache:
        return f"{short_bytes(run.cache_bytes(operation))}\nof cache"
    if show == "bytes" and parameters:
        return short_bytes(run.element_bytes * parameters)
    return short_count(parameters)


def of_operation(run: LayerPass, operation: Operation) -> str:
    """FLOPs forward, parameters and bytes of the weights and of the cache, with their formulas."""
    flops, parameters = run.count(operation.flops), run.parameters(operation)
    products, reads = "no matrix product", "no parameters"
    if flops:
        products = f"{_formula(operation.flops)} = {flops:,} FLOPs forward"
    if parameters:
        terms = " + ".join(map(_formula, operation.weights))
        size = short_bytes(run.element_bytes * parameters)
        reads = f"{terms} = {parameters:,} parameters, {size}"
    if operation.cache:
        cached, size = run.count(operation.cache), short_bytes(run.cache_bytes(operation))
        reads = f"{_formula(operation.cache)} = {cached:,} cached numbers, {size}"
    return f"{operation.label}: {products}; {reads}."


def of_tensor(run: LayerPass, tensor: Tensor) -> str:
    """Its shape in letters and numbers, and its bytes."""
    sides = " × ".join(f"{run.count(axis):,}" for axis in tensor.axes.split())
    letters = " × ".join(tensor.axes.split())
    size = short_bytes(run.tensor_bytes(tensor))
    return f"{tensor.label}: {letters} = {sides} numbers of {tensor.element_bytes} bytes, {size}."


def below_bar(run: LayerPass, tensor: Tensor, show: Shown) -> str:
    """The shape of a tensor for one token, such as ``32 × 128``, or its bytes."""
    if show == "bytes":
        return short_bytes(run.tensor_bytes(tensor))
    axes = tensor.axes.removeprefix("b ").split()
    axes.remove("s")
    shape = " × ".join(f"{run.count(axis):,}" for axis in axes) or "1"
    return shape if tensor.element_bytes == run.element_bytes else f"{shape}, fp32"


def summary(
    run: LayerPass, layers: tuple[SubLayer, ...], show: Shown, cut_bars: Sequence[str]
) -> str:
    """What the drawing shows, in words."""
    m = run.model
    norm = "LayerNorm" if m.has_biases else "RMSNorm"
    key_heads = f"{m.num_kv_heads} key-value head{'s' * (m.num_kv_heads > 1)}"
    shared = f" sharing {key_heads}" if m.num_kv_heads < m.num_heads else ""
    heads = f"{m.num_heads} heads of {m.head_dim}{shared}"
    positions = "" if m.num_positions else ", rotary positions"
    feed_forward = f"{'gated ' * m.is_gated}feed-forward {m.ffn_size:,} wide"
    tokens = f"{run.num_sequences:,} × {run.seq_len:,} tokens"
    if run.num_cached:
        tokens += f", {run.num_cached:,} cached for each sequence"
    sentences = [
        f"One layer {m.hidden_size:,} wide, {tokens}: "
        f"{norm}, {heads}{positions}; {norm}, {feed_forward}.",
        *([_total(run, layers, show)] if show else []),
        *([f"The bars of {' and '.join(cut_bars)} are cut."] if cut_bars else []),
    ]
    return " ".join(sentences)


def _total(run: LayerPass, layers: tuple[SubLayer, ...], show: Shown) -> str:
    operations = [each for layer in layers for each in layer.operations]
    if show == "flops":
        return f"{sum(run.count(each.flops) for each in operations):,} FLOPs forward."
    parameters = sum(map(run.parameters, operations))
    if show == "bytes":
        cached = sum(map(run.cache_bytes, operations))
        cache = f" and {cached:,} of cache" if cached else ""
        return f"{run.element_bytes * parameters:,} bytes of weights{cache}."
    return f"{parameters:,} parameters."


def _formula(letters: str) -> str:
    return letters.replace("s s", "s²").replace(" ", "·")
