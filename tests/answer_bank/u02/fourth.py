"""Right answers to the exercises of unit 02, in a fourth style."""

import torch

from course_utils.reference.generation import Cache, hidden_states

# === u02-fuse


def attention_weights(scores, bias, scale):
    weights = torch.add(bias.expand_as(scores), scores, alpha=scale)
    return torch.softmax(weights, dim=-1, out=weights)


# === u02-repair-generate


@torch.no_grad()
def generate(model, prompt, num_new):
    rows = []
    for row in prompt.split(1):
        cache, new = Cache(model, 1, prompt.size(1) + num_new), row
        for _ in range(num_new):
            new = model.head(hidden_states(model, new, cache)[:, -1:]).argmax(-1)
            row = torch.cat([row, new], 1)
        rows.append(row)
    return torch.cat(rows)
