"""Verdicts: computed, and an error when the outcome is not the expected one."""

from __future__ import annotations

import re

import pytest

from companion.study import registry
from companion.study.tables import Origin
from companion.study.verdicts import (
    Verdict,
    VerdictError,
    check,
    compare,
    failures_kept,
    half_unit,
    judge_own_images,
    not_run,
    overall,
    raise_failed,
    refute,
    rounded,
)


def test_a_statement_that_holds_is_reproduced():
    verdict = check("A-001", True, "it holds", ours="1", paper="2", tolerance="3")
    assert verdict == Verdict("A-001", "reproduced", "it holds", "1", "2", "3")
    assert check("A-001", True, "", stand_in=True).status == "holds on stand-in data"


def test_a_claim_is_judged_in_the_words_of_its_row():
    words = registry.claims()["O-058"].claim
    assert [check("O-058", holds).statement for holds in (True, False, None)] == [words] * 3


def test_a_statement_that_does_not_hold_fails_with_both_values():
    verdict = check("A-001", False, "it holds", ours="1", paper="2")
    assert verdict == Verdict("A-001", "failed", "it holds", "1", "2", "", "does not hold")
    assert issubclass(VerdictError, AssertionError)


def test_a_known_difference_needs_its_reason_and_must_persist():
    verdict = check("A-001", False, "it holds", differs="other networks", stand_in=True)
    assert (verdict.status, verdict.why) == ("differs on stand-in data", "other networks")
    assert re.search(
        "holds after all", _told(check("A-001", True, "it holds", differs="other networks"))
    )


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        # beside what tests/property draws
        (".25", 0.005),
        (" 3 ", 0.5),
        ("1.25E+3", 5.0),
        (r"1.7\cdot 10^4", 500.0),
    ],
)
def test_half_a_unit_of_the_last_printed_digit(printed, expected):
    assert half_unit(printed) == expected


@pytest.mark.parametrize("text", ["", "about 3", "1,540", "28x28", "5 x 10", "0.1-0.2", "1e", "e5"])
def test_what_is_no_printed_number_is_refused(text):
    with pytest.raises(ValueError, match="printed must be a number"):
        half_unit(text)


def test_printed_numbers_are_compared_to_their_last_digit():
    verdict = compare("A-001", "cells", [38.94, 1.02e-8], [38.9, 1e-8], ["38.9%", "1.0e-8"])
    assert verdict.status == "reproduced"
    assert verdict.ours == "2 of 2 agree"
    assert verdict.paper == "2 printed numbers"
    assert "standard errors" not in verdict.tolerance
    assert re.search(
        r"1 of 2 agree; first: 38\.96 against 38\.9%",
        _told(compare("A-001", "cells", [38.96, 1e-8], [38.9, 1e-8], ["38.9%", "1.0e-8"])),
    )


def test_a_tie_in_the_last_digit_counts_as_agreement():
    # 0.15 and 0.25 are not floats; a paper may have rounded either way
    assert compare("A-001", "", [0.15], [0.1], ["0.1"]).status == "reproduced"
    assert compare("A-001", "", [0.15], [0.2], ["0.2"]).status == "reproduced"
    assert _told(compare("A-001", "", [0.1501], [0.1], ["0.1"]))


def test_monte_carlo_errors_widen_the_tolerance_by_four():
    arguments = ("A-001", "", [10.0], [10.44], ["10.4"])
    assert compare(*arguments, standard_error=0.1).status == "reproduced"
    assert "4 standard errors" in compare(*arguments, standard_error=[0.1]).tolerance
    assert _told(compare(*arguments, standard_error=0.09))
    assert _told(
        compare("A-001", "", [1.0, 9.0], [1.0, 5.0], ["1", "5"], standard_error=[1.0, 0.0])
    )


def test_nan_never_agrees():
    assert re.search("first: nan", _told(compare("A-001", "", [float("nan")], [1.0], ["1.0"])))
    assert _told(compare("A-001", "", [1.0], [1.0], ["1.0"], standard_error=float("nan")))


