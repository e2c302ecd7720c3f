"""Inverting gradients of batches under many releases, for the tables of Biswas et al.

One task of a sweep is one data set at one batch size. All its releases (mechanisms and noises)
share batches, networks and first candidates, and all its problems are optimised together. Draws
depend only on the seeds in the task, so that equal tasks of several exhibits have equal results.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import ndimage

from companion.experiments.federated import KEY, NETWORK, SIDE, Standardised, load_standardised
from companion.experiments.tools import as_numpy, data_folder
from companion.study import Context
from reconrisk import datasets
from reconrisk.attacks import class_means, invert_gradients
from reconrisk.metrics import match
from reconrisk.training import Release, Weights, release_gradients, train_mini_batches

#: side of the window of SSIM (Wang et al. 2004 with equal weights, as scikit-image has it)
WINDOW = 7
#: draws of one task
DRAWS = 5
#: results of :func:`attack_batches` that do not depend on the release
OF_DRAWS = ("mean image", "mean image ssim", "class means", "class means ssim", "originals")


# One task ----------------------------------------------------------------------------------------


def attack_task(
    study: Context,
    data: str,
    batch_size: int,
    releases: Sequence[Release],
    *,
    draws: int,
    iterations: int,
    exhibit: str = f"{KEY}/attacks",
    first: int = 0,
    learning_rate: float = 0.1,
    signed: bool = True,
    total_variation: float = 0.0025,
    boxed: bool = True,
    restarts: int = 1,
    initial: str = "xavier",
    epochs: int = 0,
    pictures: int = 0,
) -> dict[str, Any]:
    """One task of :func:`attack_batches`.

    Parameters
    ----------
    study : Context
        Its seed, device and data folder are used.
    data : str
        As in :func:`~companion.experiments.federated.load_standardised`.
    batch_size : int
    releases : sequence of Release
        R of them.
    draws : int
        D batches, each with a network and first candidates of its own.
    iterations : int
        Of the attack; the paper runs 10,000.
    exhibit : str
        Name that the draws depend on. With the default, all exhibits share the batches.
    first : int
        Number of the first draw: a task of draws 2 and 3 continues one of 0 and 1.
    learning_rate, signed, total_variation, restarts
        As in :func:`~reconrisk.attacks.invert_gradients`.
    boxed : bool
        Whether candidates are kept between black and white.
    initial : {"xavier", "default"}
        First weights: uniform within ``sqrt(6 / (fan in + fan out))``, or as PyTorch draws them,
        within ``1 / sqrt(fan in)``. The paper names neither; its rows under von Mises-Fisher noise
        fit the former (``biswas2024/alg_iga``).
    epochs : int
        Epochs of training of the attacked network, without privacy; 0 for its first weights.
    pictures : int
        How many pictures of each problem are returned.
    """
    shared = replace(study, exhibit=exhibit)
    return {
        "data": data,
        "data_root": data_folder(study, data),
        "batch_size": batch_size,
        "releases": [asdict(release) for release in releases],
        "draws": draws,
        "first": first,
        "selection_seed": shared.seed_of(data, "records"),
        "noise_seed": shared.seed_of(data, "noise"),
        "iterations": iterations,
        "learning_rate": learning_rate,
        "signed": signed,
        "total_variation": total_variation,
        "boxed": boxed,
        "restarts": restarts,
        "initial": initial,
        "epochs": epochs,
        "pictures": pictures,
        "device": study.device,
    }


def attack_batches(task: dict[str, Any]) -> dict[str, Any]:
    """Attack D batches under R releases and measure the errors of the reconstructions.

    Every draw is a batch of n records, a network and first candidates; all releases share them, and
    all noises of one mechanism their random numbers. Batches of different sizes are nested. The
    attacker knows network, labels and n, and minimises the cosine distance plus total variation by
    signed gradients.

    Parameters
    ----------
    task : dict
        See :func:`attack_task`.

    Returns
    -------
    dict
        Nested lists of shape (R, D):

        - ``"mse"``, ``"ssim"``: average over the batch in the order of the labels;
        - ``"matched mse"``, ``"matched ssim"``: after the permutation of least squared error;
        - ``"unit ssim"``: in the order of the labels, of pictures in [0, 1];
        - ``"recognised"``: share of the reconstructions that correlate most, among the classes'
          mean pictures, with that of their label;
        - ``"cosine"``: of the released gradient with the batch's clipped average, clipped as the
          release says (a release that does not clip: by layer);
        - ``"loss"``: of the attack at the end;

        of shape (D,): ``"mean image"`` and ``"class means"``, the MSE of these two guesses without
        an attack, and ``"mean image ssim"``, ``"class means ssim"``; and, if ``pictures`` is not
        zero, ``"originals"`` (D, k, d) and ``"pictures"`` (R, D, k, d) in [0, 1]. All but the last
        are of standardised pictures (:class:`Standardised`), as the printed numbers must be: MSEs
        in their units, SSIMs with the range from black to white.
    """
    data = load_standardised(task["data"], task["data_root"], device=task["device"])
    releases = [Release(**r) for r in task["releases"]]
    drawn = draw_batches(task, data)
    released, truth = release_batches(task, drawn, releases)
    box = ((0 - data.mean) / data.std, (1 - data.mean) / data.std) if task["boxed"] else None
    count = len(releases)
    rebuilt = invert_gradients(
        repeat_weights(drawn.weights, count),
        released,
        drawn.labels.repeat(count, 1),
        generator=_generator(task, "restarts"),
        iterations=task["iterations"],
        learning_rate=task["learning_rate"],
        signed=task["signed"],
        total_variation=task["total_variation"],
        shape=(SIDE, SIDE),
        box=box,
        restarts=task["restarts"],
        start=drawn.start.repeat(count, 1, 1),
    )
    shape = (count, task["draws"])
    originals = as_numpy(drawn.inputs)
    found = as_numpy(rebuilt.inputs).reshape(*shape, *originals.shape[1:])
    result = {
        **judge(data, originals, found),
        "recognised": _recognise(data, found, drawn.labels),
        "cosine": as_numpy(cosines(released, truth)).reshape(shape),
        "loss": as_numpy(rebuilt.loss).reshape(shape),
        **_guesses(data, originals, drawn.labels),
    }
    shown = task["pictures"]
    if shown:
        result["originals"] = np.round(data.unit(originals[:, :shown]), 4)
        result["pictures"] = np.round(data.unit(found[:, :, :shown]), 4)
    return result


@dataclass(frozen=True)
class Drawn:
    """D batches of n standardised records with networks and standard normal first candidates.

    Shapes: ``inputs`` and ``start`` (D, n, d), ``labels`` (D, n), ``weights`` (D, rows, columns).
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    weights: Weights
    start: torch.Tensor


