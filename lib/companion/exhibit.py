"""Everything of the companion that an exhibit's file uses, to import from here alone.

What measures, judges, falsifies and draws, except for experiments that several papers share
(:mod:`companion.experiments`). Names are imported on first use.
"""

from typing import TYPE_CHECKING

from reconrisk import lazy

if TYPE_CHECKING:
    from companion.experiments.tools import (
        MNIST,
        SIGNIFICANCE,
        as_numpy,
        attack_repeatedly,
        data_folder,
        data_name,
        distance_to_law,
        keep_searches,
        kept_search,
        ks_p_value,
        mean_and_error,
        mnist,
        perceptual,
        photographs,
        reconstructions,
        shown_name,
        task_pictures,
        tensor,
    )
    from companion.study import registry
    from companion.study.exhibits import find_exhibit
    from companion.study.falsifiers import (
        Change,
        World,
        column,
        constant,
        frame,
        printed,
        scenario,
        together,
    )
    from companion.study.logic import (
        STANDARD_ERRORS,
        alike,
        any_of,
        at_least,
        at_most,
        clearly,
        every,
        jointly,
        negate,
        not_above,
        settle,
        within,
    )
    from companion.study.parameters import Parameter, Settings
    from companion.study.perturbations import Parts, at, by
    from companion.study.records import RECORDED, pictures_at_hand, read_record
    from companion.study.running import measurement
    from companion.study.session import Context
    from companion.study.sweep import as_table
    from companion.study.tables import Origin, Tables
    from companion.study.verdicts import (
        Verdict,
        check,
        compare,
        half_unit,
        not_run,
        refute,
        rounded,
        shared_by,
    )
    from companion.style import (
        ATTACKS,
        BEST,
        BLACK,
        BLUE,
        BOUND,
        COLOURS,
        DEFENCES,
        GREEN,
        GREY,
        MECHANISMS,
        ORANGE,
        PURPLE,
        RED,
        SCORES,
        SKY,
        attack_label,
        drawing,
        legend_above,
        legend_below,
        legend_line,
        mark_printed,
        panels,
        picture,
        printed_entry,
    )
else:
    __getattr__, __dir__ = lazy.attach(__name__)

#: all but the words that exhibits also have for their own things
__all__ = [
    "BLUE",
    "BOUND",
    "COLOURS",
    "Change",
    "Context",
    "GREEN",
    "GREY",
    "MNIST",
    "ORANGE",
    "Origin",
    "PURPLE",
    "Parameter",
    "Parts",
    "RED",
    "SIGNIFICANCE",
    "SKY",
    "STANDARD_ERRORS",
    "Settings",
    "Tables",
    "Verdict",
    "World",
    "alike",
    "any_of",
    "as_numpy",
    "as_table",
    "at",
    "at_least",
    "at_most",
    "attack_label",
    "attack_repeatedly",
    "by",
    "check",
    "clearly",
    "column",
    "compare",
    "data_folder",
    "data_name",
    "distance_to_law",
    "drawing",
    "every",
    "find_exhibit",
    "frame",
    "half_unit",
    "jointly",
    "keep_searches",
    "kept_search",
    "ks_p_value",
    "legend_above",
    "legend_below",
    "legend_line",
    "mark_printed",
    "mean_and_error",
    "measurement",
    "mnist",
    "negate",
    "not_above",
    "not_run",
    "panels",
    "perceptual",
    "photographs",
    "picture",
    "pictures_at_hand",
    "printed",
    "printed_entry",
    "read_record",
    "reconstructions",
    "refute",
    "registry",
    "rounded",
    "scenario",
    "settle",
    "shared_by",
    "shown_name",
    "task_pictures",
    "tensor",
    "together",
    "within",
]
