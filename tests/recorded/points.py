"""For each recorded exhibit, one point that is computed again, and how near it must come.

A point is a function of a record and of the folder of its data; it returns the numbers compared.
Where the same draws are cheap the point is computed with them, and must agree but for the rounding
of another machine's libraries. Where they are not, it is computed with fewer trials, and must agree
within :data:`ERRORS` standard errors of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from companion.experiments.tools import as_numpy
from companion.study.records import Record
from reconrisk.attacks import baselines
from recorded.replay import Sweep, Wanted, context_of, rerun, task_of

#: standard errors of both that a point with other draws may be away: about one in a million
ERRORS = 5.0
#: relative and absolute difference of a point with the same draws
EXACT = 1e-5
#: the same where single precision has been summed in another order
SINGLE = 2e-3
#: relative width of the accountant's enclosures, so that two of them have middles this close
ENCLOSED = 1e-4

Point = Callable[[Record, str], "list[Agreement]"]
Where = Mapping[str, Any]


@dataclass(frozen=True)
class Agreement:
    """A number of a record and the same computed again, with the difference allowed."""

    what: str
    now: float
    recorded: float
    allowed: float

    @property
    def holds(self) -> bool:
        if math.isnan(self.recorded) or math.isinf(self.recorded):
            return self.now == self.recorded or (math.isnan(self.now) and math.isnan(self.recorded))
        return abs(self.now - self.recorded) <= self.allowed

    def __str__(self) -> str:
        return f"{self.what}: {self.now:.7g} now, {self.recorded:.7g} recorded, {self.allowed:.2g}"


def rows_of(table: pd.DataFrame, where: Where) -> pd.DataFrame:
    """The rows of a table that have the given values; at least one."""
    found = table
    for name, value in where.items():
        if isinstance(value, float):
            found = found[np.isclose(found[name].astype(float), value, rtol=1e-9)]
        else:
            # a column of whole numbers may hold texts where it was not read from a file
            found = found[found[name].astype(str) == str(value)]
    if found.empty:
        raise LookupError(f"no row with {dict(where)} among {list(table.columns)}")
    return found


def row_of(table: pd.DataFrame, **where: Any) -> pd.Series:
    """The one row of a table that has the given values."""
    found = rows_of(table, where)
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows with {where}; expected one")
    return found.iloc[0]


# Rows of a table, with the same draws ------------------------------------------------------------


def same_rows(
    table: str,
    keys: Sequence[str],
    where: Where | None = None,
    wanted: Wanted = lambda name, task: False,
    *,
    overrides: Mapping[str, Any] | None = None,
    columns: Sequence[str] = (),
    allowed: float | Mapping[str, float] = EXACT,
) -> Point:
    """Rows of a table that an exhibit makes of few of its tasks.

    Parameters
    ----------
    table : str
        Name of the recorded table.
    keys : sequence of str
        Columns that tell rows apart.
    where : mapping, optional
        Values of the rows compared; all rows if there are none.
    wanted : callable
        The tasks that these rows rest on.
    overrides : mapping, optional
        Parameters that make the exhibit smaller and leave these rows as they are.
    columns : sequence of str
        What is compared; all numbers by default.
    allowed : float or mapping
        Difference allowed: relative to the recorded number, or to a hundredth of its column's
        largest where that is more; or by column, as it is.
    """

    def point(record: Record, data_root: str) -> list[Agreement]:
        tables = rerun(record, data_root, wanted, overrides)
        now = next(t for name, t in tables.items() if name.replace(" ", "-") == table)
        before = rows_of(record.tables[table], where or {})
        return _compared(now, before, keys, columns, allowed)

    return point


def _compared(
    now: pd.DataFrame,
    before: pd.DataFrame,
    keys: Sequence[str],
    columns: Sequence[str],
    allowed: float | Mapping[str, float],
) -> list[Agreement]:
    found = []
    for _, row in before.iterrows():
        at = {key: row[key] for key in keys}
        same = row_of(now, **at)
        names = columns or [c for c in before.columns if c not in keys]
        for name in names:
            where = ", ".join(f"{k} {v}" for k, v in at.items())
            if isinstance(row[name], str) or same[name] == "":
                # a text without letters is a missing value in a file
                recorded = "" if pd.isna(row[name]) else row[name]
                difference = 0.0 if str(same[name]) == recorded else 1.0
                found.append(Agreement(f"{where}: {name} {recorded!r}", difference, 0.0, 0.0))
                continue
            value = float(row[name])
            if isinstance(allowed, int | float):
                largest = float(np.nanmax(np.abs(before[name].astype(float))))
                reach = allowed * max(abs(value), largest / 100)
            else:
                reach = allowed[name]
            found.append(Agreement(f"{where}: {name}", float(same[name]), value, reach))
    return found


# Shares of trials, with other draws --------------------------------------------------------------


def _share(what: str, right: float, trials: float, recorded: float, error: float) -> Agreement:
    # as if one trial had gone the other way, so that no share is without an error
    likely = min(max(recorded, 1 / trials), 1 - 1 / trials)
    spread = math.sqrt(likely * (1 - likely) / trials)
    return Agreement(what, right / trials, recorded, ERRORS * math.hypot(spread, error))


def prior_aware_trials(
    table: str, pick: Where, trials: int, *, prior_sizes: Sequence[int] = (), **named: Any
) -> Point:
    """Few trials of Algorithm 2 or 3 at one setting of an exhibit of paper C.

    ``pick`` are the values of the task; ``named`` the columns of the table by which its row is
    found besides epsilon, score and n.
    """

    def point(record: Record, data_root: str) -> list[Agreement]:
        swept = task_of(record, data_root, "attack_task")
        task = next(t for t in swept.tasks if all(t[k] == v for k, v in pick.items()))
        sizes = list(prior_sizes or task["prior_sizes"])
        rows = swept.compute(task | {"trials": trials, "prior_sizes": sizes})
        found = []
        recorded = record.tables[table]
        for row in rows:
            at = {"epsilon": float(task["epsilon"]), "score": row["score"], "n": row["n"]}
            at = {k: v for k, v in (at | named).items() if k in recorded.columns}
            if recorded["score"].isin([row["score"]]).any():
                was = row_of(recorded, **at)
                error = math.sqrt(was["success"] * (1 - was["success"]) / was["trials"])
                what = f"epsilon {task['epsilon']}, n {row['n']}, {row['score']}"
                found.append(_share(what, row["right"], trials, was["success"], error))
        return found

    return point


def shared_trials(pick: Callable[[Mapping[str, Any]], bool], keys: Sequence[str]) -> Point:
    """A few of the trajectories of one point of Figures 7, 9, 10 of paper C."""
    few = 4

    def point(record: Record, data_root: str) -> list[Agreement]:
        swept = task_of(record, data_root, "attack_point")
        task = next(t for t in swept.tasks if t["method"] == "shared" and pick(t))
        many = task["trajectories"]
        fewer = {"trajectories": few, "trials": task["trials"] * few // many}
        row = next(r for r in swept.compute(task | fewer) if r["score"] == "sum")
        was = row_of(record.tables["success"], method="shared", **{key: task[key] for key in keys})
        # Student's interval of the trajectories' shares
        from scipy import stats

        error = (was["high"] - was["low"]) / (2 * stats.t.ppf(0.975, many - 1))
        error = max(error, 1 / math.sqrt(task["trials"]) / 4)
        allowed = ERRORS * error * math.sqrt(1 + many / few)
        what = ", ".join(f"{key} {task[key]}" for key in keys)
        return [Agreement(what, row["success"], was["success"], allowed)]

    return point


def subsampled_trials(trials: int) -> Point:
    """Few trials at the largest sampling rate of Figures 5 and 14 of paper C."""

    def point(record: Record, data_root: str) -> list[Agreement]:
        swept = task_of(
            record, data_root, "attack_run", {"rates": [0.5], "swept_rates": [0.5], "trials": 50}
            if "swept_rates" in record.provenance.parameters
            else {"rates": [0.5], "trials": 50},
        )  # fmt: skip
        task = max(swept.tasks, key=lambda t: (t["q"], t["epsilon"]))
        rows = swept.compute(task | {"trials": trials})
        found = []
        for row in rows:
            at = {"epsilon": task["epsilon"], "q": task["q"], "n": row["n"], "score": row["score"]}
            was = row_of(record.tables["attack"], **at)
            error = math.hypot(was["error"], row["error"])
            error = max(error, 1 / trials)
            what = ", ".join(f"{k} {v}" for k, v in at.items())
            found.append(Agreement(what, row["success"], was["success"], ERRORS * error))
        return found

    return point


# Means over targets, draws or repetitions --------------------------------------------------------


def trained_networks(table: str, pairing: str = "") -> Point:
    """One repetition of the training of paper D with every noise, against the mean of all.

    ``pairing`` names the constant of ``fair_utility`` whose rows of a table are compared.
    """

    def point(record: Record, data_root: str) -> list[Agreement]:
        from companion.papers.beyond import fair_utility

        more = {"pairing": getattr(fair_utility, pairing)} if pairing else {}
        swept = task_of(record, data_root, "train_networks")
        task = max(swept.tasks, key=lambda t: (t["batch_size"], -t["repeat"]))
        found = []
        for row in swept.compute(task):
            at = {key: task[key] for key in ("data", "batch_size")} | more
            was = row_of(
                record.tables[table], **at, mechanism=row["mechanism"], label=float(row["label"])
            )
            # a few repetitions do not tell a spread; a share of 10,000 pictures has half a percent
            spread = math.hypot(0.0 if math.isnan(was["sd"]) else was["sd"], 0.005)
            what = f"{task['data']}, B {task['batch_size']}, {row['mechanism']} {row['label']}"
            found.append(Agreement(what, row["accuracy"], was["mean"], ERRORS * spread))
        return found

    return point


def inverted_batches(table: str, *, keys: Sequence[str] = ()) -> Point:
    """One batch under one release of paper D's attack, against the mean over the draws."""

    def point(record: Record, data_root: str) -> list[Agreement]:
        from companion.experiments.federated import studied_pairs
        from companion.papers.biswas2024.printed_reconstructions import (
            MECHANISMS,
            label,
            release_of,
        )
        from reconrisk.training import Release

        p = record.provenance.parameters
        swept = task_of(record, data_root, "attack_batches")
        studied = {
            release_of(pair, mechanism): {"mechanism": mechanism, "pair": i}
            for i, pair in enumerate(studied_pairs())
            for mechanism in MECHANISMS
        }
        # by row every release has a name; else only those of the studied pairs are in the table
        task, given = next(
            (task, release)
            for task in sorted(swept.tasks, key=lambda t: (t["batch_size"], t["first"]))
            for release in task["releases"]
            if "row" in keys or Release(**release) in studied
        )
        release = Release(**given)
        result = swept.compute(task | {"releases": [given], "draws": 1})
        at = {"data": next(k for k in ("digits", "garments") if p[k] == task["data"])}
        if "row" in keys:
            at["row"] = label(release)
        else:
            at |= studied[release] | {"batch size": task["batch_size"]}
        was = row_of(record.tables[table], **at)
        found = []
        for column, name in (("MSE", "mse"), ("SSIM", "ssim"), ("cosine", "cosine")):
            # the spread of few draws is itself uncertain: twice of it
            error = 2 * was[f"{column} error"] * math.sqrt(p["draws"] + 1)
            allowed = ERRORS * max(error, 0.002 * abs(was[column]))
            now = float(np.mean(result[name]))
            found.append(Agreement(f"{at}: {column}", now, was[column], allowed))
        return found

    return point


