"""Two tiny models that know one text by heart, letter by letter: trained in seconds, to be served.

>>> model = trained(MODEL, num_steps=220)
>>> text_of(generate(model, ids_of("A token")[None], 40)[0])
"""

import torch
from torch import Tensor

from course_utils.configs import ModelConfig
from course_utils.reference.transformer import Transformer, token_loss

TEXT = (
    "A token comes in and asks what has been said. Its query meets a key of every word before. "
    "The keys are old, the values too, and none of them will change. So write them down, and when "
    "the next one comes, read what is there. A page is full, another page begins. Two stories with "
    "one beginning share its pages, until one of them goes its own way. The small one guesses, the "
    "large one nods, or says the word itself. And what is read is never read in vain. "
)
LETTERS = sorted(set(TEXT))
MODEL = ModelConfig(
    num_layers=2, hidden_size=64, num_heads=8, num_kv_heads=2, ffn_size=176, vocab_size=len(LETTERS)
)
DRAFT = ModelConfig(
    num_layers=1, hidden_size=32, num_heads=2, num_kv_heads=1, ffn_size=64, vocab_size=len(LETTERS)
)
SEQ_LEN, NUM_SEQUENCES, LEARNING_RATE = 128, 4, 1e-2


def ids_of(text: str) -> Tensor:
    """Token ids (s,) of a text in the letters of `TEXT`.

    Raises:
        ValueError: If it has another letter.
    """
    if strange := sorted(set(text) - set(LETTERS)):
        raise ValueError(
            f"ids_of: no token for {', '.join(map(repr, strange))}; use letters of TEXT"
        )
    return torch.tensor([LETTERS.index(letter) for letter in text])


def text_of(ids: Tensor | list[int]) -> str:
    """The text of token ids (s,)."""
    return "".join(LETTERS[int(each)] for each in ids)


def trained(sizes: ModelConfig, num_steps: int, seed: int = 0) -> Transformer:
    """A new model after some steps of AdamW on random pieces of the text."""
    torch.manual_seed(seed)
    model, ids = Transformer(sizes), ids_of(TEXT + TEXT[: SEQ_LEN + 1])
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
    for _ in range(num_steps):
        starts = torch.randint(len(TEXT), (NUM_SEQUENCES, 1))
        piece = ids[starts + torch.arange(SEQ_LEN + 1)]
        token_loss(model(piece[:, :-1]), piece[:, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.requires_grad_(False).eval()
