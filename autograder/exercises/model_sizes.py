"""Sizes of published models, as cases hold them.

LLAMA_8B = preset_sizes("Llama-3-8B")
"""

from course_utils.configs import preset

SIZE_NAMES = (
    "num_layers",
    "hidden_size",
    "num_heads",
    "num_kv_heads",
    "ffn_size",
    "vocab_size",
)


def preset_sizes(name: str) -> dict[str, int]:
    """Sizes of a published model, in the order in which a call prints them, without its ties."""
    model = preset(name)
    return {each: getattr(model, each) for each in SIZE_NAMES}
