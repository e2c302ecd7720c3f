"""What the paper profile costs: the model behind times on other machines, the command, the page."""

from __future__ import annotations

import json
import math

import pytest
from typer.testing import CliRunner

from companion.book import costs_page
from companion.cli.app import app
from companion.cli.data import list_readers
from companion.study import costs, registry

CPU = registry.Cost("a/b", "100", "1.5", "2 CPU cores", "", "measured", "10")
GPU = registry.Cost("a/c", "7200", "40", "1 GPU", "CIFAR-10", "a rough estimate", "")


def test_work_spreads_over_as_many_cores_as_there_are_tasks():
    price = costs.price_of(CPU)
    assert (price.core_seconds, price.gpu_seconds, price.tasks) == (200.0, 0.0, 10)
    assert [price.seconds_on(n) for n in (1, 2, 10, 11, 1000)] == [200, 100, 20, 20, 20]
    on_gpu = costs.price_of(GPU)
    assert (on_gpu.core_seconds, on_gpu.gpu_seconds) == (0.0, 7200.0)
    assert on_gpu.seconds_on(64) == 7200 and not on_gpu.measured


def test_nothing_ends_before_its_longest_task():
    alone = costs.Price("a/d", 60.0, 0.0, 1, 1.0, True, "measured")
    together = costs.total([costs.price_of(CPU), alone, costs.price_of(GPU)])
    assert together.core_seconds == together.measured_core_seconds == 260
    assert together.gpu_seconds == 7200
    assert [together.seconds_on(n) for n in (1, 2, 4, 5, 1000)] == [260, 130, 65, 60, 60]
    assert costs.total([]).seconds_on(8) == 0


@pytest.mark.parametrize("device", ["a laptop", "CPU cores", "2 TPU", ""])
def test_other_devices_are_refused(device):
    row = registry.Cost("a/b", "1", "1", device, "", "measured")
    with pytest.raises(ValueError, match="a/b: the device must be"):
        costs.price_of(row)


def test_every_stored_cost_is_whole():
    for cost in registry.costs().values():
        price = costs.price_of(cost)
        assert price.core_seconds + price.gpu_seconds >= 0 and price.memory_gb > 0, cost.exhibit
        assert price.tasks >= 1 and math.isfinite(price.core_seconds), cost.exhibit
        assert cost.basis, cost.exhibit


def test_every_stored_cost_names_the_data_that_the_paper_profile_reads():
    """The loader's names, from the parameters, against those that the pages print."""
    read = list_readers()
    for cost in registry.costs().values():
        named = [name for name in read if cost.exhibit in read[name]]
        assert cost.needs_data == " and ".join(named), cost.exhibit


def test_the_command_and_the_page_tell_the_same():
    run = CliRunner().invoke(app, ["costs", "--json", "--cores", "2", "--cores", "128"])
    told = json.loads(run.stdout)
    priced = [costs.price_of(c) for c in registry.costs().values()]
    assert told["total"]["exhibits"] == len(told["exhibits"]) == len(priced)
    hours = math.fsum(p.core_seconds for p in priced) / 3600
    assert told["total"]["core_hours"] == pytest.approx(hours, rel=1e-12)
    assert told["total"]["core_hours"] == pytest.approx(
        math.fsum(t["core_hours"] for t in told["papers"].values()), rel=1e-12
    )
    for entry in told["exhibits"]:
        assert entry["seconds"]["2"] >= entry["seconds"]["128"]
    page = costs_page.costs_page()
    assert f"({told['total']['measured']})" in page
    assert costs_page.span(told["total"]["seconds"]["128"]) in page.replace("\\", "")
    for price in priced:
        assert registry.exhibit(price.exhibit).anchor in page

    table = CliRunner().invoke(app, ["costs", "--paper", "ziller2024"])
    assert table.exit_code == 0 and "ziller2024/fig4" in table.stdout
    assert "hayes2023" not in table.stdout
    assert CliRunner().invoke(app, ["costs", "--paper", "nobody"]).exit_code == 2


@pytest.mark.parametrize(
    "seconds, text",
    [(0.2, "<1 s"), (12, "12 s"), (99.4, "99 s"), (100, "1.7 min"), (5900, "98 min")]
    + [(6000, "1.7 h"), (71 * 3600, "71 h"), (86400 * 5, "5 days"), (86400 * 1000, "2.7 years")],
)
def test_times_have_two_digits_and_a_fitting_unit(seconds, text):
    assert costs_page.span(seconds) == text


@pytest.mark.parametrize(
    "seconds, text", [(0, "0"), (10, "<0.01"), (360, "0.1"), (36000, "10"), (3.5e7, "9,700")]
)
def test_hours_have_two_digits(seconds, text):
    assert costs_page.hours(seconds) == text
