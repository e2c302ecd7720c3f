"""Exhibits on images of the reader's own."""

from __future__ import annotations

import json

import numpy as np
import pytest

from companion import study
from companion.study import own_images
from companion.study.exhibits import all_exhibits, find_exhibit
from companion.study.provenance import describe_run, explain
from companion.study.records import read_record
from reconrisk import datasets

EVERY = all_exhibits()
READING = {e: c for e, c in EVERY.items() if own_images.reads_data(c)}


@pytest.fixture
def images(tmp_path):
    """Write 240 pictures of 12x14 pixels in colour, in twelve classes, to one file."""
    rng = np.random.default_rng(0)
    path = tmp_path / "mine.npz"
    pixels = rng.integers(0, 256, (240, 14, 12, 3), dtype=np.uint8)
    np.savez(path, images=pixels, labels=np.arange(240) % 12)
    return path


# How images are read ----------------------------------------------------------------------------


def test_every_exhibit_that_names_a_data_set_or_photographs_takes_images():
    named = {
        exhibit
        for exhibit, known in EVERY.items()
        for p in known.parameters.values()
        if {p.quick, p.paper} & set(datasets.CLASSIFIED)
    }
    assert named | {e for e, known in EVERY.items() if known.photographs} == set(READING)
    assert len(READING) >= 66
    for exhibit in named:
        read = own_images.data_parameters(EVERY[exhibit].parameters)
        assert len(set(read.values())) == len(read), exhibit  # no set stands for two
        assert set(read.values()) <= set(datasets.OWN)


@pytest.mark.parametrize(
    ("exhibit", "read"),
    [
        ("hayes2023/fig3", {"dataset": "own grey"}),
        ("hayes2023/fig1", {"grey": "own grey", "colour": "own colour"}),
        ("biswas2024/fig1", {"digits": "own grey 1 of 2", "garments": "own grey 2 of 2"}),
        ("liu2024/table4", {"data": "own colour"}),
        ("ziller2024/fig1", {}),
    ],
)
def test_images_are_read_as_the_papers_are(exhibit, read):
    known = find_exhibit(exhibit)
    assert own_images.data_parameters(known.parameters) == read
    small = {n: datasets.SMALL if v == "own grey" else v for n, v in read.items()}
    assert own_images.data_parameters(known.parameters, "quick") == small


def test_halves_share_no_image_and_classes_are_at_most_ten(images):
    whole = datasets.classified("own grey", images, "all")
    halves = [datasets.classified(name, images, "all") for name in datasets.HALVES]
    rows = [{row.tobytes() for row in half.inputs} for half in halves]
    assert not rows[0] & rows[1]
    assert [half.name for half in halves] == [f"own images (mine), {k} of 2" for k in (1, 2)]
    assert rows[0] | rows[1] == {row.tobytes() for row in whole.inputs}
    assert whole.shape == (28, 28)
    assert whole.classes == 10
    counts = [np.bincount(half.labels, minlength=10) for half in halves]
    assert np.abs(counts[0] - counts[1]).max() <= 1
    assert datasets.classified(datasets.SMALL, images, "all").shape == (16, 16)
    colour = datasets.classified("own colour", images, "train", side=16)
    assert colour.shape == (16, 16, 3)
    test = datasets.classified("own colour", images, "test", side=16)
    assert len(colour) + len(test) == 240
    # twelve classes are taken as ten, of which two have twice as many images
    assert len(test) == 8 * (20 // 6) + 2 * (40 // 6)


def test_a_few_images_of_many_classes_have_a_part_for_testing(tmp_path):
    path = tmp_path / "few.npz"
    np.savez(path, images=np.zeros((100, 8, 8), np.uint8), labels=np.arange(100))
    assert len(datasets.classified("own grey", path, "test")) == 10


# What is refused --------------------------------------------------------------------------------


def test_an_exhibit_that_reads_nothing_refuses_images(call_command, images):
    error = call_command("run", "ziller2024/table1", "--data", images, code=2).stderr
    assert "ziller2024/table1 reads no data set and no photographs" in error


@pytest.mark.parametrize(
    ("exhibit", "message"),
    [
        ("hayes2023/fig9", "needs 1,009 images to train with (known = 999 and prior_size = 10)"),
        ("hayes2023/fig9", "(12 classes) has 204"),  # the others are for testing
        ("biswas2024/table5", "needs 256 images to train with (batches of 128, for each of two"),
        ("liu2024/alg_proposed", "needs 544 images to train with (auxiliary = 512 besides images"),
    ],
)
def test_too_few_images_are_refused_before_anything_runs(call_command, images, exhibit, message):
    error = call_command("run", exhibit, "--data", images, code=2).stderr
    assert message in error
    assert f"`companion parameters {exhibit}`" in error
    assert "computing" not in error


def test_photographs_ask_for_as_many_as_they_show(call_command, tmp_path):
    path = tmp_path / "three.npz"
    np.savez(path, images=np.zeros((3, 8, 8), np.uint8))
    error = call_command("run", "ziller2024/fig1", "--data", path, code=2).stderr
    assert "ziller2024/fig1 needs 4 images (pictures = 4)" in error
    with pytest.raises(ValueError, match=r"needs 100 images \(pictures = 100\)"):
        study.Study(profile="paper", data=path).context("ziller2024/fig1")
    assert study.Study(data=path).context("mean_to_extreme/fig5").data_root == path
    with pytest.raises(ValueError, match=r"needs 8 images \(pictures = 1 and others = 7\)"):
        study.Study(data=path).context("beyond/bit_layer")


def test_images_of_one_class_cannot_train_a_classifier(call_command, tmp_path):
    path = tmp_path / "alike.npz"
    np.savez(path, images=np.zeros((2000, 4, 4), np.uint8))
    error = call_command("run", "hayes2023/fig9", "--data", path, code=2).stderr
    assert "needs images of at least 2 classes" in error
    assert "a folder for each class" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "nowhere"], "data must be an existing folder or file; got 'nowhere'"),
        (["--data", "mine.npz", "--data-root", "."], "give data or data_root, not both"),
        (["--data", "mine.npz", "--set", "digits=MNIST"], "digits cannot be set"),
    ],
)
def test_contradictions_are_mistakes(call_command, images, monkeypatch, options, message):
    monkeypatch.chdir(images.parent)
    assert message in call_command("run", "biswas2024/alg2", *options, code=2).stderr