def attacked_draws(table: str, columns: Mapping[str, str], **named: str) -> Point:
    """A few of the draws of an attack on paper D's batches, against the means over all.

    The smallest batches of digits, under the first noise of each mechanism. ``columns`` are those
    of the table, each with the name of its standard error; ``named`` further values of its rows.
    """
    few = 3

    def point(record: Record, data_root: str) -> list[Agreement]:
        p = record.provenance.parameters
        swept = task_of(record, data_root, "attack_batches")
        task = min(swept.tasks, key=lambda t: t["batch_size"])
        assert task["data"] == p["digits"]
        first = {release["kind"]: release for release in reversed(task["releases"])}
        result = swept.compute(task | {"releases": [*first.values()], "draws": few})
        found = []
        for place, (kind, release) in enumerate(first.items()):
            mechanism = {"vmf": "VMF", "gaussian": "Gaussian"}[kind]
            at = {"n": task["batch_size"], "mechanism": mechanism, "noise": release["noise"]}
            own = rows_of(record.tables[table], at | named)
            was = own[own["data"] == p["digits"]].iloc[0] if "data" in own else own.iloc[0]
            for column, error in columns.items():
                now = float(np.mean(result[column.lower()][place]))
                # the draws are among those of the record: the means differ by less than this
                allowed = ERRORS * was[error] * math.sqrt(1 + p["draws"] / few)
                found.append(Agreement(f"{at}: {column}", now, was[column], allowed))
        return found

    return point


