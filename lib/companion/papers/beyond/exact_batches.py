"""Exact batches: who rebuilds a whole batch from the first layer of a ReLU network, and when."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import nn

from companion.exhibit import *
from companion.exhibit import BLACK, constant
from reconrisk import attacks, bounds, datasets
from reconrisk.mechanisms import Released
from reconrisk.metrics import match

_OURS = "our own exhibit"
PARAMETERS = {
    "digits": Parameter("str", "MNIST-5000", "MNIST-5000", _OURS, "labelled data set of digits"),
    "width": Parameter("int", 400, 1000, _OURS, "units of a hidden layer", low=64),
    "batch_sizes": Parameter(
        "ints", (1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 24, 32, 48), _OURS, "records", low=1
    ),
    "sampled_size": Parameter("int", 8, 16, _OURS, "largest batch attacked by sampling", low=1),
    "matched_size": Parameter("int", 4, 8, _OURS, "largest batch of gradient matching", low=1),
    "draws": Parameter("int", 2, 10, _OURS, "batches with a network each", low=2),
    "widths": Parameter(
        "ints", (4, 8, 16, 24, 64), (4, 6, 8, 10, 12, 16, 24, 32, 64), _OURS, "units", low=2
    ),
    "width_draws": Parameter("int", 8, 100, _OURS, "batches at each of these widths", low=5),
    "choices": Parameter("int", 20_000, 400_000, _OURS, "choices of rows that are drawn", low=1000),
    "noises": Parameter(
        "floats",
        (1e-3, 3e-2, 1.0),
        (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0),
        _OURS,
        "noise over that at which the least singular value disappears",
        1e-9,
    ),
    "iterations": Parameter("int", 50, 1000, _OURS, "steps of gradient matching", low=10),
}
SETTLES = tuple(f"O-{k}" for k in range(110, 116))
#: records of a batch where something else is varied
COUNT = 4
#: root mean squared error in pixel values that is rounding; smaller ones are stored as _LEAST
EXACT, _LEAST = 1e-6, 1e-9
#: how near errors come to the floor, relative
FLOOR = 0.25
#: share of the choices in a column's zeros that determine it at least
LEAST_SHARE = 0.4
#: noise over the threshold up to which every batch comes back, and from which none does
EASY, HOPELESS = 0.03, 1.0
DESCENT, SAMPLING = "sparse, descent", "sparse, sampling"
RATIO, COMPONENTS, MATCHING = "layer ratio", "independent components", "gradient matching"
_LOOK = {
    DESCENT: (BLUE, "o"),
    SAMPLING: (GREEN, "s"),
    RATIO: (ORANGE, "^"),
    COMPONENTS: (PURPLE, "v"),
    MATCHING: (GREY, "D"),
}


ALTERED = {
    "batches": {"rmse": by("method", "errors")},
    "mixture": {"residual": "residuals of mixtures"},
    "hits": {
        "hits": "shares of choices that determine a column",
        "zero": "shares of choices among a column's zeros",
    },
    "widths": {"exact": "shares of exact batches"},
    "clipped": {"change": at("by == 'record'", "changes by clipping")},
    "noise": {"rmse": at(f"noise <= {EASY}", "errors under little noise")},
}
SCENARIOS = (
    scenario(
        "a certificate for a sigmoid network",
        column("controls", "certified", constant(1.0), "case == 'sigmoid'"),
        "O-111",
    ),
    scenario(
        "a certified batch that is wrong",
        column("controls", "rmse", constant(0.3), "case == 'two classes'"),
        "O-111",
    ),
    scenario(
        "clipping by tensor that goes unnoticed",
        column("clipped", "certified", constant(1.0), "by != 'record'"),
        "O-114",
    ),
    scenario(
        "batches that survive any noise",
        column("noise", "certified", constant(1.0), f"noise >= {HOPELESS}"),
        "O-115",
    ),
)


# One batch ---------------------------------------------------------------------------------------


def draw_batch(
    task: Mapping[str, Any],
    *,
    classes: int = 10,
    hidden: int = 2,
    activation: type[nn.Module] = nn.ReLU,
    biases: bool = True,
) -> dict[str, Any]:
    """A batch of digits, a random network, and the gradient of its mean cross-entropy.

    Weights and biases are uniform within ``1 / sqrt(fan in)``, or the first layer's biases zero.
    ``signals`` are the loss's derivatives in the first layer's outputs, (width, size).
    """
    data = datasets.classified(task["digits"], task["folder"] or None, "all")
    rng = np.random.default_rng(task["seeds"]["records"])
    size = task["size"]
    rows = rng.permutation(len(data.inputs))[:size]
    inputs = torch.as_tensor(data.inputs[rows].reshape(size, -1), dtype=torch.float64)
    labels = torch.as_tensor(np.asarray(data.labels)[rows]).long() % classes
    generator = _generator(task, "network")
    sizes, layers = [inputs.shape[1], *[task["width"]] * hidden, classes], []
    for columns, units in zip(sizes, sizes[1:], strict=False):
        layer = nn.Linear(columns, units, dtype=torch.float64, device="meta").to_empty(device="cpu")
        with torch.no_grad():
            for values in layer.parameters():
                values.uniform_(-(columns**-0.5), columns**-0.5, generator=generator)
        layers += [layer, activation()]
    network = nn.Sequential(*layers[:-1])
    if not biases:
        nn.init.zeros_(network[0].bias)
    outputs = network[0](inputs)
    loss = nn.functional.cross_entropy(network[1:](outputs), labels)
    tensors = (outputs, *network.parameters())
    signals, *gradient = torch.autograd.grad(loss, tensors)
    return {
        "inputs": inputs,
        "labels": labels,
        "network": network,
        "signals": signals.T,
        "gradient": dict(zip(dict(network.named_parameters()), gradient, strict=True)),
        "layer": (network[0].weight.detach(), network[0].bias.detach()),
    }


def _task(
    study: Context, size: int, width: int, key: tuple[object, ...], **more: Any
) -> dict[str, Any]:
    """What a batch, a network and the attacks on them are drawn by."""
    seeds = {name: study.seed_of(name, *key) for name in ("records", "network")}
    seeds |= {name: study.seed_of(name) for name in ("attack", "components", "matching")}
    digits = study.parameters.digits
    return {
        "digits": digits,
        "folder": data_folder(study, digits),
        "size": size,
        "width": width,
        "seeds": seeds,
        **more,
    }


def _generator(task: Mapping[str, Any], name: str) -> torch.Generator:
    return torch.Generator().manual_seed(task["seeds"][name])


def rmse(inputs: torch.Tensor, found: torch.Tensor) -> float:
    """Root mean squared error in the best order, not below what rounding leaves."""
    return max(float(match(as_numpy(inputs), as_numpy(found)).mse) ** 0.5, _LEAST)


def _sparse(task: Mapping[str, Any], drawn: dict[str, Any], gradient=None, **settings: Any):
    """The attack on the first layer's gradient, by default the batch's."""
    if gradient is None:
        gradient = drawn["gradient"]["0.weight"], drawn["gradient"]["0.bias"]
    generator = _generator(task, "attack")
    return attacks.sparse_batch_attack(*gradient, *drawn["layer"], generator=generator, **settings)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    return Tables(
        {
            "batches": _batches(study),
            "controls": pd.DataFrame(_controls(study)),
            "mixture": pd.DataFrame([_mixture(study)]),
            "hits": pd.DataFrame(_hits(study)),
            "widths": _widths(study),
            "clipped": pd.DataFrame(_clipped(study)),
            "noise": _noisy(study),
        },
        subsets=(MNIST,),
        ran=f"{p.draws} batches at each of {len(p.batch_sizes)} sizes through networks of two "
        f"hidden layers of {p.width} ReLU units, and {p.width_draws} batches of {COUNT} at each of "
        f"{len(p.widths)} widths of one hidden layer.",
    )


def _joined(parts: list[list[dict[str, Any]]]) -> pd.DataFrame:
    return pd.DataFrame([row for rows in parts for row in rows])


def _batches(study: Context) -> pd.DataFrame:
    p = study.parameters
    tasks = [
        _task(
            *(study, size, p.width, ("batch", size, draw)),
            draw=draw,
            sampled=size <= p.sampled_size,
            iterations=p.iterations if size <= p.matched_size else 0,
        )
        for size in p.batch_sizes
        for draw in range(p.draws)
    ]
    return _joined(study.sweep(attack_batch, tasks, "batches without noise"))


def attack_batch(task: dict[str, Any]) -> list[dict[str, Any]]:
    drawn, size = draw_batch(task), task["size"]
    rows = []
    for name, found in _rebuilt(task, drawn, size):
        error = 1.0 if found is None else rmse(drawn["inputs"], found)
        rows.append({"method": name, "size": size, "draw": task["draw"], "rmse": error})
    return rows


def _rebuilt(task: Mapping[str, Any], drawn: dict[str, Any], size: int):
    """Names of methods and the records they return, None if they refuse to."""
    gradient, inputs = drawn["gradient"], drawn["inputs"]
    weights, biases = gradient["0.weight"], gradient["0.bias"]
    yield DESCENT, _sparse(task, drawn).inputs
    if task["sampled"]:
        yield SAMPLING, _sparse(task, drawn, search="sampling").inputs
    yield RATIO, attacks.layer_ratio(weights[None], biases[None]).expand(size, -1)
    parts = attacks.unmix(weights[None], size, generator=_generator(task, "components"))
    yield COMPONENTS, attacks.stretch(parts.sources[0])
    if task["iterations"]:
        found = attacks.invert_updates(
            drawn["network"],
            Released({name: g[None] for name, g in gradient.items()}),
            attacks.Knowledge(drawn["labels"][None], (inputs.shape[1],)),
            generator=_generator(task, "matching"),
            objective=attacks.Objective(total_variation=0.0),
            iterations=task["iterations"],
        )
        yield MATCHING, found.inputs[0]


def _controls(study: Context) -> Iterator[dict[str, Any]]:
    """Cases in which zeros are missing, or others have more of them."""
    cases = {"sigmoid": {"activation": nn.Sigmoid}, "two classes": {"classes": 2, "hidden": 1}}
    for case, given in cases.items():
        task = _task(study, COUNT, study.parameters.width, ("control", case))
        drawn = draw_batch(task, **given)
        found = _sparse(task, drawn, search="sampling", trials=50_000)
        error = math.inf if found.inputs is None else rmse(drawn["inputs"], found.inputs)
        yield {"case": case, "certified": float(found.certified), "rmse": min(error, 1.0)}


def _mixture(study: Context) -> dict[str, float]:
    """A random mixture of the records and what it leaves of the gradient unexplained."""
    drawn = draw_batch(_task(study, COUNT, study.parameters.width, ("control", "mixture")))
    mixing = torch.as_tensor(study.rng("mixture").standard_normal((COUNT, COUNT)))
    mixed = torch.linalg.solve(mixing, drawn["inputs"])
    whole = drawn["signals"] @ drawn["inputs"]
    residual = (drawn["signals"] @ mixing @ mixed - whole).norm() / whole.norm()
    error, least = rmse(drawn["inputs"], mixed), max(float(residual), 1e-14)
    return {"rmse": error, "residual": least}


def _hits(study: Context) -> Iterator[dict[str, Any]]:
    """How often random rows are zero in a column and determine it, and the law."""
    p = study.parameters
    for size in (2, 4, 6, 8):
        drawn = draw_batch(_task(study, size, p.width, ("hits", size)))
        signals = as_numpy(drawn["signals"])
        alive = signals[np.any(signals != 0, axis=1)] / np.abs(signals).max(axis=0)
        rng, hits = study.rng("rows", size), 0
        rows = rng.integers(len(alive), size=(p.choices, size - 1))
        ordered = np.sort(rows, axis=1)
        rows = rows[np.all(np.diff(ordered, axis=1) > 0, axis=1)]
        zero = np.all(alive[rows] == 0, axis=1)
        for k in range(size):
            # the other columns' rank on these rows decides whether the vector is the column
            others = np.delete(alive[rows[zero[:, k]]], k, axis=2)
            hits += int((np.linalg.matrix_rank(others) == size - 1).sum())
        zeros = (alive == 0).sum(axis=0)
        law = attacks.sparse_hit_probability(zeros, len(alive), size)
        share = hits / len(rows)
        yield {
            "size": size,
            "hits": share,
            "standard error": math.sqrt(share * (1 - share) / len(rows)),
            "law": float(law.sum()),
            "zero": float(zero.mean(axis=0).sum()),
            "expected trials": attacks.expected_sparse_trials(law),
        }


def _widths(study: Context) -> pd.DataFrame:
    p = study.parameters
    tasks = [
        _task(study, COUNT, width, ("width", width, draw))
        for width in p.widths
        for draw in range(p.width_draws)
    ]
    found = pd.DataFrame(study.sweep(attack_one_layer, tasks, "batches through one hidden layer"))
    return found.groupby("width", as_index=False)[["determined", "exact"]].mean()


def attack_one_layer(task: dict[str, Any]) -> dict[str, Any]:
    drawn = draw_batch(task, hidden=1)
    zeros = attacks.determined_by_zeros(as_numpy(drawn["signals"]))
    found = _sparse(task, drawn, search="sampling", trials=4000).inputs
    exact = found is not None and len(found) == task["size"]
    return {
        "width": task["width"],
        "determined": float(zeros.all()),
        "exact": float(exact and rmse(drawn["inputs"], found) < EXACT),
    }


def _clipped(study: Context) -> Iterator[dict[str, Any]]:
    """The same batch with records' gradients of the layer clipped, together or by tensor."""
    task = _task(study, COUNT, study.parameters.width, ("clipped",))
    for by_tensor, biases in ((False, True), (True, True), (True, False)):
        drawn = draw_batch(task, biases=biases)
        x, d = drawn["inputs"], drawn["signals"]
        weight, bias = d.norm(dim=0) * x.norm(dim=1), d.norm(dim=0)
        both = (weight.square() + bias.square()).sqrt()
        # every record is clipped, to the norm one
        lengths = (weight, bias) if by_tensor else (both, both)
        g = (d / lengths[0]) @ x, (d / lengths[1]).sum(dim=1)
        found = _sparse(task, drawn, g, trials=256)
        free = _sparse(task, drawn, g, trials=256, least_agreement=0.0).inputs
        plain = _sparse(task, drawn).inputs
        yield {
            "by": ("tensor" if by_tensor else "record") + ("" if biases else ", no biases"),
            "certified": float(found.certified),
            "change": 1.0 if free is None or plain is None else rmse(plain, free),
        }