# What comes of it -------------------------------------------------------------------------------


def test_a_labelled_exhibit_runs_on_images(call_command, images, tmp_path):
    shown = call_command("run", "biswas2024/alg2", "--data", images, "--out", "out").stdout
    assert "On the images given, the file mine.npz" in " ".join(shown.split())
    record = read_record(tmp_path / "work" / "out")
    origin = record.provenance
    assert origin.parameters["digits"] == "own grey 16x16"
    assert list(origin.inputs) == ["own images (mine.npz)"]
    assert str(tmp_path) not in json.dumps(vars(record.provenance)) + record.ran
    # the record answers for these images and for no others
    session = study.Study(data=images)
    assert not explain("biswas2024/alg2", origin, session)
    arrays = dict(np.load(images))
    arrays["images"][0] += 1
    np.savez(images, **arrays)
    assert [str(r) for r in explain("biswas2024/alg2", origin, session)] == [
        "inputs: own images (mine.npz) changed"
    ]
    assert explain("biswas2024/alg2", origin, study.Study())
    assert "up to date" not in call_command("run", "biswas2024/alg2", "--out", "out").stderr
    assert "up to date" in call_command("run", "biswas2024/alg2", "--out", "out").stderr


def test_photographs_run_on_images(images):
    result = study.Study(data=images).run("mean_to_extreme/fig5")
    assert result.status == "holds on stand-in data"
    assert "as photographs" in result.tables.ran
    original = datasets.own_images(images, side=224, colour=True, most=1).pictures()[0]
    assert any(
        np.allclose(picture, original, atol=1e-6) for picture in result.tables.images.values()
    )


def test_a_statement_that_fails_on_images_differs_and_loses_nothing(images, monkeypatch):
    known = find_exhibit("mean_to_extreme/fig5")
    module = __import__(known.module, fromlist=["check"])
    check = module.check

    def refuses(target, holds, statement, **more):
        return check(target, holds and target != "mean_to_extreme/fig5", statement, **more)

    monkeypatch.setattr(module, "check", refuses)
    with pytest.raises(study.VerdictError, match="A-041"):
        study.Study().run("mean_to_extreme/fig5")
    result = study.Study(data=images).run("mean_to_extreme/fig5")
    (verdict,) = result.of("A-041")
    assert verdict.status == "differs on stand-in data"
    assert verdict.why == "on the images given, does not hold"
    assert verdict.ours
    assert verdict.paper
    assert result.tables
    describe_run(study.Study(data=images), "mean_to_extreme/fig5", 1.0)


def test_settings_without_images_are_those_of_the_profile():
    for exhibit, known in READING.items():
        settings = study.Study().context(exhibit).parameters
        assert dict(settings) == {n: p.quick for n, p in known.parameters.items()}, exhibit