def test_comparisons_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="one length; got 2, 1, 1"):
        compare("A-001", "", [1.0, 2.0], [1.0], ["1"])


def test_known_differences_between_numbers():
    verdict = compare("A-001", "", [2.0], [1.0], ["1.0"], differs="another data set")
    assert (verdict.status, verdict.why) == ("differs", "another data set")
    assert re.search(
        "holds after all",
        _told(compare("A-001", "", [1.0], [1.0], ["1.0"], differs="another data set")),
    )


def _told(verdict):
    """Why a verdict failed, with its values; empty if it did not."""
    return f"{verdict.why} (ours: {verdict.ours})" if verdict.status == "failed" else ""


def test_the_wording_of_a_refutation_is_that_of_the_registry():
    row = registry.errata()["E-C-15"]
    verdict = refute("E-C-15", holds=False, corrected_holds=True)
    assert (verdict.statement, verdict.why) == (row.printed, row.corrected)
    claim = refute("C-024", erratum="E-C-15", holds=False, corrected_holds=True)
    assert (claim.statement, claim.why) == (registry.claims()["C-024"].claim, row.corrected)


def test_a_refutation_needs_a_correction_that_holds():
    verdict = refute("E-A-02", "it is C", holds=False, corrected="it is C^2", corrected_holds=True)
    assert (verdict.status, verdict.why) == ("refuted", "it is C^2")
    assert re.search(
        "the printed statement holds",
        _told(refute("E-A-02", "", holds=True, corrected="", corrected_holds=True)),
    )
    assert re.search(
        "the corrected statement fails",
        _told(refute("E-A-02", "", holds=False, corrected="", corrected_holds=False)),
    )
    assert _told(refute("E-A-02", "", holds=True, corrected="", corrected_holds=False))


def test_what_was_not_run_says_what_it_needs():
    assert not_run("A-001", "it holds", "ImageNet").as_dict() == {
        "target": "A-001", "status": "not run here", "statement": "it holds",
        "ours": "", "paper": "", "tolerance": "", "why": "ImageNet",
        "erratum": "", "notices": "", "on": "",
    }  # fmt: skip


def test_a_statement_about_data_says_which_part_of_them_it_holds_for():
    part, other = Origin((), ("5,000 of MNIST's images",)), Origin(("data = digits",), ("x",))
    verdict = check("A-001", True, "it holds", stand_in=part)
    assert (verdict.status, verdict.on) == ("reproduced", "5,000 of MNIST's images")
    assert verdict.outcome == "reproduced on 5,000 of MNIST's images"
    verdict = check("A-001", True, "it holds", stand_in=other)
    assert (verdict.outcome, verdict.on) == ("holds on stand-in data", "")
    # a law asks for no data: nobody passes their origin
    assert check("A-001", True, "it holds").outcome == "reproduced"


@pytest.mark.parametrize(
    ("origin", "status", "on"),
    [
        (Origin(), "reproduced", ""),
        (Origin((), ("a part",)), "reproduced", "a part"),
        (Origin((), ("a part", "another")), "reproduced", "a part and another"),
        (Origin(("data = digits",), ()), "holds on stand-in data", ""),
        (Origin(("data = digits",), ("a part",)), "holds on stand-in data", ""),
    ],
)
def test_every_kind_of_verdict_follows_the_one_rule_of_data(origin, status, on):
    """All of the paper's data: nothing is said. A part: which. A stand-in: never reproduced."""
    held = check("A-001", True, "it holds", stand_in=origin)
    compared = compare("A-001", "it is 1", [1.0], [1.0], ["1.0"], stand_in=origin)
    assert {(v.status, v.on) for v in (held, compared)} == {(status, on)}
    differing = check("A-001", False, "it holds", stand_in=origin, differs="it is so")
    differs = "differs on stand-in data" if origin else "differs"
    assert (differing.status, differing.on) == (differs, on)
    # data that stand in cannot refute; a part of the paper's can
    refuted = refute("E-A-02", "", holds=False, corrected_holds=True, stand_in=origin)
    assert (refuted.status, refuted.on) == (differs if origin else "refuted", on)
    assert check("A-001", False, "it holds", stand_in=origin).status == "failed"
    assert origin.whole == (not on and status == "reproduced")


