"""Right answers to the exercises of unit 02, in a first style."""

import torch

from course_utils.reference.generation import Cache, hidden_states

# === u02-fuse


def attention_weights(scores, bias, scale):
    return (bias.add(scores, alpha=scale)).softmax(-1)


# === u02-repair-generate


@torch.inference_mode()
def generate(model, prompt, num_new):
    b, s = prompt.shape
    tokens = prompt.new_empty(b, s + num_new)
    tokens[:, :s] = prompt
    cache = Cache(model, b, s + num_new)
    states = hidden_states(model, prompt, cache)
    for n in range(s, s + num_new):
        tokens[:, n] = model.head(states[:, -1]).max(-1).indices
        if n + 1 < s + num_new:
            states = hidden_states(model, tokens[:, n : n + 1], cache)
    return tokens