def _noisy(study: Context) -> pd.DataFrame:
    """Errors under noise beside the Cramer-Rao floor of who knows the signals."""
    p = study.parameters
    tasks = [
        _task(
            *(study, COUNT, p.width, ("noisy", draw)),
            draw=draw,
            noises=list(p.noises),
            noise=study.seed_of("noise", draw),
        )
        for draw in range(p.draws)
    ]
    return _joined(study.sweep(attack_under_noise, tasks, "batches under noise"))


def attack_under_noise(task: dict[str, Any]) -> list[dict[str, Any]]:
    drawn = draw_batch(task)
    d, g = drawn["signals"], drawn["gradient"]
    whole = torch.cat([g["0.weight"], g["0.bias"][:, None]], dim=1)
    limit = float(torch.linalg.svdvals(whole)[COUNT - 1]) / whole.numel() ** 0.25
    norms = d.norm(dim=0) * (drawn["inputs"].square().sum(dim=1) + 1).sqrt()
    information = bounds.gradient_information([(np.zeros(len(d)), as_numpy(d))])
    unit = torch.Generator().manual_seed(task["noise"])
    noise = torch.randn(whole.shape, generator=unit, dtype=whole.dtype)
    rows = []
    for share in task["noises"]:
        std = share * limit
        seen = whole + std * noise
        found = _sparse(task, drawn, (seen[:, :-1], seen[:, -1]), noise_std=std, trials=256)
        # the floor is the same for all values of a record: one value of each is enough
        floor = bounds.cramer_rao_error(information, std, np.zeros((COUNT, 1)))
        rows.append(
            {
                "draw": task["draw"],
                "noise": share,
                "noise multiplier": std / float(norms.max()),
                "certified": float(found.certified),
                "rmse": 1.0 if found.inputs is None else rmse(drawn["inputs"], found.inputs),
                "floor": float(floor),
            }
        )
    return rows


