"""Right answers to the exercises of unit 09, in a first style."""

import torch

# === u09-global-mean


def share_of_mean(comm, summed_loss, num_targets):
    count = torch.tensor([num_targets], dtype=torch.float64)
    handle = comm.all_reduce(count, async_op=True)
    handle.wait()
    return summed_loss / max(1.0, count.item())


# === u09-each


def backward_each(comm, model, loss):
    loss.backward()
    for p in model.parameters():
        if not p.requires_grad:
            continue
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        comm.all_reduce(p.grad, async_op=True).wait()
    pass


# === u09-buckets


def backward_in_buckets(comm, model, loss, bucket_bytes):
    waiting, sent = [], []

    def send():
        flat = torch.cat([p.grad.flatten() for p in waiting])
        sent.append((comm.all_reduce(flat, async_op=True), flat, list(waiting)))
        waiting.clear()

    def collect(parameter):
        waiting.append(parameter)
        if sum(p.grad.nbytes for p in waiting) >= bucket_bytes:
            send()

    hooks = [p.register_post_accumulate_grad_hook(collect) for p in model.parameters()]
    try:
        loss.backward()
    finally:
        for hook in hooks:
            hook.remove()
    if waiting:
        send()
    for handle, flat, parameters in sent:
        handle.wait()
        start = 0
        for p in parameters:
            p.grad.copy_(flat[start : start + p.numel()].view_as(p))
            start += p.numel()


# === u09-no-sync


def accumulate_together(comm, model, micro_batches, backward):
    for micro_batch in micro_batches[:-1]:
        micro_batch().backward()
    backward(comm, model, micro_batches[-1]())


# === u09-ring


def ring_all_reduce(comm, tensor):
    n, rank = comm.size, comm.rank
    length = -(-tensor.numel() // n)
    padded = torch.zeros(n * length, dtype=tensor.dtype)
    padded[: tensor.numel()] = tensor.view(-1)
    rows = padded.view(n, length)
    right, left = (rank + 1) % n, (rank - 1) % n
    for step in range(2 * (n - 1)):
        outgoing, incoming = (rank - step) % n, (rank - step - 1) % n
        theirs = torch.empty(length, dtype=tensor.dtype)
        sending = comm.send(rows[outgoing], right, async_op=True)
        receiving = comm.receive(theirs, left, async_op=True)
        sending.wait()
        receiving.wait()
        rows[incoming] = theirs + (rows[incoming] if step < n - 1 else 0)
    tensor.copy_(padded[: tensor.numel()].view_as(tensor))


# === u09-flat


def backward_flat(comm, model, loss):
    loss.backward()
    trainable = [p for p in model.parameters() if p.requires_grad]
    for p in trainable:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    flat = torch.cat([p.grad.flatten() for p in trainable])
    comm.all_reduce(flat)
    start = 0
    for p in trainable:
        p.grad = flat[start : start + p.numel()].view(p.shape)
        start += p.numel()


# === u09-memory


def make_buckets(model, bucket_bytes):
    members, held = [[]], 0
    for p in reversed(list(model.parameters())):
        if held >= bucket_bytes:
            members.append([])
            held = 0
        members[-1].append(p)
        held += p.nbytes
    flats = []
    for bucket in members:
        length = sum(p.numel() for p in bucket)
        flat, start = torch.zeros(length, dtype=bucket[0].dtype), 0
        for p in bucket:
            part = flat[start : start + p.numel()]
            p.grad = part.view_as(p)
            start += p.numel()
        flats.append(flat)
    return flats


# === u09-dropout


def start_equal(comm, model, seed):
    with torch.no_grad():
        for each in [*model.parameters(), *model.buffers()]:
            comm.broadcast(each, 0)
    torch.manual_seed(seed + comm.rank)


# === u09-unused


def backward_with_unused(comm, model, loss, bucket_bytes):
    buckets, held = [[]], 0
    for p in reversed(list(model.parameters())):
        if held >= bucket_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(p)
        held += p.nbytes
    missing = [set(bucket) for bucket in buckets]
    sent = []

    def send():
        bucket = buckets[len(sent)]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([grad.flatten() for grad in grads])
        sent.append((comm.all_reduce(flat, async_op=True), flat))

    def hook(parameter):
        for each in missing:
            each.discard(parameter)
        while len(sent) < len(buckets) and not missing[len(sent)]:
            send()

    hooks = [p.register_post_accumulate_grad_hook(hook) for p in model.parameters()]
    try:
        loss.backward()
    finally:
        for each in hooks:
            each.remove()
    while len(sent) < len(buckets):
        send()
    for bucket, (handle, flat) in zip(buckets, sent):
        handle.wait()
        for p, part in zip(bucket, flat.split([each.numel() for each in bucket])):
            p.grad = part.view_as(p)


# === u09-ddp-buckets


def ddp_buckets(sizes, arrival, first, limit, finds_unused):
    order = range(len(sizes)) if finds_unused else arrival
    buckets = [0]
    for place in order:
        if buckets[-1] >= (first if len(buckets) == 1 else limit):
            buckets.append(0)
        buckets[-1] += sizes[place]
    if finds_unused:
        buckets.reverse()
        return buckets, list(buckets)
    return [sum(sizes)], buckets
