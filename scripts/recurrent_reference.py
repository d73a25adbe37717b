"""What torch.nn.RNN should give, in float64: outputs and gradients, with the slopes of ReLU that the library itself has.

SPDX-License-Identifier: Apache-2.0
"""

import copy


def plain_network(torch, network, x, state, lengths, loss_weights):
    """[y, last state, dx, (d state), d parameters...] of a bidirectional or other torch.nn.RNN.

    `lengths`: of packed sequences, or None; `loss_weights`: what y and the last state are multiplied with for the loss.
    States are rounded to the data's type between steps. A slope of ReLU is 0 or 1 and hangs on the rounding of a sum: it
    is taken from the library's own outputs of each layer, which come out of the same network whose upper layers hand on
    what they get. Outputs that are wrong beyond rounding stay wrong: they are compared as well.
    """
    directions = 2 if network.bidirectional else 1
    hidden, dtype = network.hidden_size, x.dtype
    relu = network.nonlinearity == "relu"

    def packed(sequence):
        return torch.nn.utils.rnn.pack_padded_sequence(
            sequence, lengths, batch_first=network.batch_first, enforce_sorted=False
        )

    def by_steps(sequence):
        return sequence.transpose(0, 1) if network.batch_first else sequence

    def outputs_of(layer):
        through = copy.deepcopy(network)
        with torch.no_grad():
            for name, parameter in through.named_parameters():
                if int(name.split("_l")[1].split("_")[0]) > layer:
                    parameter.zero_()
                    if name.startswith("weight_ih"):
                        first = hidden if name.endswith("_reverse") else 0
                        parameter[:, first : first + hidden] = torch.eye(hidden)
        y, _ = through(packed(x) if lengths is not None else x, state)
        if lengths is not None:
            steps = x.shape[1 if network.batch_first else 0]
            y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=network.batch_first, total_length=steps)
        return by_steps(y.detach())

    slopes = [(outputs_of(layer) > 0).double() for layer in range(network.num_layers)] if relu else []
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