def judge(tables: Tables) -> Iterator[Verdict]:
    batches = tables["batches"]
    exact = batches.assign(exact=batches["rmse"] < EXACT).pivot_table(
        index="size", columns="method", values="exact"
    )
    several = exact[exact.index > 1]
    rivals = several[[RATIO, COMPONENTS]].to_numpy()
    matched = batches.query("method == @MATCHING and size > 1")["rmse"]
    yield from shared_by(
        check(
            "O-110",
            bool((exact[DESCENT] == 1).all() and (exact[SAMPLING].dropna() == 1).all())
            and bool(exact.loc[1, RATIO] == 1 and (rivals == 0).all()),
            ours=f"all of {exact.index.max()} records and fewer by descent, of "
            f"{exact[SAMPLING].dropna().index.max()} and fewer by sampling; matching the whole "
            f"gradient leaves {matched.min():.1g} to {matched.max():.1g} after "
            f"{tables.parameters.iterations} iterations",
            tolerance=f"RMSE below {EXACT:g} of the range of pixels",
        ),
        "beyond/exact_batches",
    )
    yield _certificate(tables)
    yield _law(tables)
    yield _by_width(tables)
    clipped = tables["clipped"].set_index("by")
    yield check(
        "O-114",
        bool(clipped.loc["record", "certified"] == 1 and clipped.loc["record", "change"] < EXACT)
        and bool((clipped["certified"].drop("record") == 0).all()),
        ours=f"RMSE between both below {EXACT:g}; by "
        + ", by ".join(
            f"{by} {change:.2f}" for by, change in clipped["change"].drop("record").items()
        ),
        tolerance=f"{EXACT:g}",
    )
    yield _under_noise(tables)


