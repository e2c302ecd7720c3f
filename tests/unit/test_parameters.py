"""Parameters: typed, and refused with the valid ones when unknown or mistyped."""

from __future__ import annotations

import pickle

import pytest

from companion.study import Study
from companion.study.exhibits import all_exhibits
from companion.study.parameters import Parameter, Settings, resolve

PARAMETERS = {k: c.parameters for k, c in all_exhibits().items()}

GRID = {
    "trials": Parameter("int", 5, 1000, "1000", "how many", low=1),
    "sigma": Parameter("float", 0.5, 1.0, "1", "noise", low=0),
    "sizes": Parameter("ints", (8, 16), (224,), "224", "pixels", low=8),
    "norms": Parameter("floats", (1.0,), (1.0, 2.0), "1, 2", "clipping norms"),
    "data": Parameter("str", "digits", "folder", "ImageNet", "which pictures"),
}


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("trials", 7, 7),
        ("trials", "7", 7),
        ("trials", 7.0, 7),
        ("trials", "1e3", 1000),
        ("sigma", 2, 2.0),
        ("sigma", "1e-3", 1e-3),
        ("sigma", "1.0e-3", 1e-3),
        ("sizes", "[8, 32]", (8, 32)),
        ("sizes", (9,), (9,)),
        ("norms", "[1e-3, 2]", (1e-3, 2.0)),
        ("norms", [-1], (-1.0,)),
        ("data", "1", "1"),
    ],
)
def test_values_become_their_kind(name, given, expected):
    value = GRID[name].parse(name, given)
    assert value == expected
    assert type(value) is type(expected)


def test_a_value_of_a_profile_leads_to_its_draws_however_it_is_given():
    mixed = Parameter("floats", (1, 4, 10), (0.5, 10, 32), "1 to 32", "epsilon")
    assert repr(mixed.parse("epsilons", "[1.0, 7, 10, 32.0]")) == "(1, 7.0, 10, 32)"
    assert repr(Parameter("float", 2, 0.5, "2", "noise").parse("sigma", "2.0")) == "2"


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("trials", "many", "trials must be a whole number; got 'many'"),
        ("trials", 1.5, "trials must be a whole number; got 1.5"),
        ("trials", True, "trials must be a whole number; got True"),
        ("trials", "yes", "trials must be a whole number; got True"),
        ("trials", None, "trials must be a whole number; got None"),
        ("trials", "[1]", r"trials must be a whole number; got \[1\]"),
        ("sigma", "a: 1", "sigma must be a number"),
        ("sizes", 8, "sizes must be a list of whole numbers; got 8"),
        ("sizes", "8, 16", "sizes must be a list of whole numbers"),
        ("norms", "[1", "norms must be a list of numbers"),
        ("norms", "[1, [2]]", "norms must be a list of numbers"),
        ("data", 3, "data must be a text; got 3"),
    ],
)
def test_other_types_are_refused(name, given, message):
    with pytest.raises(TypeError, match=message):
        GRID[name].parse(name, given)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("trials", 0, "trials must be finite and at least 1; got 0"),
        ("sigma", "nan", "sigma must be finite"),
        ("sigma", float("inf"), "sigma must be finite"),
        ("sizes", [16, 4], "sizes must be finite and at least 8; got 4"),
        ("sizes", [], "sizes must not be empty"),
    ],
)
def test_values_out_of_range_are_refused(name, given, message):
    with pytest.raises(ValueError, match=message):
        GRID[name].parse(name, given)


def test_a_run_has_its_profiles_values_and_the_overrides():
    assert dict(resolve("x", GRID, "quick")) == {
        "trials": 5, "sigma": 0.5, "sizes": (8, 16), "norms": (1.0,), "data": "digits",
    }  # fmt: skip
    settings = resolve("x", GRID, "paper", {"trials": "20"})
    assert settings.trials == settings["trials"] == 20
    assert settings.sizes == (224,)
    assert len(settings) == 5


def test_unknown_names_list_the_valid_ones():
    with pytest.raises(TypeError) as refusal:
        resolve("a/fig1", GRID, "quick", {"trial": 3})
    assert str(refusal.value) == (
        "a/fig1 has no parameter 'trial'; its parameters: trials (int), sigma (float), "
        "sizes (ints), norms (floats), data (str)"
    )
    with pytest.raises(TypeError, match="its parameters: none"):
        resolve("a/fig1", {}, "quick", {"trial": 3})
    with pytest.raises(ValueError, match="profile must be one of quick, paper; got 'slow'"):
        resolve("a/fig1", GRID, "slow")


def test_settings_are_read_only_and_travel_between_processes():
    settings = Settings({"trials": 5})
    assert pickle.loads(pickle.dumps(settings)).trials == 5
    with pytest.raises(AttributeError, match="no parameter 'trial'"):
        _ = settings.trial
    with pytest.raises(TypeError):
        settings["trials"] = 6


def test_parameters_given_for_a_panel_are_those_of_its_figure(project):
    for key in ("ziller2024/fig1", "ziller2024/fig1_mse"):
        session = Study(overrides={key: {"samples": 7}})
        for asked in ("ziller2024/fig1", "ziller2024/fig1_psnr"):
            assert session.run(asked).tables.parameters["samples"] == 7


def test_every_profile_value_is_of_its_kind_and_in_range():
    assert PARAMETERS
    for exhibit, parameters in PARAMETERS.items():
        for name, parameter in parameters.items():
            for profile in ("quick", "paper"):
                value = getattr(parameter, profile)
                # to the letter: draws depend on how a number is written
                assert repr(parameter.parse(f"{exhibit}: {name}", value)) == repr(value)