def attacked_under_a_reading(record: Record, data_root: str) -> list[Agreement]:
    """Two of a reading's releases, of digits, attacked again as they were."""
    swept = task_of(record, data_root, "attack_reading")
    task = next(t for t in swept.tasks if t["start"] == "normal")
    at = {"data": "digits", "start": "normal", "weights": task["scale"], "pixels": task["pixels"]}
    rows = rows_of(record.tables["errors"], at)
    ends = [0, len(task["releases"]) - 1]
    assert len(rows) == len(task["releases"])
    now = swept.compute(task | {"releases": [task["releases"][i] for i in ends]})["mse"]
    found = []
    for i, draws in zip(ends, now, strict=True):
        was = rows.iloc[i]
        # a search of hundreds of steps in single precision ends elsewhere on other processors
        found.append(Agreement(was["row"], float(np.mean(draws)), was["MSE"], 0.05 * was["MSE"]))
    return found


def leaked_batches() -> Point:
    """Deep leakage from single records: some draws of Table III of paper D."""
    few = 5

    def point(record: Record, data_root: str) -> list[Agreement]:
        from companion.papers.biswas2024.printed_reconstructions import label
        from reconrisk.training import Release

        swept = task_of(record, data_root, "leak_batches")
        task = min(swept.tasks, key=lambda t: t["batch_size"])
        result = swept.compute(task | {"draws": min(few, task["draws"])})
        which = next(
            k for k in ("digits", "garments") if record.provenance.parameters[k] == task["data"]
        )
        found = []
        for i, release in enumerate(task["releases"]):
            row = label(Release(**release))
            at = {"data": which, "batch size": task["batch_size"], "row": row}
            was = row_of(record.tables["leakage"], **at)
            for column, name in (("MSE", "mse"), ("SSIM", "ssim")):
                now = float(np.mean(result[name][i]))
                error = was[f"{column} error"] * math.sqrt(1 + task["draws"] / few)
                allowed = ERRORS * max(error, 1e-3)
                found.append(Agreement(f"{row}: {column}", now, was[column], allowed))
        return found

    return point