def most_records(data: str) -> float:
    """Return how large a batch of a data set may be: those of a few pictures have fewer."""
    return datasets.SAMPLES[data].count if data in datasets.SAMPLES else math.inf


def draw_batches(task: Mapping[str, Any], data: Standardised) -> Drawn:
    """Draw a task's batches, networks and first candidates.

    A batch holds the first n records of a permutation of all, so that those of different sizes are
    nested and draw k is the same however many there are.
    """
    device, size = task["device"], task["batch_size"]
    if size > len(data.inputs):
        raise ValueError(f"batch_size must be at most {len(data.inputs)}; got {size}")
    rows, weights, start = [], [], []
    for k in range(task["first"], task["first"] + task["draws"]):
        order = np.random.default_rng([task["selection_seed"], k]).permutation(len(data.inputs))
        rows.append(torch.as_tensor(order[:size], device=device))
        weights.append(_network(task, data, k))
        shape = (size, data.inputs.shape[1])
        generator = _generator(task, "start", k)
        start.append(torch.randn(shape, generator=generator, device=device))
    stacked = {name: torch.stack([w[name] for w in weights]) for name in NETWORK.shapes}
    chosen = torch.stack(rows)
    return Drawn(data.inputs[chosen], data.labels[chosen], stacked, torch.stack(start))


def _network(task: Mapping[str, Any], data: Standardised, k: int) -> Weights:
    """The network of draw k: its first weights, or those after training without privacy."""
    glorot = task["initial"] == "xavier"
    initial = NETWORK.initialise(_generator(task, "weights", k), glorot=glorot)
    if not task["epochs"]:
        return initial
    trained = train_mini_batches(
        NETWORK,
        data.inputs,
        data.labels,
        [Release("none")],
        batch_size=min(128, len(data.inputs)),
        epochs=task["epochs"],
        weight_decay=0.0,
        initial=initial,
        generator=_generator(task, "training", k),
    )
    return {name: w[0] for name, w in trained.items()}