def _certificate(tables: Tables) -> Verdict:
    cases = tables["controls"].set_index("case")
    two, sigmoid = cases.loc["two classes"], cases.loc["sigmoid"]
    mixture = tables["mixture"].iloc[0]
    return check(
        "O-111",
        bool(mixture["residual"] < 1e-10 and mixture["rmse"] > 0.01)
        and bool(two["certified"] == 1 and two["rmse"] < EXACT and sigmoid["certified"] == 0),
        ours=f"the mixture is off by {mixture['rmse']:.2f}, its residual below 1e-10",
    )


def _law(tables: Tables) -> Verdict:
    hits = tables["hits"]
    share, error = (hits[name] / hits["zero"] for name in ("hits", "standard error"))
    last = hits.iloc[-1]
    return check(
        "O-112",
        bool((share - 2 * error > LEAST_SHARE).all()),
        ours=f"{share.min():.0%} to {share.max():.0%}; at b = {last['size']:.0f} all columns take "
        f"about {last['expected trials']:.0f} choices if all of them did",
        tolerance="2 standard errors",
    )


def _by_width(tables: Tables) -> Verdict:
    widths = tables["widths"]
    narrow, wide = widths["width"] <= COUNT, widths["width"] >= 6 * COUNT
    return check(
        "O-113",
        bool((widths["exact"][narrow] == 0).all() and (widths["determined"][narrow] == 0).all())
        and bool((widths["exact"][wide] >= 0.75).all())
        and bool(((widths["exact"] - widths["determined"]).abs() <= 0.25).all()),
        ours="; ".join(
            f"{row.width:.0f} units: {row.exact:.0%} exact, {row.determined:.0%} determined"
            for row in widths.itertuples()
        ),
        tolerance="a quarter of the batches",
    )