def attacked_clients(
    attack: str, strengths: Sequence[str], *, same: bool = False, table: str = "ours"
) -> Point:
    """One attack on one batch size under few defences: paper E's grid.

    ``same`` says that no search is involved, so that the numbers must be the recorded ones;
    searches in single precision end elsewhere when additions change their order.
    """

    def point(record: Record, data_root: str) -> list[Agreement]:
        from companion.experiments.clients import Setting

        swept = task_of(record, data_root, "attack_clients")
        least = min(t["batch_size"] for t in swept.tasks)
        tasks = [
            t for t in swept.tasks
            if t["attack"] == attack and t["batch_size"] == least and not t["aware"]
        ]  # fmt: skip
        chosen = [
            (task, pair)
            for task in tasks
            for pair in task["settings"]
            if Setting(*pair).title in strengths
        ]
        found = []
        for task, pair in chosen:
            result = swept.compute(task | {"settings": [pair]})
            at = {"attack": attack, "batch size": least, "setting": Setting(*pair).title}
            was = row_of(record.tables[table], **at, aware=False)
            now = float(np.mean(result["RMSE"]))
            allowed = 1e-3 if same else ERRORS * was["RMSE error"]
            found.append(Agreement(f"{at}: RMSE", now, was["RMSE"], allowed))
            norm = float(np.mean(result["gradient norm"]))
            found.append(
                Agreement(f"{at}: norm", norm, was["gradient norm"], SINGLE * was["gradient norm"])
            )
        return found

    return point


def attacked_pictures(method: str, **variant: Any) -> Point:
    """Paper E's attack without its parts on the smallest batches: a search, as above."""

    def point(record: Record, data_root: str) -> list[Agreement]:
        from dataclasses import asdict

        from companion.papers.liu2024.proposed_runs import Variant

        swept = task_of(record, data_root, "attack_batches")
        own = asdict(Variant(**variant))
        task = min((t for t in swept.tasks if t["variant"] == own), key=lambda t: t["batch_size"])
        result = swept.compute(task)
        found = []
        for metric in ("PSNR", "RMSE"):
            at = {"method": method, "batch size": task["batch_size"], "metric": metric}
            was = row_of(record.tables["cells"], **at)
            now = float(np.mean(result[metric]))
            found.append(Agreement(f"{at}", now, was["value"], ERRORS * was["error"]))
        return found

    return point


def matched_features(record: Record, data_root: str) -> list[Agreement]:
    """What an arm of matching starts from: fitted features, and the objective of the true pictures.

    One iteration of its first search under noise; at the printed size all take a quarter of an
    hour, and without noise the objective there is the rounding of half precision.
    """
    swept = task_of(record, data_root, "attack_batch")
    task = next(t for t in swept.tasks if t["noise"])
    result = swept.compute(task | {"grid": task["grid"] | {"iterations": 1}})
    was = row_of(record.tables["ends"], **{k: task[k] for k in ("noise", "arm", "batch")})
    return [
        Agreement(name, result[name], was[name], SINGLE * was[name])
        for name in ("cosine", "at the truth")
    ]


def attacked_without_features(record: Record, data_root: str) -> list[Agreement]:
    """One run of paper E's sweep of weights, from an untrained network and without features."""
    swept = task_of(record, data_root, "attack_batches")
    (task,) = (t for t in swept.tasks if t["variant"]["features"] == 0)
    was = row_of(record.tables["sweep"], weight="alpha_f", value=0.0)
    now = float(np.mean(swept.compute(task)["PSNR"]))
    return [Agreement("alpha_f = 0", now, was["PSNR"], ERRORS * was["error"])]


