"""The reconstruction risk of a training run: the bounds of every threat model side by side.

Describe the run, the records and the questions; :func:`assess` answers for every threat model of
the five papers, each entry with its assumptions, its source and what is known of its tightness.
:func:`least_noise` is the inverse: the least noise for a stated risk. NumPy and SciPy only.
"""

from typing import TYPE_CHECKING

from reconrisk import lazy

if TYPE_CHECKING:
    from reconrisk.risk._assess import assess
    from reconrisk.risk._catalogue import KINDS
    from reconrisk.risk._correlated import correlated_run, from_matrix_mechanism
    from reconrisk.risk._dp_events import from_dp_event
    from reconrisk.risk._entries import DIRECTIONS, THREAT_MODELS, Entry, Source, ThreatModel
    from reconrisk.risk._guarantees import from_guarantee
    from reconrisk.risk._judgement import Judgement
    from reconrisk.risk._kinds import POINTS, Kind, Method, Point, Setting
    from reconrisk.risk._least_noise import LeastNoise, least_noise
    from reconrisk.risk._opacus import from_opacus
    from reconrisk.risk._references import REFERENCES, Reference
    from reconrisk.risk._report import SCHEMA_VERSION, Report
    from reconrisk.risk._settings import (
        Questions,
        Record,
        SettingError,
        TrainingRun,
        TwoLayerModel,
        questions,
        record,
        training_run,
        two_layer_model,
    )
else:
    __getattr__, __dir__ = lazy.attach(__name__)

__all__ = [
    "DIRECTIONS",
    "KINDS",
    "POINTS",
    "REFERENCES",
    "SCHEMA_VERSION",
    "THREAT_MODELS",
    "Entry",
    "Judgement",
    "Kind",
    "LeastNoise",
    "Method",
    "Point",
    "Questions",
    "Record",
    "Reference",
    "Report",
    "Setting",
    "SettingError",
    "Source",
    "ThreatModel",
    "TrainingRun",
    "TwoLayerModel",
    "assess",
    "correlated_run",
    "from_dp_event",
    "from_guarantee",
    "from_matrix_mechanism",
    "from_opacus",
    "least_noise",
    "questions",
    "record",
    "training_run",
    "two_layer_model",
]
