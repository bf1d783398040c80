"""Right answers to the exercises of unit 02, in a second style."""

import torch

from course_utils.reference.generation import Cache, hidden_states

# === u02-fuse


def attention_weights(scores, bias, scale):
    factor = torch.tensor(scale, dtype=scores.dtype)
    return torch.nn.functional.softmax(torch.addcmul(bias, scores, factor), dim=3)


# === u02-repair-generate


def generate(model, prompt, num_new):
    with torch.no_grad():
        cache = Cache(model, prompt.size(0), prompt.size(1) + num_new)
        new = prompt
        for _ in range(num_new):
            logits = model.head(hidden_states(model, new, cache)[:, -1:])
            new = logits[:, 0].topk(1).indices
            prompt = torch.cat([prompt, new], 1)
        return prompt