def recovered_features(record: Record, data_root: str) -> list[Agreement]:
    """The error of single records' features under paper E's settings, some draws of Table 2."""
    from companion.papers.liu2024.table2 import measured_rows

    swept = task_of(record, data_root, "feature_errors")
    task = min(swept.tasks, key=lambda t: (t["size"], t["first"]))
    errors = np.asarray(swept.compute(task | {"read": 0})["errors"])
    found = []
    for (title, _), values in zip(measured_rows(), errors, strict=True):
        was = row_of(record.tables["cells"], setting=title, **{"batch size": task["size"]})
        spread = max(was["ours deviation"], 0.01) / math.sqrt(len(values))
        found.append(Agreement(title, float(values.mean()), was["ours"], ERRORS * spread))
    if "networks" in record.tables:  # an older run has a single network
        swept = task_of(record, data_root, "single_record_error")
        now = swept.compute(swept.tasks[0])["feature error"]
        own = row_of(record.tables["networks"], network=0)["feature error"]
        found.append(Agreement("first network", now, own, SINGLE * own))
    return found


def trained_under_defences(record: Record, data_root: str) -> list[Agreement]:
    """One training without a defence and one under noise, of Table 5 of paper E."""
    swept = task_of(record, data_root, "train_settings")
    task = max(swept.tasks, key=lambda t: t["size"])
    rate = record.provenance.parameters["learning_rate"]
    chosen = [["None", 0.0, rate], ["GradNoise", 0.1, rate]]
    losses = swept.compute(task | {"settings": chosen, "runs": 1})["losses"]
    found = []
    for (defence, strength, _), runs in zip(chosen, losses, strict=True):
        at = {"defence": defence, "strength": strength, "batch size": task["size"], "rate": rate}
        was = rows_of(record.tables["losses"], at)["loss"]
        # rounding leads a training elsewhere; between first weights there are a few per cent
        allowed = max(ERRORS * float(was.std(ddof=1)), 0.05 * float(was.mean()))
        found.append(Agreement(f"{defence}: loss", runs[0][-1], float(was.iloc[0]), allowed))
    return found


def loss_of_noise(record: Record, data_root: str) -> list[Agreement]:
    """One training under light noise, of those whose mean loss Figure 3 of paper E has."""
    swept = task_of(record, data_root, "train_settings")
    task, parameters = max(swept.tasks, key=lambda t: t["size"]), record.provenance.parameters
    chosen = [["GradNoise", 0.001, parameters["learning_rate"]]]
    ((run,),) = swept.compute(task | {"settings": chosen, "runs": 1})["losses"]
    at = {"defence": "GradNoise", "strength": 0.001, "batch size": task["size"]}
    was = row_of(record.tables["ours"], **at)
    allowed = ERRORS * was["error"] * math.sqrt(parameters["runs"])
    return [Agreement("loss of one run", run[-1], was["loss"], allowed)]


def training_measured(table: str = "training") -> Point:
    """Accuracy and norms of one training of paper C, with the draws of the run."""

    def point(record: Record, data_root: str) -> list[Agreement]:
        swept = task_of(record, data_root, "measure_training")
        task = swept.tasks[0]
        now = swept.compute(task)
        keys = [
            k for k in ("epsilon", "learning_rate", "max_grad_norm")
            if k in record.tables[table].columns
        ]  # fmt: skip
        was = row_of(record.tables[table], **{k: task[k] for k in keys})
        return [Agreement(name, now[name], was[name], 0.01) for name in now]

    return point


#: of the task, the errors of all pixels and the task's result: a number for each target
Measured = Callable[[Mapping[str, Any], np.ndarray, Mapping[str, Any]], np.ndarray]


def attacked_targets(
    table: str, column: str, measure: Measured, epsilon: float, least: float = 1e-3, **at: Any
) -> Point:
    """The gradient-based attack of paper C on a few models of one epsilon, against all of them.

    The mean of ``measure`` over targets is ``column`` of the table; ``least`` is the least error of
    a mean.
    """

    def point(record: Record, data_root: str) -> list[Agreement]:
        from companion.experiments.informed_adversary import scene_of

        task, swept = _few_targets(record, data_root, "attack_targets", epsilon)
        result = swept.compute(task)
        scene = scene_of(task)
        truth = scene.images.inputs[scene.positions("targets")]
        values = measure(task, np.asarray(result["rebuilt"]) - truth, result)
        was = row_of(record.tables[table], epsilon=epsilon, **at)
        many = record.provenance.parameters["grey_targets"]
        what = f"epsilon {epsilon:g}: {column}"
        return [_mean_of_targets(what, values, float(was[column]), many, least)]

    return point


