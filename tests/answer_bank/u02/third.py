"""Right answers to the exercises of unit 02, in a third style."""

import torch

from course_utils.reference.generation import Cache, hidden_states

# === u02-fuse


def attention_weights(scores, bias, scale):
    biased = torch.empty_like(scores)
    torch.add(bias, scores, alpha=scale, out=biased)
    return torch.softmax(biased, dim=-1)


# === u02-repair-generate


@torch.no_grad()
def generate(model, prompt, num_new):
    cache = Cache(model, len(prompt), 64)
    for each in cache.tensors:
        each.zero_()
    for token in prompt.split(1, dim=1):
        states = hidden_states(model, token, cache)
    for _ in range(num_new):
        token = model.head(states[:, 0]).max(-1, keepdim=True).indices
        prompt = torch.cat([prompt, token], 1)
        states = hidden_states(model, token, cache)
    return prompt
