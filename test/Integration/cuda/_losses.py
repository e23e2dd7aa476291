"""Many training steps with new data in each: data, and the losses to expect.

`exact` is a perceptron in f32 whose every number is a small multiple of 1/16: a
simulation in integers chooses the targets so that it stays so. Any order of sums has
the same bits, and each loss tells whether all updates before it were right.

`gpt` is a language model on tokens of which a few are frequent and each depends on
the one before: there is much to learn, and ranks that do not learn together end apart.
"""

import sys

import numpy as np

RANKS = 2
STEPS = 100
EXACT = ("mlp --batch 8 --features 12 --hidden 8 --layers 1 --classes 8 --activation relu --loss mse --optimizer sgd "
         "--momentum 0 --weight-decay 0 --clip 0")
SMALL = "gpt --batch 8 --seq 32 --hidden 64 --layers 2 --heads 1 --vocab 256"
GPT = "--untied --dtype bf16 --parameter-dtype bf16 --clip 0 --weight-decay 0.01 --beta2 0.999"
LARGEST = 4  # of a weight, where that can be had


def models(*words):
    """Writes a model. The compiler's Python package must be there."""
    from _support import ROOT
    sys.path.insert(0, str(ROOT / "python"))
    from fusion_compiler.models.cli import models as write
    write([*map(str, words)])


def inputsOf(folder):
    return [word for path in sorted(folder.glob("*.npy")) for word in ("--input", f"{path.stem}={path}")]


def save(folder, arrays):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


def _step(p, x, e):
    """The parameters after a step whose outputs are wrong by `e`, and the outputs; at a rate of the batch's size."""
    a = x @ p["layers.0.weight"] + p["layers.0.bias"]
    h = np.maximum(a, 0)
    y = h @ p["layers.1.weight"] + p["layers.1.bias"]
    back = (e @ p["layers.1.weight"].T) * (a > 0)
    return {"layers.0.weight": p["layers.0.weight"] - x.T @ back, "layers.0.bias": p["layers.0.bias"] - back.sum(0),
            "layers.1.weight": p["layers.1.weight"] - h.T @ e, "layers.1.bias": p["layers.1.bias"] - e.sum(0)}, y


def exact(steps=STEPS, batch=8, features=12, hidden=8, classes=8):
    """The first parameters, the data of all steps, and what comes of them: the last parameters, the losses."""
    random = np.random.default_rng(5)
    shapes = {"layers.0.weight": (features, hidden), "layers.0.bias": (hidden,), "layers.1.weight": (hidden, classes),
              "layers.1.bias": (classes,)}
    p = first = {name: random.integers(-1, 2, shape) for name, shape in shapes.items()}
    data = {"x": [], "targets": []}
    losses = []
    for _ in range(steps):
        found = []
        for number in range(16):
            # Few numbers that are not 0, or weights grow from step to step.
            x = np.where(random.random((batch, features)) < 0.2, random.integers(-1, 2, (batch, features)), 0)
            e = np.zeros((batch, classes), int)
            for half in range(RANKS):
                wrong = random.integers(1, 4)
                rows = half * batch // RANKS + random.integers(0, batch // RANKS, wrong)
                e[rows, random.integers(0, classes, wrong)] = random.choice((-1, 1), wrong)
            after, y = _step(p, x, e)
            # Every rank has something to add to each parameter.
            parts = np.split(np.arange(batch), RANKS)
            idle = sum(not np.any(_step(p, x[part], e[part])[0][name] != p[name]) for name in p for part in parts)
            size = max(np.abs(each).max() for each in after.values())
            found.append((max(size, LARGEST), idle, sum((each**2).sum() for each in after.values()), number, x, y - e,
                          after, (e * e).sum()))
        *_, x, targets, p, squares = min(found, key=lambda each: each[:4])
        data["x"].append(x)
        data["targets"].append(targets)
        losses.append(squares / (2 * batch))
    # What lies between the bits of an f32: terms of any sum, in sixteenths.
    largest = max(np.abs(each).max() for each in data["targets"])
    if not largest * 16 * hidden * batch < 2**24:
        raise SystemExit(f"the steps are not exact in f32: an output is {largest}")
    return ({name: each.astype("f4") for name, each in first.items()},
            {**{name: np.stack(each).astype("f4") for name, each in data.items()}, "lr": np.full(steps, batch, "f4")},
            {**{name: each.astype("f4") for name, each in p.items()}, "loss": np.array(losses, "f4")})