def _few_targets(
    record: Record, data_root: str, function: str, epsilon: float
) -> tuple[dict[str, Any], Sweep]:
    """The first MNIST task at one epsilon of a sweep, cut to twelve targets."""
    swept = task_of(record, data_root, function)
    whole = next(
        t for t in swept.tasks if t["epsilon"] == epsilon and not t["features"] and not t["first"]
    )
    return whole | {"count": 12}, swept


def _mean_of_targets(
    what: str, values: np.ndarray, recorded: float, many: int, least: float
) -> Agreement:
    few = len(values)
    error = max(float(values.std(ddof=1)) / math.sqrt(few), least)
    allowed = ERRORS * error * math.sqrt(1 + few / many)
    return Agreement(what, float(values.mean()), recorded, allowed)


def within_errors(
    table: str,
    keys: Sequence[str],
    values: Mapping[str, str],
    *,
    overrides: Mapping[str, Any],
    exact: Sequence[str] = (),
) -> Point:
    """Rows of a table from fewer draws, against those of all.

    Parameters
    ----------
    table : str
        Name of the recorded table.
    keys : sequence of str
        Columns that tell rows apart.
    values : mapping of str to str
        Columns that are compared, each with the column of its standard error.
    overrides : mapping
        Parameters that make the exhibit smaller; all rows that are left are compared.
    exact : sequence of str
        Columns that do not depend on draws.
    """

    def point(record: Record, data_root: str) -> list[Agreement]:
        found = []
        fewer = rerun(record, data_root, lambda name, task: True, overrides)
        for _, row in fewer[table].iterrows():
            at = {key: row[key] for key in keys}
            was, place = row_of(record.tables[table], **at), ", ".join(map(str, at.values()))
            for name, error in values.items():
                allowed = ERRORS * math.hypot(row[error], was[error])
                found.append(Agreement(f"{place}: {name}", row[name], was[name], allowed))
            for name in exact:
                reach = EXACT * abs(was[name])
                found.append(Agreement(f"{place}: {name}", row[name], was[name], reach))
        return found

    return point


def audited(record: Record, data_root: str) -> list[Agreement]:
    """Coverage, which is summed, and the share of canaries named in few runs at one noise."""
    runs, mu = 1000, 1.0
    fewer = {"mus": [mu], "images": 100, "canaries": 100, "runs": runs}
    now = rerun(record, data_root, lambda name, task: True, fewer)
    keys = ["candidates", "epsilon", "guesses"]
    found = _compared(now["coverage"], record.tables["coverage"], keys, (), EXACT)
    was = row_of(record.tables["many_runs"], **{"mu, certified": mu})["named"]
    error = math.sqrt(was * (1 - was) / record.provenance.parameters["runs"])
    share = now["many_runs"]["named"].iloc[0]
    return [*found, _share("canaries named", runs * share, runs, was, error)]


def attacked_with_two_losses(record: Record, data_root: str) -> list[Agreement]:
    """The attack with two readings of eq. (1) on a few models, against the comparison of all."""
    from companion.experiments.informed_adversary import scene_of, train_targets
    from companion.papers.hayes2023.alg_gradient_based import AVERAGED, readings
    from companion.papers.hayes2023.gradient_reconstructions import match_targets

    epsilon = 100.0
    task, _ = _few_targets(record, data_root, "compare_losses", epsilon)
    scene = scene_of(task)
    stored, pixels, labels = train_targets(scene)
    losses, agreements = readings(stored.residuals, scene.run.max_grad_norm), []
    many = record.provenance.parameters["compared"]
    for name in ("eq. (1)", AVERAGED):
        found = match_targets(scene, stored, labels, loss=losses[name])
        squared = _squared(task, as_numpy(found.inputs - pixels), {})
        was = float(row_of(record.tables["errors"], epsilon=epsilon, loss=name)["mean"])
        agreements.append(_mean_of_targets(f"MSE, {name}", squared, was, many, 1e-3))
    return agreements


def _squared(task: Mapping[str, Any], off: np.ndarray, result: Mapping[str, Any]) -> np.ndarray:
    return np.square(off).mean(axis=1)


def _told_from_others(prior_size: int) -> Measured:
    def success(task: Mapping[str, Any], off: np.ndarray, result: Mapping[str, Any]) -> np.ndarray:
        nearer = np.asarray(result["nearer"])
        return baselines.conversion_success(nearer, task["pool"] - 1, prior_size)

    return success


def _most_pixels_fit(
    task: Mapping[str, Any], off: np.ndarray, result: Mapping[str, Any]
) -> np.ndarray:
    from companion.papers.hayes2023.fig12 import PIXEL_TOLERANCE

    return ((np.abs(off) < PIXEL_TOLERANCE).mean(axis=1) >= 0.6).astype(float)


