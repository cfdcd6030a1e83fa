#!/usr/bin/env python3
"""Makes golden cases with PyTorch: inputs, options and the right values in double precision, as FORMAT.md says.

    python3 generate.py OUT_DIR [--seed N] [--random N] [--sizes B,H,LQ,LK,D,DV,S,E ...]

Each entry of --sizes gives one set of all operations: batch B, H heads, LQ queries and LK keys of width D, values of width
DV; sequences of S tokens of width E (a multiple of H). --random adds that many attention cases whose options are drawn at
random. The values come from PyTorch's own modules and from autograd; where PyTorch gives NaN (a query that may attend to
nothing) or has no such option (softcap, windows), from the formula, which is compared with PyTorch where both apply.

Needs torch, numpy and safetensors.
"""
import argparse
import math
import pathlib
import random

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

LOOSE = {"atol32": "4e-4", "rtol32": "4e-4"}


class Cases:
    """Writes one file for each case, and names it after the operation and what is special about it."""

    def __init__(self, directory, tag):
        self.directory, self.tag, self.written = pathlib.Path(directory), tag, 0
        self.directory.mkdir(parents=True, exist_ok=True)

    def write(self, op, what, tensors, options, tolerances=()):
        metadata = {"op": op, "atol64": "1e-10", "rtol64": "1e-9", "atol32": "4e-5", "rtol32": "4e-5"}
        metadata |= dict(tolerances) | {name: str(value) for name, value in options.items()}
        stored = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
        name = "_".join(filter(None, [self.tag, op, what]))
        save_file(stored, self.directory / f"{name}.safetensors", metadata)
        self.written += 1

    def differentiate(self, op, what, function, inputs, options=(), parameters=None, fixed=None, also=None, tolerances=()):
        """Runs function(**inputs), draws grad_output, and stores the gradients of inputs and parameters."""
        outputs = function(**inputs)
        output, extra = outputs if isinstance(outputs, tuple) else (outputs, {})
        grad_output = torch.randn_like(output)
        parameters = parameters or {}
        wanted = {f"d{name}": tensor for name, tensor in inputs.items() if tensor.requires_grad}
        wanted |= {f"grad:{name}": tensor for name, tensor in parameters.items()}
        grads = torch.autograd.grad(output, list(wanted.values()), grad_output, allow_unused=True)
        gradients = {name: torch.zeros_like(of) if grad is None else grad for (name, of), grad in zip(wanted.items(), grads)}
        tensors = {**inputs, **parameters, **(fixed or {}), **extra, **(also or {}), **gradients}
        self.write(op, what, {**tensors, "output": output, "grad_output": grad_output}, dict(options), tolerances)


def real(*shape, spread=1.0, middle=0.0):
    return torch.empty(shape).normal_(middle, spread).requires_grad_()


def shake(module):
    """All parameters random, so that no gradient is hidden by a zero bias or a unit gain."""
    for name, parameter in module.named_parameters():
        middle = 1.0 if name.split(".")[-2:-1] and "norm" in name.split(".")[-2] and name.endswith("weight") else 0.0
        nn.init.normal_(parameter, middle, 0.3 if parameter.dim() > 1 else 0.2)
    return module, dict(module.named_parameters())


ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}


# ---- attention -------------------------------------------------------------------------------------------------------


def visible(queries, keys, causal="none", left=-1, right=-1):
    """[queries, keys], true where position, causal direction and window allow."""
    position = torch.arange(keys) - torch.arange(queries)[:, None]
    if causal == "bottom_right":
        position = position - (keys - queries)
    allowed = position <= 0 if causal != "none" else torch.ones_like(position, dtype=torch.bool)
    if left >= 0:
        allowed = allowed & (position >= -left)
    if right >= 0:
        allowed = allowed & (position <= right)
    return allowed