def release_batches(
    task: Mapping[str, Any], drawn: Drawn, releases: Sequence[Release]
) -> tuple[Weights, Weights]:
    """What the server sees of every problem, and the averages before any noise, (R D, ...)."""
    sides: tuple[list[Weights], list[Weights]] = ([], [])
    for release in releases:
        clean = replace(release, kind="clip", noise=0.0)
        for i in range(len(drawn.labels)):
            weights = {name: w[i] for name, w in drawn.weights.items()}
            for side, what in zip(sides, (release, clean), strict=True):
                # all noises of one mechanism share their random numbers: two settings differ in
                # their size alone, and no release changes the noise of another
                generator = _generator(task, f"{what.kind} noise", task["first"] + i)
                batch = (drawn.inputs[[i]], drawn.labels[[i]])
                side.append(release_gradients(weights, *batch, [what], generator=generator))
    return _join(sides[0]), _join(sides[1])


def _join(parts: Sequence[Weights]) -> Weights:
    return {name: torch.cat([part[name] for part in parts]) for name in NETWORK.shapes}


def repeat_weights(weights: Weights, times: int) -> Weights:
    """D networks one time for each of R releases, (R D, rows, columns)."""
    return {name: w.repeat(times, 1, 1) for name, w in weights.items()}


def cosines(one: Weights, other: Weights) -> torch.Tensor:
    """Cosines of K gradients with K others, all layers as one vector, shape (K,)."""
    flat = [torch.cat([g.flatten(1) for g in side.values()], dim=1) for side in (one, other)]
    return torch.nn.functional.cosine_similarity(*[f.double() for f in flat], dim=1)


def _generator(task: Mapping[str, Any], purpose: str, *key: int | str) -> torch.Generator:
    """A generator for one purpose, from the task's seeds and its batch size."""
    words = [w for part in (purpose, *key) for w in str(part).encode()]
    entropy = [task["noise_seed"], task["batch_size"], len(words), *words]
    seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
    return torch.Generator(device=task["device"]).manual_seed(seed)


# Judging -----------------------------------------------------------------------------------------


def judge(data: Standardised, originals: np.ndarray, rebuilt: np.ndarray) -> dict[str, np.ndarray]:
    """MSE and SSIM of reconstructed batches, in the labels' order and matched by permutation.

    Parameters
    ----------
    data : Standardised
        Whose units the pictures are in.
    originals : ndarray, shape (D, n, d)
    rebuilt : ndarray, shape (R, D, n, d)

    Returns
    -------
    dict of ndarray, shape (R, D)
        ``"mse"``, ``"ssim"``, ``"matched mse"``, ``"matched ssim"``, ``"unit ssim"``: see
        :func:`attack_batches`.
    """
    targets = np.broadcast_to(originals, rebuilt.shape)
    matching = match(targets, rebuilt)
    white = 1 / data.std
    return {
        "mse": np.square(targets - rebuilt).mean(axis=(2, 3)),
        "matched mse": matching.mse,
        "ssim": ssim_of_many(targets, rebuilt, white).mean(axis=2),
        "matched ssim": ssim_of_many(targets, matching.apply(rebuilt), white).mean(axis=2),
        "unit ssim": ssim_of_many(data.unit(targets), data.unit(rebuilt)).mean(axis=2),
    }


def _recognise(data: Standardised, rebuilt: np.ndarray, labels: torch.Tensor) -> np.ndarray:
    """Share of reconstructions whose label's mean picture correlates most with them, (R, D)."""
    x, y = (v - v.mean(axis=-1, keepdims=True) for v in (as_numpy(_class_means(data)), rebuilt))
    # the length of a reconstruction does not change which class it resembles most
    x = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return (np.argmax(y @ x.T, axis=-1) == labels.cpu().numpy()).mean(axis=-1)


def _class_means(data: Standardised) -> torch.Tensor:
    return class_means(data.inputs, data.labels, int(data.labels.max()) + 1)