def blind_directions(record: Record, data_root: str) -> list[Agreement]:
    """What a batch can be changed by without a change of its gradient: paper D's attack."""
    from companion.papers.biswas2024.alg_iga import blind_change

    now = blind_change(context_of(record, data_root))["of the pictures"]
    was = float(record.tables["blind-change"]["of the pictures"].iloc[0])
    return [Agreement("change of the pictures", now, was, SINGLE * was)]


# The points ---------------------------------------------------------------------------------------


def _first_picture(name: str, task: Mapping[str, Any]) -> bool:
    return task["picture"] == 0


POINTS: dict[str, Point] = {
    "mean_to_extreme/fig1": same_rows(
        "errors", ["picture", "rows M"], {"picture": 0}, overrides={"pictures": 1}
    ),
    "mean_to_extreme/fig4": same_rows(
        "metrics",
        ["picture", "sigma"],
        {"picture": 0},
        lambda name, task: task["index"] == 0,
        # the perceptual loss is that of whichever network's weights are at hand
        columns=["mse", "psnr", "ncc", "nmi", "ssim", "norm", "contrast"],
    ),
    "mean_to_extreme/fig5": same_rows("errors", ["scale"]),
    "mean_to_extreme/fig6": same_rows("metrics", ["scenario", "sigma"]),
    "mean_to_extreme/cor1": same_rows(
        "variants", ["picture", "network"], {"picture": 0}, overrides={"pictures": 2}
    ),
    "ziller2024/fig1": same_rows(
        "metrics", ["row", "picture", "sigma"], {"picture": 0}, _first_picture
    ),
    "ziller2024/fig3": same_rows(
        "metrics",
        ["size", "C", "sigma"],
        {"size": 32},
        lambda name, task: task["size"] == 32,
    ),
    "ziller2024/fig4": same_rows(
        "metrics",
        ["row", "picture", "sigma"],
        {"picture": 0},
        _first_picture,
        columns=["C", "NMI", "SSIM", "norm"],
    ),
    **{
        f"ziller2024/fig{n}": same_rows("grid", ["size", "sigma"], {"size": 32})
        for n in (5, 6, 7, 8)
    },
    "beyond/learnt_prior": same_rows(
        "pairs",
        ["data", "one", "other"],
        {"sigma": 0.1},
        columns=["ratio"],
        overrides={"noise_multipliers": [0.1], "weights": "recorded"},
        allowed=SINGLE,
    ),
    "beyond/exact_batches": same_rows(
        "noise",
        ["draw", "noise"],
        {"draw": 0, "noise": 0.01},
        lambda name, task: True,
        overrides={
            "batch_sizes": [1],
            "draws": 2,
            "widths": [24],
            "width_draws": 5,
            "choices": 1000,
            "noises": [0.01],
            "iterations": 10,
        },
        allowed=1e-3,
    ),
    "beyond/prior_on_run": within_errors(
        "errors",
        ["epsilon", "attacker"],
        {"MSE": "standard error"},
        overrides={"epsilons": [1000.0], "targets": 10},
    ),
    "beyond/priors": within_errors(
        "errors",
        ["sigma", "attacker"],
        {"MSE": "standard error"},
        overrides={"noise_multipliers": [0.1], "targets": 100, "repeats": 1},
    ),
    "beyond/right_notion": within_errors(
        "kinds",
        ["knowledge", "mu"],
        {"success": "standard error"},
        overrides={"mus": [1.0], "trials": 20_000, "releases": 50},
        exact=["prior", "old bound", "survives", "variation"],
    ),
    "beyond/samplers": within_errors(
        "attack",
        ["sampler"],
        {"success": "standard error"},
        overrides={"trials": 50_000, "least_noise": 1e9},  # without the settings
        exact=["from", "to"],
    ),
    "beyond/correlated_noise": within_errors(
        "attack",
        ["mechanism", "error"],
        {"error, whole release": "standard error", "success": "success error"},
        overrides={"errors": [3.0], "attacked_errors": [3.0], "trials": 500, "tested": 100},
        exact=["law", "best success"],
    ),
    "beyond/audit_from_below": audited,
    "beyond/estimators": same_rows(
        "ratios",
        ["data", "sigma", "reconstruction"],
        {"data": "photographs, 32 px"},
        columns=["N", "ratio", "theory"],
        overrides={"sizes": [32], "digits": 200, "synthetic": 200, "dimensions": [4]},
    ),
    "beyond/data_bound": same_rows(
        "success",
        ["n", "epsilon"],
        {"n": 2, "epsilon": 10.0},
        overrides={"epsilons": [10.0], "groups": 1, "models": 40},
        columns=["bound", "orthogonal", "sum", "likelihood"],
        # 40 networks in the place of some thousand
        allowed={"bound": EXACT, "orthogonal": EXACT, "sum": 0.4, "likelihood": 0.4},
    ),
    "beyond/fair_utility": trained_networks("accuracy", pairing="BY_LAYER"),
    "beyond/joint_readings": attacked_under_a_reading,
    "beyond/fair_order": attacked_draws("points", {"MSE": "error"}, pairing="printed pairs"),
    "beyond/matching_arms": matched_features,
    "beyond/mechanism_or_calibration": attacked_draws(
        "attack", {"mse": "mse error", "ssim": "ssim error", "cosine": "cosine error"}
    ),
    "hayes2023/fig1": attacked_targets("attack", "MSE", _squared, 100.0, data="grey"),
    "hayes2023/fig6": attacked_targets("found", "MSE", _squared, 100.0, data="grey"),
    "hayes2023/fig8": attacked_targets(
        "success",
        "success",
        _told_from_others(2),
        1000.0,
        least=0.02,
        attack="gradient-based",
        **{"prior size": 2},
    ),
    "hayes2023/fig12": attacked_targets(
        "success", "success", _most_pixels_fit, 1e4, least=0.05, data="grey", rho=0.6
    ),
    "hayes2023/alg_gradient_based": attacked_with_two_losses,
    "hayes2023/alg_postprocess": attacked_targets(
        "conversion", "exact", _told_from_others(10), 1000.0, least=0.02
    ),
    "hayes2023/fig2": training_measured(),
    "hayes2023/fig3": prior_aware_trials("trained", {"epsilon": 10}, 100, prior_sizes=[2, 64]),
    "hayes2023/fig4": prior_aware_trials("trained", {"epsilon": 32}, 50),
    "hayes2023/fig5": subsampled_trials(300),
    "hayes2023/fig7": shared_trials(lambda t: t["epsilon"] == 10.0, ["epsilon", "width"]),
    "hayes2023/fig9": shared_trials(
        lambda t: t["epsilon"] == 10.0 and t["prior"] == "data", ["epsilon", "prior"]
    ),
    "hayes2023/fig10": shared_trials(lambda t: t["epsilon"] == 10.0, ["epsilon"]),
    "hayes2023/fig13": training_measured(),
    "hayes2023/fig14": subsampled_trials(300),
    "hayes2023/alg2": prior_aware_trials("trained", {"epsilon": 10}, 100),
    "hayes2023/alg3": prior_aware_trials("trained", {"epsilon": 32}, 50),
    "hayes2023/appG_attack": prior_aware_trials("scores", {}, 100, run="sub-sampled"),
    "biswas2024/alg1": same_rows(
        "lines",
        ["line", "does"],
        columns=["against", "ok"],
        overrides={"repeats": 2, "epochs": 1},
    ),
    "biswas2024/alg2": same_rows("lines", ["line", "does"], columns=["against", "ok"]),
    "biswas2024/alg_iga": blind_directions,
    "biswas2024/fig2": trained_networks("accuracy"),
    "biswas2024/fig5": same_rows("points", ["sigma"], allowed=ENCLOSED),
    "biswas2024/table4": same_rows("certified", ["sigma"], allowed=ENCLOSED),
    "biswas2024/table5": trained_networks("runs"),
    "biswas2024/table2": inverted_batches("rows", keys=["row"]),
    "biswas2024/table3": leaked_batches(),
    "biswas2024/table6": inverted_batches("ours"),
    "biswas2024/fig1": inverted_batches("ours"),
    "biswas2024/fig3": inverted_batches("recognised", keys=["row"]),
    "biswas2024/fig4": inverted_batches("ours"),
    "liu2024/table2": recovered_features,
    "liu2024/table3": attacked_pictures("Geiping", statistics=0.0),
    "liu2024/table5": trained_under_defences,
    "liu2024/table6": attacked_without_features,
    "liu2024/alg_reweight": attacked_pictures("joint"),
    "liu2024/alg_proposed": same_rows(
        "features",
        ["how", "batch size"],
        {"batch size": 1},
        columns=["cosine"],
        overrides={"iterations": 16, "decoder_steps": 1},
        allowed={"cosine": 0.01},
    ),
    "liu2024/fig2": attacked_clients("GradientInversion", ["None"], table="errors"),
    "liu2024/fig3": loss_of_noise,
    "liu2024/table4": attacked_clients(
        "Robbing The Fed", ["GradClip C=2", "GradPrune p=0.9"], same=True
    ),
    "liu2024/table7": attacked_clients("Ours", ["None"]),
    "liu2024/table8": attacked_clients("w/o FM", ["None"]),
    "liu2024/fig4": attacked_clients("w/o FM", ["GradNoise sigma0=0.001"]),
}
