"""What torch.nn.RNN should give, in float64: outputs and gradients, with the slopes of ReLU that the library itself has.

SPDX-License-Identifier: Apache-2.0
"""


def plain_network(torch, network, x, state, lengths, loss_weights):
    """[y, last state, dx, (d state), d parameters...] of a bidirectional or other torch.nn.RNN.

    `lengths`: of packed sequences, or None; `loss_weights`: what y and the last state are multiplied with for the loss.
    States are rounded to the data's type between steps. A slope of ReLU is 0 or 1 and hangs on the rounding of a sum;
    it is taken from what the library gives for each layer alone, over its own result for the layer below.
    """
    directions = 2 if network.bidirectional else 1
    hidden, dtype = network.hidden_size, x.dtype
    relu = network.nonlinearity == "relu"

    def packed(sequence):
        return torch.nn.utils.rnn.pack_padded_sequence(
            sequence, lengths, batch_first=network.batch_first, enforce_sorted=False
        )

    def layer_alone(layer, below):
        alone = torch.nn.RNN(
            below.shape[-1], hidden, nonlinearity=network.nonlinearity, bias=network.bias,
            batch_first=network.batch_first, bidirectional=network.bidirectional,
        ).to(dtype).cuda()  # fmt: skip
        for name, parameter in alone.named_parameters():
            parameter.copy_(getattr(network, name.replace("_l0", f"_l{layer}")))
        first = None if state is None else state[layer * directions : (layer + 1) * directions].contiguous()
        y, _ = alone(packed(below) if lengths is not None else below, first)
        if lengths is None:
            return y
        steps = below.shape[1 if network.batch_first else 0]
        return torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=network.batch_first, total_length=steps)[0]

    def by_steps(sequence):
        return sequence.transpose(0, 1) if network.batch_first else sequence

    slopes = []
    if relu:
        with torch.no_grad():
            below = x.detach()
            for layer in range(network.num_layers):
                below = layer_alone(layer, below)
                slopes.append((by_steps(below) > 0).double())

    exact = [t.detach().double().requires_grad_() for t in [x] + ([] if state is None else [state])]
    parameters = [p.detach().double().requires_grad_() for p in network.parameters()]
    each = 4 if network.bias else 2
    below = by_steps(exact[0])
    steps, batch = below.shape[0], below.shape[1]
    ends = torch.full((batch,), steps) if lengths is None else lengths
    last = []
    for layer in range(network.num_layers):
        outputs = []
        for side in range(directions):
            pseudo = layer * directions + side
            w, r, *biases = parameters[each * pseudo : each * (pseudo + 1)]
            h = exact[1][pseudo] if state is not None else torch.zeros(batch, hidden, dtype=torch.float64, device="cuda")
            ys = [None] * steps
            for t in range(steps) if side == 0 else reversed(range(steps)):
                a = below[t] @ w.T + h @ r.T + sum(biases)
                y = a * slopes[layer][t][:, side * hidden : (side + 1) * hidden] if relu else torch.tanh(a)
                y = y + (y.detach().to(dtype).double() - y.detach())
                there = (ends > t).double()[:, None].cuda()
                ys[t] = y * there
                h = ys[t] + h * (1 - there)
            outputs.append(torch.stack(ys))
            last.append(h)
        below = torch.cat(outputs, dim=-1)
    y = by_steps(below)
    results = [packed(y).data if lengths is not None else y, torch.stack(last)]
    sum((t * w.double()).sum() for t, w in zip(results, loss_weights)).backward()
    return results + [t.grad for t in exact + parameters]