def _guesses(data: Standardised, originals: np.ndarray, labels: torch.Tensor) -> dict[str, Any]:
    """MSE and SSIM of the mean picture and of the known labels' mean pictures, (D,)."""
    mean = as_numpy(data.inputs.mean(dim=0))
    guesses = {
        "mean image": np.broadcast_to(mean, originals.shape),
        "class means": as_numpy(_class_means(data)[labels]),
    }
    result = {}
    for name, guess in guesses.items():
        result[name] = np.square(originals - guess).mean(axis=(1, 2))
        result[f"{name} ssim"] = ssim_of_many(originals, guess, 1 / data.std).mean(axis=1)
    return result


def ssim_of_many(
    targets: np.ndarray, reconstructions: np.ndarray, data_range: float = 1.0
) -> np.ndarray:
    """SSIM of many pairs of square pictures at once; :func:`reconrisk.metrics.ssim` takes one.

    Parameters
    ----------
    targets, reconstructions : ndarray, shape (..., side * side)
    data_range : float
        Width of the pixels' range.

    Returns
    -------
    ndarray, shape (...)
    """
    side = round(targets.shape[-1] ** 0.5)
    x, y = (
        v.reshape(*v.shape[:-1], side, side) for v in np.broadcast_arrays(targets, reconstructions)
    )
    pixels, edge = WINDOW**2, WINDOW // 2

    def local(values: np.ndarray) -> np.ndarray:
        size = (1,) * (values.ndim - 2) + (WINDOW, WINDOW)
        return ndimage.uniform_filter(values, size)[..., edge:-edge, edge:-edge]

    mean_x, mean_y = local(x), local(y)
    unbiased = pixels / (pixels - 1)
    variance_x = unbiased * (local(x * x) - mean_x**2)
    variance_y = unbiased * (local(y * y) - mean_y**2)
    covariance = unbiased * (local(x * y) - mean_x * mean_y)
    small, smaller = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    luminance = (2 * mean_x * mean_y + small) / (mean_x**2 + mean_y**2 + small)
    structure = (2 * covariance + smaller) / (variance_x + variance_y + smaller)
    return (luminance * structure).mean(axis=(-2, -1))


# Many tasks --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """One data set at one batch size under groups of releases, each with tasks of its own."""

    data: str
    batch_size: int
    groups: tuple[tuple[Release, ...], ...]


@dataclass(frozen=True)
class Attacked:
    """The results of R releases and D draws, ``values`` as :func:`attack_batches` returns them."""

    releases: tuple[Release, ...]
    values: Mapping[str, np.ndarray]

    def of(self, name: str, release: Release) -> np.ndarray:
        """One measurement of one release, shape (D, ...)."""
        return self.values[name][self.releases.index(release)]


def attack_settings(
    study: Context, settings: Sequence[Setting], *, draws: int, **given: Any
) -> list[Attacked]:
    """Attack all settings, D draws each, in one sweep; ``given`` as in :func:`attack_task`."""
    starts = range(0, draws, DRAWS)
    tasks = [
        attack_task(
            study, s.data, s.batch_size, group, draws=min(DRAWS, draws - k), first=k, **given
        )
        for s in settings
        for group in s.groups
        for k in starts
    ]
    results = iter(run_attacks(study, tasks))
    return [
        _join_groups([_join_draws([next(results) for _ in starts]) for _ in s.groups])
        for s in settings
    ]


def run_attacks(study: Context, tasks: Sequence[Mapping[str, Any]]) -> list[Attacked]:
    """Run tasks made by :func:`attack_task`, each once in a process; results in their order."""
    rows = study.sweep(attack_batches, tasks, "inverting gradients", threads=1)
    return [
        Attacked(
            tuple(Release(**r) for r in task["releases"]),
            {name: np.asarray(v, dtype=float) for name, v in row.items()},
        )
        for task, row in zip(tasks, rows, strict=True)
    ]


def _join_draws(parts: Sequence[Attacked]) -> Attacked:
    """Chunks of draws of the same releases as one."""
    values = {
        name: np.concatenate([p.values[name] for p in parts], axis=int(name not in OF_DRAWS))
        for name in parts[0].values
    }
    return Attacked(parts[0].releases, values)


def _join_groups(parts: Sequence[Attacked]) -> Attacked:
    """Groups of releases of the same draws as one."""
    values = {
        name: v if name in OF_DRAWS else np.concatenate([p.values[name] for p in parts])
        for name, v in parts[0].values.items()
    }
    return Attacked(tuple(release for p in parts for release in p.releases), values)