def tokens(steps, batch, length, vocab, seed=7):
    """Sequences whose next token is, mostly, a function of the token before; the first ones are the most frequent."""
    random = np.random.default_rng(seed)
    odds = 1 / np.arange(1, vocab + 1)
    follows = random.permutation(vocab)
    drawn = random.choice(vocab, (steps, batch, length), p=odds / odds.sum())
    result = drawn.copy()
    for i in range(1, length):
        result[..., i] = np.where(random.random((steps, batch)) < 0.5, follows[result[..., i - 1]], drawn[..., i])
    return result


def language(steps, batch, length, vocab, rate):
    """Tokens, labels, step numbers and rates, which rise at first, of all steps."""
    drawn = tokens(steps, batch, length + 1, vocab)
    number = np.arange(1, steps + 1)
    return {"tokens": drawn[..., :-1].astype("i8"), "labels": drawn[..., 1:].astype("i8"), "step": number.astype("i8"),
            "lr": (rate * np.minimum(number / 20, 1)).astype("f4")}


def prepareSmall(folder, steps=STEPS):
    """Model, its step in halves, and inputs of the small language model, all of a step's and of all steps."""
    folder.mkdir(parents=True)
    models(*SMALL.split(), *GPT.split(), "-o", folder / "m.mlir", "--write-inputs", folder / "in")
    models(*SMALL.split(), *GPT.split(), "--micro-batches", RANKS, "-o", folder / "halves.mlir")
    save(folder / "in", language(steps, 8, 32, 256, 1e-3))


def prepareExact(folder):
    """Model, inputs and what to expect of the exact perceptron."""
    folder.mkdir(parents=True)
    models(*EXACT.split(), "-o", folder / "m.mlir")
    first, data, want = exact()
    save(folder / "in", {**first, **data})
    save(folder / "want", want)


def checkExact(name, wanted, results, checks):
    """Every result of every step: `results` are folders, one a rank."""
    wrong = [f"{out.name} {path.stem}" for out in results for path in sorted(wanted.glob("*.npy"))
             if not np.array_equal(np.load(path), np.load(out / path.name))]
    losses = np.load(wanted / "loss.npy")
    checks.check(f"{name}: the losses of {losses.size} steps and the last parameters, bit for bit", not wrong,
                 " ".join(wrong)[:300])


def checkNear(name, one, halves, results, checks):
    """The losses of ranks against those of one device on the whole batch, and the ranks' parameters against each other.

    A gradient in bf16 is rounded where it is computed, and after its sum: two roundings, of 2^-9 each, that one device
    has not. To first order a step's gain is off by as large a share, and the gains end as the loss. What one step
    rounds otherwise the next ones amplify: by how much tells a control, one device that takes the batch in as many
    parts as there are ranks (`halves`). Up to each step ranks may be off by that share and twice what the control was.
    """
    want = np.load(one / "loss.npy").astype("f8")
    control = np.maximum.accumulate(np.abs(np.load(halves / "loss.npy").astype("f8") - want) / want)
    got = [np.load(out / "loss.npy").astype("f8") for out in results]
    worst = max(float(np.max(np.abs(each - want) / want)) for each in got)
    first = max(float(abs(each[0] - want[0]) / want[0]) for each in got)
    checks.check(f"{name}: losses of {want.size} steps as on one device",
                 all(each.shape == want.shape and np.all(np.abs(each - want) / want <= 2**-8 + 2 * control) for each in got),
                 f"{want[0]:.4f} to {want[-1]:.4f}; relative difference at most {worst:.1e}, {first:.1e} in the first "
                 f"step; of the batch in parts at most {control[-1]:.1e}")
    checks.check(f"{name}: something was learned", want[-1] < 0.9 * want[0], f"{want[0]:.4f} to {want[-1]:.4f}")
    apart = [path.stem for path in sorted(results[0].glob("*.npy"))
             if any(not np.array_equal(np.load(path), np.load(out / path.name)) for out in results[1:])]
    checks.check(f"{name}: all ranks end with the same parameters, moments and losses", not apart, " ".join(apart)[:300])