def test_without_a_verdict_a_target_is_pending():
    assert overall([]) == "pending"


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (0.123456, 0.01, "0.12"),
        (0.123456, 0.099, "0.12"),
        (0.123456, 0.0001, "0.1235"),
        (123.456, 1.0, "123"),
        (126.0, 30.0, "130"),
        (-0.001, 0.01, "0.00"),
        (0.123456, 0.0, "0.1235"),
        (1e-9, 0.0, "1e-09"),
    ],
)
def test_values_are_shown_to_the_digits_they_support(value, error, expected):
    assert rounded(value, error) == expected


def test_comparing_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one number"):
        compare("B-014", "no numbers", [], [], [])


# What becomes of failed ones --------------------------------------------------------------------


def test_failed_verdicts_raise_unless_a_run_must_end_with_its_tables():
    good = check("A-001", True, "it holds")
    bad = check("A-002", False, "it is two", ours="1", paper="2")
    raise_failed([good])
    with pytest.raises(
        VerdictError, match=re.escape("A-002: it is two: does not hold (ours: 1; paper: 2)")
    ):
        raise_failed([good, bad])
    with failures_kept():
        raise_failed([good, bad])
    with pytest.raises(KeyError), failures_kept():
        raise KeyError
    with pytest.raises(VerdictError):
        raise_failed([bad])


def test_a_false_statement_is_told_as_the_papers_and_never_as_a_fact():
    """Else a line "every number is even (ours: 3)" reads as if we said so."""
    false = check("A-001", False, "all are even", differs="three is not")
    assert (false.told, false.reason) == ("The paper: all are even", "Here: three is not")
    open_ = check("A-001", None, "all are even", decided_by="more numbers")
    assert (open_.told, open_.reason) == ("The paper: all are even", "Here: needs more numbers")
    true = check("A-001", True, "all are even")
    assert (true.told, true.reason) == ("all are even", "")


def test_on_a_users_images_nothing_fails_and_both_values_are_said():
    off = judge_own_images(check("A-001", False, "it holds", ours="1", paper="2"))
    assert (off.status, off.why) == (
        "differs on stand-in data",
        "on the images given, does not hold",
    )
    assert (off.ours, off.paper) == ("1", "2")
    assert judge_own_images(check("A-001", True, "it holds")).status == "holds on stand-in data"
    held = judge_own_images(check("A-001", True, "it holds", differs="other networks"))
    assert (held.status, held.why) == ("holds on stand-in data", "")
    known = judge_own_images(check("A-001", False, "it holds", differs="other networks"))
    assert (known.status, known.why) == ("differs on stand-in data", "other networks")
    wrong = judge_own_images(refute("E-A-03", holds=False, corrected_holds=False))
    assert wrong.why == "on the images given, the corrected statement fails"
    right = judge_own_images(refute("E-A-03", holds=True, corrected_holds=True))
    assert (right.status, right.why) == ("holds on stand-in data", "")


def test_what_the_error_does_not_decide_says_what_would():
    judged = check("A-001", None, "it holds", differs="known not to", decided_by="10,000 trials")
    assert (judged.status, judged.why) == ("not decided", "needs 10,000 trials")
    assert refute("E-A-02", holds=None, corrected_holds=True).status == "not decided"


def test_a_slip_of_the_pen_is_a_misprint():
    verdict = refute("E-A-01", holds=False, corrected_holds=True)
    assert registry.errata()["E-A-01"].weight == verdict.status == "misprint"


def test_a_statement_in_doubt_is_told_as_whose_it_is():
    assert Verdict("C-001", "differs", "it holds").told == "The paper: it holds"
    own = next(c.id for c in registry.claims().values() if c.paper_key == "beyond")
    for target in (own, "beyond/priors"):
        assert Verdict(target, "not decided", "it holds").told == "Our claim: it holds"
        assert Verdict(target, "reproduced", "it holds").told == "it holds"