def _under_noise(tables: Tables) -> Verdict:
    noise = tables["noise"]
    easy, hopeless = noise[noise["noise"] <= EASY], noise[noise["noise"] >= HOPELESS]
    # without the records' scales: their error adds the mean square of a pixel
    ratio = (easy["rmse"] / easy["floor"]).groupby(easy["noise"]).mean()
    return check(
        "O-115",
        bool((easy["certified"] == 1).all() and (hopeless["certified"] == 0).all())
        and bool(((ratio - 1).abs() < FLOOR).all()),
        ours=f"{ratio.min():.2f} to {ratio.max():.2f} times the floor; the whole is a noise "
        f"multiplier of {hopeless['noise multiplier'].min():.1g} or more for one step",
        tolerance=f"{FLOOR:.0%}",
    )


def caption(tables: Tables) -> str:
    largest = tables["batches"]["size"].max()
    return (
        f"Left: root mean squared error of batches of up to {largest} digits, by method, "
        f"without noise; what is below {_LEAST:g} is drawn there. Middle: share of batches "
        f"of {COUNT} that come back, and that their zeros determine, against the layer's width. "
        "Right: error against noise over that at which the least singular value disappears, and "
        "the Cramer-Rao floor of who knows the signals, for each batch; crosses: batches refused."
    )


