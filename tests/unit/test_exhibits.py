"""The study: contexts, seeds, declared targets, data sets."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from companion import study
from companion.study import exhibits, registry, sources
from companion.study.exhibits import find_exhibit, judge_tables
from companion.study.running import add_parameter_context, stand_ins, subsets
from companion.study.verdicts import check
from reconrisk import datasets


def test_every_exhibit_settles_only_ids_of_the_registry_and_no_id_twice():
    seen: dict[str, str] = {}
    for exhibit_id, exhibit in study.all_exhibits().items():
        for target in exhibit.targets:
            registry.place_of(target)
            assert target not in seen, f"{target} is settled by {seen[target]} and {exhibit_id}"
            seen[target] = exhibit_id


@pytest.mark.parametrize("paper", list(registry.PAPERS))
def test_nothing_of_the_built_papers_is_left_without_an_exhibit(paper):
    settled = {t for c in study.all_exhibits().values() for t in c.targets}
    rows = [e.id for e in registry.exhibits().values() if e.paper_key == paper and e.computable]
    rows += [c.id for c in registry.claims().values() if c.paper_key == paper]
    rows += [e.id for e in registry.errata().values() if e.paper_key == paper]
    assert sorted(set(rows) - settled) == []


def test_errata_are_computed_where_their_row_says():
    settled = {t: e for e, c in study.all_exhibits().items() for t in c.targets}
    assert {e.id: settled.get(e.id) for e in registry.errata().values()} == {
        e.id: e.exhibit for e in registry.errata().values()
    }


def test_every_exhibit_states_what_its_paper_profile_costs():
    costs = registry.costs()
    assert set(costs) == set(study.all_exhibits())
    assert all(float(c.seconds) >= 0 and 0 < float(c.memory_gb) < 64 for c in costs.values())
    assert costs["mean_to_extreme/fig4"].needs_data and not costs["ziller2024/table1"].needs_data


def test_one_file_settles_several_exhibits_each_by_its_name():
    from companion.papers.liu2024 import lemC4, lemC5

    assert find_exhibit("liu2024/lemC5").file is lemC5
    assert find_exhibit("liu2024/lemC5").targets == {"liu2024/lemC5", "E-E-23"}
    assert find_exhibit("liu2024/lemC4").targets == {"liu2024/lemC4"}
    modules = {find_exhibit(f"liu2024/lemC{number}").module for number in (4, 5)}
    assert modules == {"companion.papers.liu2024.step_changes"} == {lemC4.FAMILY}
    assert "reconrisk/two_layer/__init__.py" in {  # its code is the family's
        path.relative_to(path.parents[2]).as_posix()
        for path in sources.source_files(find_exhibit("liu2024/lemC4").module).values()
    }
    with pytest.raises(ImportError):
        from companion.papers.liu2024 import lemC99  # noqa: F401


def test_an_exhibit_of_a_family_is_measured_under_its_own_name():
    small = {"networks": 2, "widths": (1024, 2048), "dimensions": (8, 12), "batches": (1, 2)}
    names = ("liu2024/lemC4", "liu2024/lemC5")
    run = study.Study(overrides=dict.fromkeys(names, small))
    first, second = (find_exhibit(name).file.measure(run) for name in names)
    assert (first.exhibit, second.exhibit) == names
    assert "derivative" in second and "derivative" not in first


def test_an_exhibit_that_judges_something_else_is_an_error(monkeypatch):
    def lazy(tables):
        yield check("A-014", True, "")

    file = study.find_exhibit("mean_to_extreme/prop2").file
    monkeypatch.setattr(file, "judge", lazy)
    with pytest.raises(RuntimeError, match="no verdict for"):
        judge_tables(file, study.Tables({}))


def test_an_error_that_names_no_parameter_tells_which_were_given():
    exhibit = "mean_to_extreme/prop2"
    usual = study.find_exhibit(exhibit).parameters["repeats"].quick
    causes = {"noise": KeyError("prior-aware"), "repeats": ValueError("repeats must be even")}

    def run(**given):
        context = study.Study(overrides={exhibit: given}).context(exhibit)
        with add_parameter_context(study.find_exhibit(exhibit), context):
            raise causes["noise" if context.parameters.repeats == usual else "repeats"]

    with pytest.raises(KeyError, match="prior-aware"):
        run()
    with pytest.raises(ValueError, match="^repeats must be even$"):
        run(repeats=500)
    with pytest.raises(ValueError, match="cannot be computed with") as refusal:
        run(noise_multiplier=0.5, dimension=8)
    assert str(refusal.value) == (
        "mean_to_extreme/prop2 cannot be computed with noise_multiplier = 0.5, where the quick "
        "profile has 0.3; dimension = 8, where the quick profile has 16 (KeyError: 'prior-aware')"
    )
    assert refusal.value.__cause__ is causes["noise"]


def test_seeds_depend_on_study_exhibit_and_purpose_only():
    context = study.Study(seed=3).context("mean_to_extreme/prop2")
    same = study.Study(seed=3, workers=2).context("mean_to_extreme/prop2")
    other = study.Study(seed=4).context("mean_to_extreme/prop2")
    assert context.seed_of("a") == same.seed_of("a")
    another = study.Study(seed=3).context("mean_to_extreme/prop3")
    draws = context.seed_of("a"), context.seed_of("b"), other.seed_of("a"), another.seed_of("a")
    assert len(set(draws)) == 4
    paper = study.Study(seed=3, profile="paper").context("mean_to_extreme/prop2")
    assert paper.seed_of("a") == context.seed_of("a")
    assert context.rng("x").random() == same.rng("x").random()


def test_the_same_seed_gives_the_same_result():
    overrides = {"mean_to_extreme/prop2": {"repeats": 200, "rival_repeats": 5000}}
    first, second = (
        study.Study(overrides=overrides).run("mean_to_extreme/prop2") for _ in range(2)
    )
    assert first.as_dict() == second.as_dict()
    assert first.tables["errors"].equals(second.tables["errors"])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"profile": "fast"}, ValueError, "quick, paper"),
        ({"seed": -1}, ValueError, "seed must be in"),
        ({"workers": 0}, ValueError, "workers must be in"),
        ({"device": "tpu"}, ValueError, "cpu, cuda"),
        ({"data_root": "/nowhere/at/all"}, FileNotFoundError, "existing folder"),
        ({"overrides": {"mean_to_extreme/fig99": {}}}, KeyError, "did you mean"),
        (
            {"overrides": {"mean_to_extreme/fig2": {"sample": 3}}},
            TypeError,
            r"has no parameter 'sample'; its parameters: samples \(int\)",
        ),
        (
            {"overrides": {"mean_to_extreme/fig2": {"samples": 3.5}}},
            TypeError,
            "samples must be a whole number",
        ),
    ],
)
def test_a_study_refuses_what_it_does_not_know_at_once(arguments, error, message):
    with pytest.raises(error, match=message):
        study.Study(**arguments)


def test_a_study_refuses_an_exhibit_that_nothing_computes_yet(monkeypatch):
    monkeypatch.setattr(exhibits, "find_file_exhibit", lambda exhibit_id: None)
    with pytest.raises(KeyError, match=r"ziller2024/table1 is not built yet \(pending\)"):
        study.Study(overrides={"ziller2024/table1": {}})


def test_the_paper_profile_names_the_data_it_lacks():
    with pytest.raises(FileNotFoundError, match=r"data_root, a folder in the layout root/class"):
        study.Study(profile="paper").run("mean_to_extreme/fig5")


def test_bundled_pictures_are_square_colour_and_in_range():
    pictures = datasets.pictures(32, 10)
    assert pictures.shape == (10, 32, 32, 3)
    assert pictures.min() >= 0 and pictures.max() <= 1
    assert all(p.std() > 0.03 for p in pictures)  # no blank one
    np.testing.assert_array_equal(datasets.pictures(32, 4), pictures[:4])
    with pytest.raises(ValueError, match="count must be at most 60"):
        datasets.pictures(32, 61)


def test_a_folder_of_pictures_is_read_in_order_and_checked(tmp_path):
    for index, name in enumerate(("b/two.png", "a/one.jpg", "c/three.png")):
        path = tmp_path / name
        path.parent.mkdir()
        Image.fromarray(np.full((40, 60, 3), 80 * index, dtype=np.uint8)).save(path)
    pictures = datasets.pictures(16, 3, tmp_path)
    assert [round(float(p.mean()) * 255) for p in pictures] == [80, 0, 160]  # a, b, c
    with pytest.raises(ValueError, match="at most 3"):
        datasets.pictures(16, 4, tmp_path)
    (tmp_path / "a" / "one.jpg").write_bytes(b"not a picture")
    with pytest.raises(ValueError, match=r"one\.jpg cannot be read"):
        datasets.pictures(16, 1, tmp_path)
    with pytest.raises(FileNotFoundError, match="nothing cannot be listed"):
        datasets.pictures(16, 1, tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no image in"):
        datasets.pictures(16, 1, tmp_path / "empty")


def test_pictures_count_as_the_papers_own_only_in_folders_of_imagenet_classes(tmp_path):
    assert not datasets.is_imagenet(tmp_path) and not datasets.is_imagenet(None)
    context = study.Study(profile="paper", data_root=tmp_path).context("mean_to_extreme/fig5")
    assert context.stand_in
    beagle = tmp_path / "photographs" / "n02088364_beagle" / "one.jpg"  # beside other data sets
    holiday = tmp_path / "holiday" / "one.jpg"
    for path in (beagle, holiday):
        path.parent.mkdir(parents=True)
        Image.fromarray(np.full((40, 60, 3), 80, dtype=np.uint8)).save(path)
    assert not datasets.is_imagenet(tmp_path) and context.stand_in
    holiday.unlink()
    assert datasets.is_imagenet(tmp_path) and not context.stand_in
    quick = study.Study().context("mean_to_extreme/fig5")
    assert not quick.stand_in
    assert subsets(find_exhibit("mean_to_extreme/fig5"), quick) == ("one of ImageNet's images",)
    fig4, bits = (find_exhibit(name) for name in ("mean_to_extreme/fig4", "beyond/bit_layer"))
    assert subsets(bits, study.Study().context(bits.id)) == ("8 of ImageNet's images",)
    figure = find_exhibit("ziller2024/fig3")
    for picture, others in ((19, ()), (20, ("photographs other than ImageNet's",))):
        chosen = study.Study(overrides={figure.id: {"picture": picture}}).context(figure.id)
        assert subsets(figure, chosen) == ("one of ImageNet's images",)
        assert stand_ins(figure, chosen) == others
    # from the twenty-first on they are not ImageNet's
    for count, others in ((20, ()), (21, ("photographs other than ImageNet's",))):
        overrides = {fig4.id: {"pictures": count}}
        assert stand_ins(fig4, study.Study(overrides=overrides).context(fig4.id)) == others
