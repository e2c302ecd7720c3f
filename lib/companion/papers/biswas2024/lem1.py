"""Lemma 1: a deterministic map in front of a channel does not change its capacity."""

from collections.abc import Iterator

import pandas as pd

from companion.exhibit import *
from companion.papers.biswas2024.random_channels import (
    CHANNELS,
    ROUNDING,
    log_capacity,
    random_channel,
    random_map,
    random_sizes,
)

PARAMETERS = {"channels": CHANNELS}
SHOWN = ("pre-processing",)
ALTERED = {
    "channels": {
        "every input": "changes by maps that reach every input [nats]",
        "all but one": "changes by maps that miss an input [nats]",
    }
}
SCENARIOS = (
    scenario(
        "a missed input that never lowers the capacity",
        column("channels", "all but one", lambda c: c.clip(lower=0.0)),
    ),
)

_REACHED = ["every input", "all but one"]


@measurement
def measure(study: Context) -> Tables:
    rng = study.rng("channels")
    rows = []
    for _ in range(study.parameters.channels):
        secrets, inputs, outputs = random_sizes(rng)
        channel = random_channel(rng, inputs, outputs)
        alone = log_capacity(channel)
        onto, into = (
            log_capacity(random_map(rng, secrets, inputs, onto=onto) @ channel) - alone
            for onto in (True, False)
        )
        rows.append((inputs, outputs, alone, onto, into))
    table = pd.DataFrame(rows, columns=["inputs", "outputs", "log capacity", *_REACHED])
    summary = [
        (c, f"{(table[c].abs() < ROUNDING).mean():.0%}", int((table[c] > ROUNDING).sum()))
        for c in _REACHED
    ]
    columns = ["the map reaches", "unchanged", "raised"]
    return Tables(
        {"channels": table, "pre-processing": pd.DataFrame(summary, columns=columns)},
        ran=f"{len(table)} random channels of up to 8 inputs and 8 outputs.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["channels"]
    every, missed = (table[name] for name in _REACHED)
    yield check(
        "biswas2024/lem1",
        every.abs().max() < ROUNDING and missed.max() < ROUNDING and missed.min() < -1e-3,
        "a deterministic map in front does not change the capacity if it reaches every input of "
        "the channel; if it misses one, the capacity never rises and may fall",
        ours=f"{len(table)} random channels; with one input missed the capacity falls in "
        f"{(missed < -ROUNDING).mean():.0%}",
        tolerance=f"{ROUNDING:g}",
    )