@drawing
def draw(tables: Tables) -> Figure:
    batches, widths, noise = (tables[name] for name in ("batches", "widths", "noise"))
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(8.3, 3.3), width_ratios=(1.4, 1, 1), layout="constrained"
    )
    for name, (colour, mark) in _LOOK.items():
        mean = batches[batches["method"] == name].groupby("size")["rmse"].mean()
        left.plot(mean.index, mean, mark + "-", color=colour, ms=4.5, lw=1.2)
    sizes = sorted(batches["size"].unique())
    left.set(xscale="log", yscale="log", xlabel="records of a batch", ylabel="RMSE")
    left.set_xticks(sizes, [f"{size}" for size in sizes])
    left.minorticks_off()
    middle.plot(widths["width"], widths["determined"], "-", color=GREY, lw=1.5)
    middle.plot(widths["width"], widths["exact"], "o", color=GREEN, ms=5)
    middle.set(xscale="log", xlabel="units of the layer", ylabel="share of batches")
    labelled = [width for width in widths["width"] if width.bit_count() == 1]
    middle.set_xticks(labelled, [f"{width}" for width in labelled])
    middle.minorticks_off()
    found, refused = noise[noise["certified"] == 1], noise[noise["certified"] == 0]
    for _, one in noise.groupby("draw"):
        right.plot(one["noise"], one["floor"], "-", color=BLACK, lw=0.8)
    right.plot(found["noise"], found["rmse"], "o", color=BLUE, ms=4.5)
    right.plot(refused["noise"], refused["rmse"], "x", color=BLUE, ms=6)
    right.set(xscale="log", yscale="log", xlabel="noise / threshold", ylabel="RMSE")
    entries = [legend_line(name, *[look[0], "-", look[1]]) for name, look in _LOOK.items()]
    entries += [legend_line("determined", GREY, "-"), legend_line("floor", BLACK, "-")]
    entries += [legend_line("refused", BLUE, "", "x")]
    figure.legend(handles=entries, loc="outside upper center", ncols=4, fontsize=8)
    return figure