def attend(query, key, value, allowed, bias=None, scale=None, softcap=0.0):
    """output, weights and log-sum-exp, with zeros and -inf for queries that see nothing."""
    repeats = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(repeats, dim=1) for x in (key, value))
    score = torch.einsum("bhqd,bhkd->bhqk", query, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
    score = softcap * torch.tanh(score / softcap) if softcap else score
    score = score if bias is None else score + bias
    allowed = allowed.expand_as(score)
    blind = ~allowed.any(dim=-1, keepdim=True)
    score = torch.where(allowed | blind, score, torch.tensor(-math.inf))
    weights = torch.where(blind, torch.zeros(()), F.softmax(score, dim=-1))
    logsumexp = torch.where(blind[..., 0], torch.tensor(-math.inf), torch.logsumexp(score, dim=-1))
    return weights @ value, weights, logsumexp


def attention_case(cases, what, b, heads, key_heads, lq, lk, d, dv, causal="none", scale=None, left=-1, right=-1, softcap=0.0,
                   mask=None, bias_shape=None, spread=1.0, tolerances=()):
    inputs = {"query": real(b, heads, lq, d, spread=spread), "key": real(b, key_heads, lk, d, spread=spread),
              "value": real(b, key_heads, lk, dv)}
    if bias_shape:
        inputs["bias"] = real(*bias_shape)
    allowed = visible(lq, lk, causal, left, right)
    if mask is not None:
        allowed = allowed & mask
    options = {"causal": causal, "window_left": left, "window_right": right, "softcap": softcap, "enable_gqa": int(heads != key_heads)}
    if scale is not None:
        options["scale"] = scale

    def function(query, key, value, bias=None):
        output, weights, logsumexp = attend(query, key, value, allowed, bias, scale, softcap)
        if softcap == 0 and allowed.expand(b, heads, lq, lk).any(-1).all():
            added = torch.zeros(b, heads, lq, lk).masked_fill(~allowed, -math.inf)
            theirs = F.scaled_dot_product_attention(query, key, value, added if bias is None else added + bias, scale=scale,
                                                    enable_gqa=heads != key_heads)
            torch.testing.assert_close(output, theirs)
        return output, {"weights": weights, "logsumexp": logsumexp}

    cases.differentiate("sdpa", what, function, inputs, options, fixed={} if mask is None else {"mask": mask}, tolerances=tolerances)


def prefix_mask(lengths, keys):
    return (torch.arange(keys) < torch.tensor(lengths)[:, None])[:, None, None]


def attention_cases(cases, b, h, lq, lk, d, dv):
    def make(what, heads=h, key_heads=h, **options):
        attention_case(cases, what, b, heads, key_heads, lq, lk, d, dv, **options)

    shrinking = [max(1, lk - 2 * i) for i in range(b)]
    make("plain")
    for causal in ("top_left", "bottom_right"):
        make(causal, causal=causal)
        make(f"{causal}_padded", causal=causal, mask=prefix_mask(shrinking, lk))
        make(f"{causal}_window", causal=causal, left=max(0, lk // 3))
    make("scale", scale=-0.7)
    make("window", left=1, right=lk // 2)
    make("only_self", left=0, right=0)
    make("right_padded", mask=prefix_mask(shrinking, lk))
    make("nothing_to_see", mask=prefix_mask([0] + shrinking[1:], lk))
    make("left_padded", causal="bottom_right", mask=prefix_mask(shrinking, lk).flip(-1))
    make("scattered_mask", mask=torch.rand(b, h, lq, lk) < 0.6)
    make("query_mask", mask=torch.rand(1, 1, lq, 1) < 0.6)
    make("grouped", heads=3 * h, causal="bottom_right")
    make("one_key_head", heads=2 * h, key_heads=1)
    make("softcap", softcap=1.5, causal="top_left", spread=2.0)
    for what, shape in {"full": (b, h, lq, lk), "head": (1, h, 1, 1), "query": (b, 1, lq, 1), "key": (1, 1, 1, lk), "one": (1, 1, 1, 1)}.items():
        make(f"bias_{what}", bias_shape=shape)
    make("large_scores", spread=9.0, tolerances={"atol32": "2e-3", "rtol32": "2e-3"})
    make("all_options", heads=2 * h, causal="bottom_right", left=lk // 2, softcap=2.0, scale=0.3, bias_shape=(b, 2 * h, 1, lk),
         mask=prefix_mask(shrinking, lk) & (torch.rand(1, 1, lq, lk) < 0.9))


def random_attention_cases(cases, count):
    for i in range(count):
        b, key_heads, group = random.randint(1, 3), random.randint(1, 3), random.randint(1, 3)
        lq, lk = random.choice([1, 2, 7, 17, 33, 70]), random.choice([1, 3, 8, 31, 65])
        d, dv = random.choice([1, 3, 8, 16, 40, 80]), random.choice([1, 5, 16, 40])
        h = key_heads * group
        extent = lambda n: random.choice([1, n])
        attention_case(
            cases, f"random_{i}", b, h, key_heads, lq, lk, d, dv, causal=random.choice(["none", "top_left", "bottom_right"]),
            scale=random.choice([None, 0.2]), left=random.choice([-1, -1, 0, 3, 100]), right=random.choice([-1, -1, 0, 5]),
            softcap=random.choice([0.0, 0.0, 2.0]), tolerances=LOOSE,
            mask=random.choice([None, torch.rand(extent(b), extent(h), extent(lq), extent(lk)) < 0.8]),
            bias_shape=random.choice([None, (extent(b), extent(h), extent(lq), extent(lk))]))


# ---- operations ------------------------------------------------------------------------------------------------------


def sinusoids(length, width):
    column = torch.arange(width)
    angle = torch.arange(length)[:, None] / 10000.0 ** (column // 2 * 2 / width)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


def operation_cases(cases, b, s, e):
    cases.differentiate("softmax", "3d", lambda x: F.softmax(x, -1), {"x": real(b, s, e + 1, spread=3)})
    cases.differentiate("softmax", "far", lambda x: F.softmax(x, -1), {"x": real(s, e, spread=200, middle=-1e4)},
                        tolerances={"atol32": "1e-4", "rtol32": "1e-3"})
    for eps in (1e-5, 1e-12):
        cases.differentiate("layer_norm", f"eps{eps}", lambda x, weight, bias: F.layer_norm(x, (e,), weight, bias, eps),
                            {"x": real(b, s, e), "weight": real(e), "bias": real(e)}, {"eps": eps},
                            tolerances={} if e > 2 else LOOSE)
    cases.differentiate("rms_norm", "", lambda x, weight: F.rms_norm(x, (e,), weight, 1e-6), {"x": real(b, s, e), "weight": real(e)}, {"eps": 1e-6})
    for kind, function in ACTIVATIONS.items():
        cases.differentiate("activation", kind, lambda x: function(x), {"x": real(s, e, spread=3)}, {"kind": kind})
    cases.differentiate("linear", "", lambda x, weight, bias: F.linear(x, weight, bias),
                        {"x": real(b, s, e), "weight": real(e + 5, e), "bias": real(e + 5)})
    cases.differentiate("linear", "no_bias", lambda x, weight: F.linear(x, weight), {"x": real(b, s, e), "weight": real(1, e)})
    for kind in ACTIVATIONS:
        network, parameters = shake(nn.ModuleDict({"linear1": nn.Linear(e, 2 * e + 1), "linear2": nn.Linear(2 * e + 1, e)}))
        cases.differentiate("feed_forward", kind, lambda x: network["linear2"](ACTIVATIONS[kind](network["linear1"](x))),
                            {"x": real(b, s, e)}, {"activation": kind}, parameters)
    for padding in (-1, 0, 8):
        ids = torch.randint(0, 9, (b, s))
        cases.differentiate("embedding", f"padding{padding}", lambda weight: F.embedding(ids, weight, padding if padding >= 0 else None),
                            {"weight": real(9, e)}, {"padding_idx": padding}, fixed={"ids": ids})
    for ignore, smoothing in ((-100, 0.0), (3, 0.0), (-1, 0.3), (0, 1.0)):
        logits, targets = real(s + 3, e + 3, spread=4), torch.randint(0, e + 3, (s + 3,))
        targets[::3], targets[1] = ignore, 2
        loss = F.cross_entropy(logits, targets, ignore_index=ignore, label_smoothing=smoothing)
        (gradient,) = torch.autograd.grad(loss, logits)
        cases.write("cross_entropy", f"ignore{ignore}_smoothing{smoothing}",
                    {"logits": logits, "targets": targets, "loss": loss[None], "dlogits": gradient},
                    {"ignore_index": ignore, "label_smoothing": smoothing})
    for longest in (s, max(1, s - 1), 4096):
        x = torch.randn(b, s, e)
        cases.write("positional_encoding", f"max{longest}", {"x": x, "output": x + sinusoids(s, e)}, {"kind": "sinusoidal", "max_len": longest})


# ---- layers ----------------------------------------------------------------------------------------------------------


def self_attention_cases(cases, b, s, e, d, dv):
    masks = {"all": None, "padded": torch.arange(s) < torch.tensor([max(1, s - i) for i in range(b)])[:, None],
             "pairs": torch.rand(b, s, s) < 0.5}
    for what, mask in masks.items():
        for with_output in (False, True):
            parts = {"W_Q": nn.Linear(e, d), "W_K": nn.Linear(e, d), "W_V": nn.Linear(e, dv)}
            if with_output:
                parts["W_O"] = nn.Linear(dv, e)
            layer, parameters = shake(nn.ModuleDict(parts))
            allowed = torch.ones(1, 1, 1, s, dtype=torch.bool) if mask is None else mask.reshape(b, 1, -1, s)

            def function(x):
                heads = [layer[name](x).unsqueeze(1) for name in ("W_Q", "W_K", "W_V")]
                output, weights, _ = attend(*heads, allowed)
                output = output.squeeze(1)
                return (layer["W_O"](output) if with_output else output), {"weights": weights.squeeze(1)}

            cases.differentiate("self_attention", what + ("_output" if with_output else ""), function, {"x": real(b, s, e)},
                                parameters=parameters, fixed={} if mask is None else {"mask": mask})


def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def multihead(p, prefix, heads, query, key, value, allowed):
    """nn.MultiheadAttention by its parameters, with zeros for queries that see nothing."""
    weight, bias = p[f"{prefix}in_proj_weight"].chunk(3), p[f"{prefix}in_proj_bias"].chunk(3)
    projected = [split(F.linear(x, weight[i], bias[i]), heads) for i, x in enumerate((query, key, value))]
    output, weights, _ = attend(*projected, allowed)
    return F.linear(output.transpose(1, 2).flatten(2), p[f"{prefix}out_proj.weight"], p[f"{prefix}out_proj.bias"]), weights


def multihead_cases(cases, b, h, s, lk, e):
    def make(what, cross, mask=None, causal="none"):
        module, parameters = shake(nn.MultiheadAttention(e, h, batch_first=True))
        keys = lk if cross else s
        inputs = {"query": real(b, s, e)}
        if cross:
            inputs |= {"key": real(b, keys, e), "value": real(b, keys, e)}
        allowed = (visible(s, keys, causal) if mask is None else visible(s, keys, causal) & mask).expand(b, h, s, keys)

        def function(query, key=None, value=None):
            key, value = (query, query) if key is None else (key, value)
            output, weights = multihead(parameters, "", h, query, key, value, allowed)
            if allowed.any(-1).all():
                theirs, average = module(query, key, value, attn_mask=~allowed.flatten(0, 1))
                torch.testing.assert_close((output, weights.mean(1)), (theirs, average))
            return output, {"weights": weights, "average_weights": weights.mean(1)}

        cases.differentiate("multihead_attention", what, function, inputs, {"num_heads": h, "causal": causal}, parameters,
                            fixed={} if mask is None else {"mask": mask})

    make("self", False)
    make("self_causal_padded", False, prefix_mask([max(1, s - i) for i in range(b)], s), "top_left")
    make("self_bottom_right", False, causal="bottom_right")
    make("self_blind", False, prefix_mask([0] + [s] * (b - 1), s))
    make("cross", True)
    make("cross_masked", True, torch.rand(b, 1, s, lk) < 0.7)
    make("cross_bottom_right", True, causal="bottom_right")


def encoder_layer(p, prefix, x, heads, allowed, pre_norm, activation, eps):
    def norm(i, y):
        return F.layer_norm(y, y.shape[-1:], p[f"{prefix}norm{i}.weight"], p[f"{prefix}norm{i}.bias"], eps)

    def attention(y):
        return multihead(p, f"{prefix}self_attn.", heads, y, y, y, allowed)[0]

    def feed_forward(y):
        y = ACTIVATIONS[activation](F.linear(y, p[f"{prefix}linear1.weight"], p[f"{prefix}linear1.bias"]))
        return F.linear(y, p[f"{prefix}linear2.weight"], p[f"{prefix}linear2.bias"])

    if pre_norm:
        x = x + attention(norm(1, x))
        return x + feed_forward(norm(2, x))
    x = norm(1, x + attention(x))
    return norm(2, x + feed_forward(x))


def encoder_cases(cases, b, h, s, e):
    def make(what, hidden, pre_norm=False, activation="relu", eps=1e-5, mask=None, causal="none", layers=0, final_norm=False):
        one = lambda: nn.TransformerEncoderLayer(e, h, hidden, 0.0, ACTIVATIONS[activation], eps, batch_first=True, norm_first=pre_norm)
        if layers:
            last = nn.LayerNorm(e, eps) if final_norm else None
            module, p = shake(nn.TransformerEncoder(one(), layers, last, enable_nested_tensor=False))
        else:
            module, p = shake(one())
        allowed = (visible(s, s, causal) if mask is None else visible(s, s, causal) & mask).expand(b, h, s, s)

        def function(x):
            y = x
            for prefix in [f"layers.{i}." for i in range(layers)] or [""]:
                y = encoder_layer(p, prefix, y, h, allowed, pre_norm, activation, eps)
            if final_norm:
                y = F.layer_norm(y, (e,), p["norm.weight"], p["norm.bias"], eps)
            if allowed.any(-1).all():
                torch.testing.assert_close(y, module(x, ~allowed.flatten(0, 1)))
            return y

        options = {"num_heads": h, "norm_first": int(pre_norm), "activation": activation, "eps": eps, "causal": causal}
        if layers:
            options |= {"num_layers": layers, "final_norm": int(final_norm)}
        cases.differentiate("encoder" if layers else "encoder_layer", what, function, {"x": real(b, s, e)}, options, p,
                            fixed={} if mask is None else {"mask": mask}, tolerances=LOOSE)

    padded = prefix_mask([max(1, s - i) for i in range(b)], s)
    for pre_norm, order in ((False, "post"), (True, "pre")):
        make(f"{order}", 2 * e, pre_norm)
        make(f"{order}_padded", e + 1, pre_norm, "gelu", 1e-12 if e > 4 else 1e-5, padded)
        make(f"{order}_causal", 3 * e, pre_norm, "gelu_tanh", causal="top_left", mask=padded)
        make(f"{order}_scattered", 4 * e, pre_norm, "silu", mask=torch.rand(1, h, s, s) < 0.8)
        make(f"{order}_stack", 2 * e, pre_norm, layers=2, mask=padded)
        make(f"{order}_stack_final_norm", 2 * e, pre_norm, "gelu", layers=3, final_norm=True, causal="top_left")


def classifier_cases(cases, b, h, s, e):
    for layers, classes, vocabulary in ((1, 2, 7), (2, 5, 23)):
        layer = nn.TransformerEncoderLayer(e, h, 4 * e, 0.0, "relu", batch_first=True)
        module, p = shake(nn.ModuleDict({"embedding": nn.Embedding(vocabulary, e),
                                         "encoder": nn.TransformerEncoder(layer, layers, enable_nested_tensor=False),
                                         "classifier": nn.Linear(e, classes)}))
        ids = torch.randint(1, vocabulary, (b, s)) * (torch.arange(s) < torch.tensor([max(1, s - 2 * i) for i in range(b)])[:, None])
        targets = torch.randint(0, classes, (b,))
        x = module["embedding"](ids) + sinusoids(s, e)
        for i in range(layers):
            x = encoder_layer(p, f"encoder.layers.{i}.", x, h, (ids != 0)[:, None, None], False, "relu", 1e-5)
        logits = module["classifier"](x[:, 0])
        loss = F.cross_entropy(logits, targets)
        gradients = torch.autograd.grad(loss, list(p.values()))
        cases.write("text_classifier", f"{layers}_layers",
                    {"ids": ids, "targets": targets, **p, "logits": logits, "loss": loss[None],
                     **{f"grad:{name}": gradient for name, gradient in zip(p, gradients)}},
                    {"num_heads": h, "num_layers": layers, "padding_idx": 0, "pooling": "first"}, LOOSE)


# ---- training --------------------------------------------------------------------------------------------------------


def optimizer_cases(cases, count):
    settings = {"plain": {}, "decay": {"weight_decay": 0.05}, "other_rates": {"beta1": 0.5, "beta2": 0.9, "eps": 1e-4},
                "no_momentum": {"beta1": 0.0, "lr": 0.1}}
    for decoupled in (0, 1):
        for what, changed in settings.items():
            o = {"lr": 3e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, **changed}
            start, grads = torch.randn(count), torch.randn(6, count) * 10.0 ** torch.randint(-4, 3, (count,))
            grads[:, 0] = 0
            parameter = nn.Parameter(start.clone())
            make = torch.optim.AdamW if decoupled else torch.optim.Adam
            optimizer = make([parameter], o["lr"], (o["beta1"], o["beta2"]), o["eps"], o["weight_decay"])
            for parameter.grad in grads:
                optimizer.step()
            cases.write("adam", what + ("_decoupled" if decoupled else ""), {"param": start, "grads": grads, "result": parameter},
                        {**o, "decoupled": decoupled, "steps": len(grads)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", type=int, default=20, help="attention cases with random options")
    parser.add_argument("--sizes", nargs="*", default=["2,2,7,9,3,5,6,8", "1,1,33,17,40,80,17,10", "3,3,1,2,1,1,2,6"])
    arguments = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    random.seed(arguments.seed)
    written = 0
    for number, text in enumerate(arguments.sizes):
        b, h, lq, lk, d, dv, s, e = map(int, text.split(","))
        cases = Cases(arguments.directory, f"set{number}")
        operation_cases(cases, b, s, e)
        attention_cases(cases, b, h, lq, lk, d, dv)
        self_attention_cases(cases, b, s, e, d, dv)
        multihead_cases(cases, b, h, s, lk, e)
        encoder_cases(cases, b, h, s, e)
        classifier_cases(cases, b, h, s, e)
        optimizer_cases(cases, e + 3)
        written += cases.written
    cases = Cases(arguments.directory, "any")
    random_attention_cases(cases, arguments.random)
    print(written + cases.written, "cases in", arguments.directory)


if __name__ == "__main__":
    main()
