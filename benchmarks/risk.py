"""Time the risk report against the accounting for epsilon alone.

    python benchmarks/risk.py [--repeats 5] [--random 30]

One after the other in one process; prints seconds of processor time, ratios, and the time from a
cold start to the first report. dp-accounting is what a user would call for epsilon, riskcal
(``pip install riskcal``; left out where it is missing) for the errors of membership tests. Random
settings are compared in their values, too: dp-accounting's epsilon and riskcal's power are above
the certified upper end, within the enclosure, or below its lower end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from reconrisk import Enclosure, bounds, privacy, risk

#: false alarms at which powers are compared
LEVEL = 0.01
COLD = """
import time
start = time.perf_counter()
from reconrisk import risk
loaded = time.perf_counter()
run = risk.training_run(noise_multiplier=1.1, batch_size=256, dataset_size=60_000, epochs=15)
risk.assess(run, risk.record(dimension=784, data_norm=9.2, data_range=1.0))
print(loaded - start, time.perf_counter() - loaded)
"""

RECORD = risk.record(dimension=784, data_norm=9.2, data_range=1.0)
RUNS = {
    "MNIST, 15 epochs": dict(
        noise_multiplier=1.1, batch_size=256, dataset_size=60_000, epochs=15, parameters=26_010
    ),
    "CIFAR-10, 200 epochs": dict(
        noise_multiplier=3.0, batch_size=4096, dataset_size=50_000, epochs=200, parameters=10**6
    ),
    "full batch, 100 steps": dict(
        noise_multiplier=10.0, sampling_rate=1, steps=100, parameters=10_000
    ),
    "von Mises-Fisher, 3 epochs": dict(
        concentration=75.0, batch_size=128, dataset_size=60_000, epochs=3, parameters=13_700
    ),
    "a billion steps": dict(
        noise_multiplier=1000.0, sampling_rate=0.3, steps=10**9, parameters=10**6
    ),
    "next to no noise": dict(
        noise_multiplier=1e-6, sampling_rate=0.01, steps=10_000, parameters=10**6
    ),
}


def timed(function: Callable[[], Any], repeats: int) -> float:
    """The least processor time of a few calls."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)


def assess_afresh(run: risk.TrainingRun) -> risk.Report:
    """A report without what an earlier one has left in memory."""
    from reconrisk.risk import _composed

    _composed.success_at.cache_clear()
    _composed._renyi.cache_clear()
    return risk.assess(run, RECORD)


def epsilon_elsewhere(run: risk.TrainingRun) -> float:
    """Epsilon by dp-accounting's privacy-loss distributions."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    step = dp_accounting.PoissonSampledDpEvent(
        run.sampling_rate, dp_accounting.GaussianDpEvent(run.noise_multiplier)
    )
    accountant.compose(step, run.steps)
    return accountant.get_epsilon(run.delta)


def power_elsewhere(run: risk.TrainingRun) -> float:
    """Power of the best test at a hundredth of false alarms, by riskcal."""
    from riskcal.calibration.dpsgd import get_beta_for_dpsgd

    found = get_beta_for_dpsgd(
        alpha=LEVEL,
        noise_multiplier=run.noise_multiplier,
        sample_rate=run.sampling_rate,
        num_steps=run.steps,
    )
    return 1.0 - float(found)


def place(value: float, found: Enclosure) -> str:
    """Where another tool's value is, beside an enclosure."""
    if value > found.upper:
        return f"above, by {value / found.upper - 1.0:.1e}"
    if value < found.lower:
        return f"BELOW, by {1.0 - value / found.lower:.1e}"
    return "within"


def compare_random(count: int) -> None:
    """Hold random settings against other tools: seconds, and where their values are."""
    generator, ratios = np.random.default_rng(0), {"epsilon": [], "power": []}
    for _ in range(count):
        run = risk.training_run(
            noise_multiplier=float(np.exp(generator.uniform(np.log(0.5), np.log(10.0)))),
            sampling_rate=float(np.exp(generator.uniform(np.log(1e-3), np.log(0.3)))),
            steps=int(np.exp(generator.uniform(np.log(10), np.log(10_000)))),
        )
        print(f"sigma {run.noise_multiplier:.3g}, q {run.sampling_rate:.3g}, T {run.steps}:")
        for name, ours, elsewhere in (
            ("epsilon", lambda r=run: privacy.epsilon(r.dpsgd, r.delta), epsilon_elsewhere),
            ("power", lambda r=run: bounds.rero(r.dpsgd, LEVEL), power_elsewhere),
        ):
            start = time.process_time()
            found = ours()
            middle = time.process_time()
            try:
                value = elsewhere(run)
            except ImportError:
                continue
            ratios[name].append((middle - start) / (time.process_time() - middle))
            print(f"  {name} {found:.4g}, elsewhere {value:.4g}: {place(value, found)}")
    for name, found in ratios.items():
        if found:
            print(f"seconds for {name} over elsewhere's: {np.median(found):.2f} (median)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--random", type=int, default=30, help="number of random settings")
    given = parser.parse_args()
    repeats = given.repeats
    compare_random(given.random)
    for name, settings in RUNS.items():
        run = risk.training_run(**settings)
        report = assess_afresh(run)
        ok = sum(entry.ok for entry in report)
        seconds = timed(lambda r=run: assess_afresh(r), repeats)
        print(f"{name}: {seconds:.2f} s for {ok} of {len(report.entries)} entries")
        if run.gaussian and run.steps < 10**6 and run.noise_multiplier > 0.1:
            try:
                elsewhere = timed(lambda r=run: epsilon_elsewhere(r), repeats)
            except ImportError:
                print("  dp-accounting is not installed")
            else:
                print(
                    f"  dp-accounting, epsilon alone: {elsewhere:.2f} s, "
                    f"ratio {seconds / elsewhere:.2f}"
                )
    for kind, limit, at in (("epsilon", 2.0, None), ("rero", 0.2, 10), ("mse_tail", 1e-3, 0.01)):
        run = risk.training_run(**RUNS["MNIST, 15 epochs"])
        start = time.process_time()
        risk.least_noise(kind, limit, run, RECORD, at=at)
        seconds = time.process_time() - start
        print(f"least noise for {kind} {limit:g}: {seconds:.2f} s")
    ran = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True)
    loading, first = map(float, ran.stdout.split())
    print(f"cold: {loading:.2f} s to load, {first:.2f} s to the first report (wall clock)")


if __name__ == "__main__":
    main()
