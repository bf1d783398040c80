"""Right answers to the exercises of unit 09, in a second style."""

import itertools

import torch

# === u09-global-mean


def share_of_mean(comm, summed_loss, num_targets):
    counts = torch.zeros(comm.size, dtype=torch.long)
    comm.all_gather(counts, torch.tensor([num_targets]))
    n = int(counts.sum())
    return summed_loss * (1 / n if n else 0.0)


# === u09-each


def backward_each(comm, model, loss):
    trainable = [p for p in model.parameters() if p.requires_grad]
    loss.backward()
    handles = []
    for p in reversed(trainable):
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        handles.append(comm.all_reduce(p.grad, async_op=True))
    for handle in handles:
        handle.wait()


# === u09-buckets


def backward_in_buckets(comm, model, loss, bucket_bytes):
    bucket, held, travelling = [], 0, []

    def start():
        nonlocal bucket, held
        flat = torch.empty(sum(p.numel() for p in bucket), dtype=bucket[0].dtype)
        views = flat.split([p.numel() for p in bucket])
        for p, view in zip(bucket, views):
            view.copy_(p.grad.flatten())
            p.grad = view.view(p.shape)
        travelling.append(comm.all_reduce(flat, async_op=True))
        bucket, held = [], 0

    def hook(p):
        nonlocal held
        bucket.append(p)
        held += p.numel() * p.element_size()
        if held >= bucket_bytes:
            start()

    handles = []
    for p in model.parameters():
        handles.append(p.register_post_accumulate_grad_hook(hook))
    try:
        loss.backward()
    finally:
        while handles:
            handles.pop().remove()
    if bucket:
        start()
    while travelling:
        travelling.pop().wait()


# === u09-no-sync


def accumulate_together(comm, model, micro_batches, backward):
    for number in range(len(micro_batches)):
        is_last = number == len(micro_batches) - 1
        loss = micro_batches[number]()
        backward(comm, model, loss) if is_last else loss.backward()


# === u09-ring


def ring_all_reduce(comm, tensor):
    n, rank = comm.size, comm.rank
    parts = list(tensor.view(-1).tensor_split(n))
    for turn in range(2 * (n - 1)):
        outgoing, k = parts[(rank - turn) % n], (rank - turn - 1) % n
        theirs = torch.empty_like(parts[k])
        handle = comm.send(outgoing, (rank + 1) % n, async_op=True)
        comm.receive(theirs, (rank - 1) % n)
        handle.wait()
        parts[k][:] = theirs + (parts[k] if turn < n - 1 else 0)


# === u09-flat


def backward_flat(comm, model, loss):
    loss.backward()
    trainable = [p for p in model.parameters() if p.requires_grad]
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in trainable]
    flat = torch.hstack([grad.reshape(-1) for grad in grads])
    comm.all_reduce(flat)
    for p, part in zip(trainable, flat.split([p.numel() for p in trainable])):
        p.grad = part.reshape(p.shape)


# === u09-memory


def make_buckets(model, bucket_bytes):
    waiting, made = [], []
    every = list(model.parameters())[::-1]
    for p in every:
        waiting.append(p)
        if sum(q.nbytes for q in waiting) >= bucket_bytes or p is every[-1]:
            sizes = [q.numel() for q in waiting]
            flat = p.new_zeros(sum(sizes))
            for q, part in zip(waiting, flat.split(sizes)):
                q.grad = part.view(q.shape)
            made.append(flat)
            waiting = []
    return tuple(made)


# === u09-dropout


def start_equal(comm, model, seed):
    every = [*model.buffers(), *(each.data for each in model.parameters())]
    for dtype in sorted({each.dtype for each in every}, key=str):
        tensors = [each for each in every if each.dtype == dtype]
        flat = torch.cat([each.flatten() for each in tensors])
        comm.broadcast(flat, source=0)
        for each, part in zip(tensors, flat.split([t.numel() for t in tensors])):
            each.copy_(part.view_as(each))
    torch.default_generator.manual_seed(comm.rank + seed)


# === u09-unused


def backward_with_unused(comm, model, loss, bucket_bytes):
    flats, members, waiting_for, calls = [], [], [], []
    part = []
    every = list(model.parameters())[::-1]
    for p in every:
        part.append(p)
        if sum(each.nbytes for each in part) >= bucket_bytes or p is every[-1]:
            members.append(part)
            waiting_for.append({id(each) for each in part})
            part = []

    def start(bucket):
        for p in bucket:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        flats.append(torch.cat([p.grad.view(-1) for p in bucket]))
        calls.append(comm.all_reduce(flats[-1], async_op=True))

    def hook(p):
        for each in waiting_for:
            each -= {id(p)}
        while len(calls) < len(members) and waiting_for[len(calls)] == set():
            start(members[len(calls)])

    hooks = [p.register_post_accumulate_grad_hook(hook) for p in every]
    try:
        loss.backward()
    finally:
        [each.remove() for each in hooks]
    for bucket in members[len(calls) :]:
        start(bucket)
    for bucket, flat, call in zip(members, flats, calls):
        call.wait()
        for p, piece in zip(bucket, flat.split([p.numel() for p in bucket])):
            p.grad.copy_(piece.view(p.shape))


# === u09-ddp-buckets


def ddp_buckets(sizes, arrival, first, limit, finds_unused):
    def cut(items):
        total, end, ends = 0, first, [0]
        for total in itertools.accumulate(items):
            if total - ends[-1] >= end:
                ends.append(total)
                end = limit
        if ends[-1] < total:
            ends.append(total)
        return tuple(b - a for a, b in itertools.pairwise(ends))

    if finds_unused:
        return (tuple(reversed(cut(sizes))),) * 2
    return (sum(sizes),), cut(map(sizes.__getitem__, arrival))
