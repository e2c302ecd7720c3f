"""One record's gradient under defences without noise, at the initial weights of a network."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch

from companion.experiments.informed_adversary import Scene
from companion.experiments.tools import as_numpy
from companion.papers.beyond.record_gradient import clipped_gradient
from companion.study import Context
from reconrisk.mechanisms import Clipping, EntryDropout, Pruning, defend
from reconrisk.training import Weights

__all__ = ["defended_records", "read_first_layer"]

#: a client's update as a function of a record and its label
Update = Callable[[torch.Tensor, torch.Tensor], Weights]
#: which entries were released; None for all
Visible = Mapping[str, torch.Tensor] | None


def defended_records(study: Context, scene: Scene, pool: np.ndarray) -> pd.DataFrame:
    """Attack the first records of the scene's pool, (count, d), under each defence.

    With the parameters of ``beyond/one_scale``; one row per defence.
    """
    p = study.parameters
    weights = {k: w.double()[None].cpu() for k, w in scene.initial().items()}
    labels = torch.as_tensor(scene.images.labels[scene.positions("pool")])
    records = torch.as_tensor(pool)
    mean = pool.mean(axis=0)
    rows = []
    for name, (update, transforms) in _defences(study, weights).items():
        every = torch.func.vmap(update)(records, labels)
        generator = study.generator("defence", name)
        pruned = any(isinstance(part, Pruning) for part in transforms)
        # the attacker sees which entries were dropped at random, and compares the others only
        random = any(isinstance(part, EntryDropout) for part in transforms)
        candidates = every
        if not random:
            candidates = dict(defend(every, transforms, generator=generator).gradient)
        squares, read_shares, correct, ranks, errors = [], [], [], [], []
        for k in range(p.targets):
            own = {n: g[k : k + 1] for n, g in every.items()}
            released = defend(own, transforms, generator=generator)
            visible = released.visible and {n: mask[0] for n, mask in released.visible.items()}
            one = {n: g[0] for n, g in released.gradient.items()}
            record, read, limit = read_first_layer(one, visible, pruned=pruned)
            guess = np.where(read, record, np.minimum(mean, 0.5 * limit))
            squares.append(np.mean((guess - pool[k]) ** 2))
            read_shares.append(read.mean())
            errors.append(float(np.max(np.abs(np.where(read, record - pool[k], 0.0)))))
            correct.append(_nearest(candidates, one, visible if random else None) == k)
            if k < p.fitted:
                ranks.append(_rank(update, records[k], labels[k], visible))
        rows.append(
            {
                "defence": name,
                "right candidate": float(np.mean(correct)),
                "values read": float(np.mean(read_shares)),
                "largest error of those": max(errors),
                "RMSE": math.sqrt(float(np.mean(squares))),
                # zero if the released entries determine the records
                "Cramer-Rao": 0.0 if (np.asarray(ranks) == pool.shape[1]).all() else math.inf,
            }
        )
    return pd.DataFrame(rows)


def _defences(study: Context, weights: Weights) -> dict[str, tuple[Update, tuple[Any, ...]]]:
    """Each defence: the client's update, and the transforms applied to it."""
    p = study.parameters

    def plain(record: torch.Tensor, label: torch.Tensor) -> Weights:
        return {k: g[0] for k, g in clipped_gradient(weights, record, label).items()}

    def local(record: torch.Tensor, label: torch.Tensor) -> Weights:
        now, total = weights, {k: torch.zeros_like(w) for k, w in weights.items()}
        for _ in range(p.local_steps):
            step = clipped_gradient(now, record, label)
            now = {k: w - p.local_rate * step[k] for k, w in now.items()}
            total = {k: t + step[k] / p.local_steps for k, t in total.items()}
        return {k: t[0] for k, t in total.items()}

    return {
        "none": (plain, ()),
        "clipping": (plain, (Clipping(p.max_grad_norm),)),
        **{f"pruning {share:g}": (plain, (Pruning(share),)) for share in p.pruned},
        **{f"entry dropout {share:g}": (plain, (EntryDropout(share),)) for share in p.dropped},
        f"local aggregation, {p.local_steps} steps": (local, ()),
    }


def read_first_layer(
    gradient: Weights, visible: Visible = None, *, pruned: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read a record off the first layer's gradient: its rows are the record times the bias.

    Parameters
    ----------
    gradient : Weights
        Of one record and one model, defended.
    visible : mapping of str to Tensor of bool, optional
    pruned : bool
        Whether the entries removed are smaller than all released ones, which bounds them.

    Returns
    -------
    record : ndarray, shape (d,)
        Least squares over the released rows, zero where there are none.
    read : ndarray of bool, shape (d,)
        Which values were read.
    limit : ndarray, shape (d,)
        Upper bound on the size of the others.
    """
    rows, bias = as_numpy(gradient["hidden.weight"]), as_numpy(gradient["hidden.bias"])
    known, seen = np.ones_like(bias, dtype=bool), np.ones_like(rows, dtype=bool)
    if visible is not None:
        known = visible["hidden.bias"].numpy()
        seen = visible["hidden.weight"].numpy() & known[:, None]
    weight = np.where(seen, bias[:, None] ** 2, 0.0).sum(axis=0)
    read = weight > 0
    product = np.where(seen, rows * bias[:, None], 0.0).sum(axis=0)
    record = np.divide(product, weight, out=np.zeros_like(weight), where=read)
    limit = np.full(len(record), math.inf)
    if pruned and visible is not None and known.any():
        least = min(
            float(g[visible[k]].abs().min()) for k, g in gradient.items() if visible[k].any()
        )
        limit[:] = least / np.max(np.abs(bias[known]))
    return record, read, limit


def _nearest(candidates: Weights, released: Weights, visible: Visible) -> int:
    """The candidate whose gradient is nearest to the released one in the visible entries."""
    total = torch.zeros(len(next(iter(candidates.values()))), dtype=torch.float64)
    for name, g in candidates.items():
        gap = (g - released[name]).flatten(1).square()
        total += (gap if visible is None else gap * visible[name].flatten()).sum(dim=1)
    return int(total.argmin())


def _rank(update: Update, record: torch.Tensor, label: torch.Tensor, visible: Visible) -> int:
    """Rank of the released entries' derivatives in the record."""
    slopes = torch.func.jacrev(lambda x: update(x, label), chunk_size=1024)(record)
    rows = []
    for name, slope in slopes.items():
        flat = slope.reshape(-1, len(record))
        rows.append(flat if visible is None else flat[visible[name].flatten()])
    stacked = torch.cat(rows)
    # of the Gram matrix: there are far more entries than values of a record
    return int(torch.linalg.matrix_rank(stacked.mT @ stacked, rtol=1e-12, hermitian=True))
