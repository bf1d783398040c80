"""Right answers to the exercises of unit 04, in a third style."""

from collections import Counter
from itertools import accumulate

import torch
from torch.nn import functional as F

# === u04-repair-training


def train(body, head, optimizer, batches, held_out):
    average, states = torch.zeros(()), []
    for ids, targets in batches:
        hidden = body(ids)
        logits = head(hidden)
        probabilities = logits.softmax(dim=-1)
        with torch.no_grad():
            average = torch.lerp(probabilities.amax(-1).mean(), average.to(logits.dtype), 0.9)
        states.append(torch.from_numpy(hidden.detach()[:, -1].numpy().copy()))
        F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    was_enabled = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    total = torch.zeros(())
    for x, y in held_out:
        total += F.cross_entropy(head(body(x)).flatten(0, 1), y.flatten())
    torch.set_grad_enabled(was_enabled)
    mean = float(total) / len(held_out)
    return dict(confidence=float(average), states=states, loss=mean)


# === u04-snapshot


def read_snapshot(snapshot):
    (events,) = snapshot["device_traces"]
    signs = {"alloc": 1, "free_requested": -1}
    changes = [signs.get(e["action"], 0) * e["size"] for e in events]
    used = sum(s["requested_size"] for s in snapshot["segments"])
    line = list(accumulate(changes, initial=used - sum(changes)))
    at = max(range(1, len(line)), key=lambda n: (line[n], -n))
    holders, who = Counter(), {}
    for event, change in zip(events[:at], changes):
        if change > 0:
            frames = event["frames"]
            while frames and "site-packages/torch/" in frames[0]["filename"]:
                frames = frames[1:]
            if frames:
                who[event["addr"]] = frames[0]["name"]
        if change and event["addr"] in who:
            holders[who[event["addr"]]] += change
        if change < 0:
            who.pop(event["addr"], None)
    parts = [s for s in snapshot["segments"] if s["active_size"]]
    return {
        "peak_bytes": line[at],
        "peak_event": at - 1,
        "holder_bytes": max(holders.values(), default=0),
        "trapped_bytes": sum(s["total_size"] - s["active_size"] for s in parts),
    }
