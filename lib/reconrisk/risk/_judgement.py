"""A report in plain words: for each attacker a sentence with its numbers, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from reconrisk.privacy._samplers import NEIGHBOURS
from reconrisk.risk._catalogue import KINDS
from reconrisk.risk._correlated import CorrelatedRun, given_noise
from reconrisk.risk._entries import Entry
from reconrisk.risk._kinds import Point, Setting, compute_entry
from reconrisk.risk._least_noise import least_noise
from reconrisk.risk._numbers import chance, count, number, share
from reconrisk.risk._settings import TrainingRun
from reconrisk.risk._warnings import dataset_size

__all__ = [
    "PICTURE_SIDE",
    "Judgement",
    "judgements",
    "picture_words",
    "thumbnail_psnr",
    "values_words",
]

#: epsilon up to which protection is called strong and reasonable (Ponomareva et al. 2023)
STRONG, REASONABLE = 1.0, 10.0
#: certain share of the members that the best test recognises, from which on nothing is protected
NOTHING = 0.99
#: re-identification risk that the European Medicines Agency and Health Canada accept
REIDENTIFICATION = 0.09
#: gain over a blind guess, in shares of the way to certainty, up to which it is called slight
SLIGHT, MUCH = 0.1, 0.5
#: times a blind guess's chance up to which naming one of ten is called hardly better
HARDLY = 1.1
#: side of the thumbnail to which an eye, or an attacker, averages a noisy picture
PICTURE_SIDE = 32
_FALSE_ALARMS = 0.01
#: how far the middle of the range is from values that are uniform in it
_MIDDLE = math.sqrt(1.0 / 12.0)
#: words on information, and the bits from which the second and later ones stand
_INFORMATION = ("next to nothing", "little", "more than one attribute", "possibly all of it")
_BITS = (0.1, 1.0, 20.0)
#: for verdicts on naming and on attributes, the mildest word on information that does not
#: contradict them
_AT_LEAST = {
    "somewhat better than guessing": 1, "better than guessing": 1, "mostly right among a few": 2,
    "can be named": 3, "somewhat": 1, "largely": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Judgement:
    """What a report means for one attacker.

    Attributes
    ----------
    key : str
        "membership", "matching", "people", "attribute", "picture", "any_attack", "final_model",
        "anonymity" or "halving".
    question : str
    verdict : str
        A word or two; "not judged" where a setting is missing.
    text : str
        Sentences with the numbers.
    entries : tuple of str
        Kinds of the entries whose numbers it uses.
    references : tuple of str
        Keys of :data:`REFERENCES`.
    """

    key: str
    question: str
    verdict: str
    text: str
    entries: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


def judgements(setting: Setting, entries: Sequence[Entry]) -> tuple[Judgement, ...]:
    """Judge a report in plain words.

    Parameters
    ----------
    setting : Setting
    entries : sequence of Entry
        Of the report.

    Returns
    -------
    tuple of Judgement
        In the order in which a reader wants them.

    Notes
    -----
    Cost: some enclosures of the success, most of them for the least noise that halves the risk.
    """
    asked = _Asked(setting, entries)
    written: tuple[Callable[[_Asked], Judgement], ...] = (
        _membership, _matching, _people, _attribute, _picture, _any_attack, _final_model,
        _anonymity, _halving,
    )  # fmt: skip
    return tuple(write(asked) for write in written)


class _Asked:
    """Entries of a report, those that it does not hold computed for its settings."""

    def __init__(self, setting: Setting, entries: Sequence[Entry]) -> None:
        self.setting, self.entries = setting, entries
        self.run, self.record = setting.run, setting.record

    def entry(self, kind: str, at: str = "", value: float = 0.0) -> Entry:
        """Return an entry, at a value of its question."""
        for entry in self.entries:
            if entry.kind == kind and (not at or entry.at == ((at, value),)):
                return entry
        return compute_entry(KINDS[kind], self.setting, Point(at, value) if at else None)

    def success(self, candidates: int) -> float:
        """Return the certified success of any attack that has a list of candidates."""
        found = self.entry("rero", "prior_size", candidates).upper
        return 1.0 if found is None else found


def _membership(asked: _Asked) -> Judgement:
    epsilon = asked.entry("epsilon").upper
    best = asked.entry("power", "false_positive_rate", _FALSE_ALARMS)
    power, certain = best.upper, best.lower or 0.0
    if asked.run.guarantee is not None and not asked.run.guarantee_of_noise:
        certain = 0.0  # the lower end is of the worst mechanism that keeps the guarantee
    question = "Could they find out that a person's record was in the training data?"
    kinds = ("epsilon", "power", "membership_advantage")
    sources = ("ponomareva2023", "nist2025", "gomez2025")
    if power is None:
        return Judgement("membership", question, "not judged", _unknown(asked, "power"), kinds)
    text = (
        f"The best test that raises a false alarm for one outsider in a hundred recognises at most "
        f"{chance(power)} of the members; a blind one recognises 1%."
    )
    # an interval as wide as that is no value
    between = asked.run.guarantee_of_noise or asked.run.adjacency == "replace"
    open_ = between and certain < 0.9 * power
    if open_:
        text += f" Attacks on some data recognise {share(certain)}: what lies between is not known."
    if asked.run.adjacency is not None:
        text += (
            f" Compared are a run with the record and one with {NEIGHBOURS[asked.run.adjacency]} "
            "in its place."
        )
    if epsilon is None:
        return Judgement("membership", question, "exposed", text + " Epsilon has no bound.", kinds)
    size = dataset_size(asked.run)
    verdict = (
        "delta is too large to say"
        if size is not None and asked.run.delta * size >= 1.0
        else "no protection"
        if epsilon > REASONABLE and certain >= NOTHING
        else "strong protection"
        if epsilon <= STRONG
        else "reasonable protection"
        if epsilon <= REASONABLE
        else "weak protection"
    )
    low = asked.entry("epsilon").lower or 0.0
    least = f" (at least {number(low, 'down')})" if open_ and low < 0.9 * epsilon else ""
    text += (
        f" Epsilon is at most {number(epsilon, 'up')}{least} at delta = {asked.run.delta:g}; up to "
        "1 is called strong, up to 10 reasonable (Ponomareva et al. 2023); NIST SP 800-226 names "
        "no value that is safe everywhere."
    )
    mu = _mu(asked.run)
    if mu is not None:
        text += (
            f" The run is as safe as one Gaussian release of mu = {number(mu, 'up')} (mu-GDP, "
            "Gomez et al. 2025)."
        )
    return Judgement("membership", question, verdict, text, kinds, sources)


def _mu(run: TrainingRun) -> float | None:
    """Return the mu of a Gaussian release that is as safe at every rate; None if that is none."""
    if not run.gaussian or run.phases or run.sampling_rate < 1.0:
        return None
    return math.sqrt(run.steps) / run.effective_noise * (2.0 if run.adjacency == "replace" else 1.0)


def _matching(asked: _Asked) -> Judgement:
    ten, million = asked.success(10), asked.success(1_000_000)
    gain = (ten - 0.1) / 0.9
    verdict = (
        "can be named"
        if million > REIDENTIFICATION
        else "hardly better than guessing"
        if ten <= HARDLY * 0.1
        else "somewhat better than guessing"
        if gain <= SLIGHT
        else "better than guessing"
        if gain <= MUCH
        else "mostly right among a few"
    )
    text = (
        f"Given ten candidates, one of them right, an attacker names it with at most "
        f"{chance(ten)} (a blind guess: 10%); given a million, with at most {chance(million)} (a "
        f"blind guess: 1 in 1,000,000). For published clinical reports EMA and Health Canada "
        f"accept a re-identification risk of {chance(REIDENTIFICATION)} (EMA Policy 0070), to be "
        "compared with the chance among a million: among ten a blind guess has more."
    )
    k = asked.run.group_size
    text += (
        " A person is taken to have one record in the data; for one with several give their number "
        "as group size."
        if k == 1
        else f" A person is taken to have up to {k:,} records in the data."
    )
    return Judgement(
        "matching", "Could they name the right person?", verdict, text, ("rero",), ("ema2017",)
    )


def _people(asked: _Asked) -> Judgement:
    question = "How many of the records could they name?"
    kinds = ("people_named", "people_named_most", "people_recognised")
    size = asked.run.dataset_size
    if size is None:
        return Judgement("people", question, "not judged", _unknown(asked, kinds[0]), kinds)

    def most(kind: str, at: str = "prior_size", value: float = 10) -> float:
        found = asked.entry(kind, at, value).upper
        return size if found is None else found

    named = most("people_named")
    # who has several records is one person, so that there are no more people than records
    whom = "records" if asked.run.group_size == 1 else "people, or fewer"
    text = (
        f"Of {size:,} {whom}, with ten candidates for each, at most {count(named)} are named on "
        f"average, and in 95 of 100 runs {count(most('people_named_most'))} (blind guesses: "
        f"{count(0.1 * size)})"
    )
    million = [most(kind, value=1_000_000) for kind in kinds[:2]]
    text += f"; with a million candidates {count(million[0])} and {count(million[1])}. "
    best = asked.entry("bayes_success", "prior_size", 10).lower
    room = asked.run.parameters is None or asked.run.parameters >= 10 * size
    if best is not None and room and asked.run.group_size == 1:
        text += (
            f"A network that gives each of them weights of its own lets an attack name "
            f"{count(best * size, 'down')} among ten on average. "
        )
    text += (
        f"Tests that raise a false alarm for one outsider in a hundred recognise at most "
        f"{count(most(kinds[2], 'false_positive_rate', _FALSE_ALARMS))}. The records are taken to "
        "be independent of each other: what links them may give away more."
    )
    return Judgement("people", question, f"at most {count(named)}", text, kinds)


def _attribute(asked: _Asked) -> Judgement:
    two, ten = asked.success(2), asked.success(10)
    gain = 2.0 * (two - 0.5)
    verdict = "hardly" if gain <= SLIGHT else "somewhat" if gain <= MUCH else "largely"
    text = (
        f"A yes-or-no attribute that a blind guess gets right half the time is guessed right at "
        f"most {chance(two)} of the time; one of ten equally likely values at most {chance(ten)}. "
        "Re-identification, attribute inference and reconstruction obey one bound, by the chance "
        "of a blind guess alone (Kulynych et al. 2025)."
    )
    question = "Could they learn a sensitive attribute of a person whose other data they know?"
    return Judgement("attribute", question, verdict, text, ("rero",), ("kulynych2025",))


def thumbnail_psnr(psnr: float, dimension: int) -> float:
    """Return the PSNR of a picture with white noise averaged to a grey thumbnail, in dB."""
    return psnr + 10.0 * math.log10(max(1.0, dimension / PICTURE_SIDE**2))


def picture_words(psnr: float) -> tuple[str, str]:
    """Return a verdict and a description of a thumbnail with white noise at this PSNR, in dB."""
    if psnr >= 20.0:
        return "recognised", "the picture, with a slight grain: faces and writing can be recognised"
    if psnr >= 10.0:
        return "possibly recognised", "the picture under heavy grain: many faces can be recognised"
    if psnr >= 3.0:
        return "outlines at best", "outlines in noise: a large, simple shape may be recognised"
    return "not recognised", "noise: nobody would recognise the picture"


def values_words(noise: float) -> tuple[str, str]:
    """Return a verdict and a description of values that are off by a share of their range."""
    if noise <= 0.05:
        return "read off", "nearly every value"
    if noise <= 0.5 * _MIDDLE:
        return "roughly known", "values that are roughly right"
    if noise <= _MIDDLE:
        return "hardly better than a guess", "little more than the middle of the range says"
    return "not rebuilt", "less than the middle of the range says"


def _picture(asked: _Asked) -> Judgement:
    question = "Would they recognise a picture, or a record, that they rebuild?"
    kinds = ("psnr", "mse", "ncc")
    psnr, error = asked.entry("psnr"), asked.entry("mse")
    if psnr.value is None or error.value is None:
        return Judgement("picture", question, "not judged", _unknown(asked, "psnr"), kinds)
    dimension, span = asked.record.dimension, asked.record.data_range
    assert dimension is not None and span is not None
    seen = thumbnail_psnr(psnr.value, dimension)
    noise = math.sqrt(error.value) / span
    verdict, words = picture_words(seen) if asked.record.picture else values_words(noise)
    text = (
        f"The analytic attack, which knows nothing of the records, reaches a PSNR of "
        f"{psnr.value:.1f} dB on average. Its mean squared error is {number(error.value)}, that of "
        f"noise of {number(noise)} times the range of values. "
    )
    if not asked.record.picture:
        text += f"Of a table's record it leaves {words}."
    elif dimension > PICTURE_SIDE**2:
        text += (
            f"Averaged to a grey thumbnail of {PICTURE_SIDE} x {PICTURE_SIDE} it has {seen:.1f} dB "
            f"and looks like {words}."
        )
    else:
        text += f"It looks like {words}."
    told = asked.run.as_told
    never = math.exp(told.steps * math.log1p(-told.sampling_rate)) if (
        told.sampling_rate < 1.0
    ) else 0.0  # fmt: skip
    if never > 0.01:
        text += f" In {chance(never)} of runs no step takes the record, and nothing is rebuilt."
    text += " This is one attack, no bound: "
    if not asked.record.picture:
        text += "whoever knows what such records look like finds more."
        return Judgement("picture", question, verdict, text, kinds)
    text += (
        "whoever knows what pictures look like sees more (Sun et al. 2023 find that PSNR and human "
        "judgement agree but weakly)."
    )
    return Judgement("picture", question, verdict, text, kinds, ("sun2023",))


def _any_attack(asked: _Asked) -> Judgement:
    question = "How much could any attack learn about a record, whatever the network?"
    nats = min(
        (
            value
            for kind in ("information_secret_steps", "information_any_network")
            if (value := asked.entry(kind).upper) is not None
        ),
        default=None,
    )
    kinds = ("information_secret_steps", "information_any_network")
    if nats is None:
        return Judgement("any_attack", question, "not judged", _unknown(asked, kinds[1]), kinds)
    bits = nats / math.log(2.0)
    level = sum(bits >= least for least in _BITS)
    others = max(_AT_LEAST.get(of(asked).verdict, 0) for of in (_matching, _attribute))
    text = (
        f"All releases together tell at most {_bits(bits)} about a record, on average. A "
        "yes-or-no attribute is one bit; to single out one person of a million takes 20 bits"
    )
    dimension = asked.record.dimension
    if dimension is not None:
        text += f", to rebuild {dimension:,} values to half their range {dimension:,} bits"
    text += "."
    if others > level:
        text += " The average hides what some runs tell: the verdict is no milder than those above."
    return Judgement("any_attack", question, _INFORMATION[max(level, others)], text, kinds)


def _bits(bits: float) -> str:
    if bits > 1e12:
        return "more than a trillion bits"
    return f"{number(bits, 'up')} bits" if bits < 1000.0 else f"{math.ceil(bits):,} bits"


def _final_model(asked: _Asked) -> Judgement:
    text = (
        f"Every bound above holds for them: {chance(asked.success(10))} at most among ten "
        "candidates, whatever they query. There are losses for which the last model alone gives "
        "away as much as all steps (Annamalai 2024). The analytic attack reads single noisy "
        "gradients, and they have none."
    )
    return Judgement(
        "final_model", "And if they see only the final model, or its answers?",
        "no more than above, mostly less", text, ("rero",), ("annamalai2024",),
    )  # fmt: skip


def _anonymity(asked: _Asked) -> Judgement:
    million, two = asked.success(1_000_000), asked.success(2)
    power = asked.entry("power", "false_positive_rate", _FALSE_ALARMS).upper
    text = (
        "Three questions decide (WP29 Opinion 05/2014), and EDPB Opinion 28/2024 asks of a model "
        "that extracting personal data be insignificantly likely; neither names a number. Singling "
        f"out of a million: at most {chance(million)}. Linking a known record to the data, at 1% "
        f"false alarms: {'not known' if power is None else 'at most ' + chance(power)}. Inferring "
        f"a yes-or-no attribute: at most {chance(two)} instead of 50%. (Our reading: it speaks for "
        "anonymity if each gain over a guess is at most a tenth, against it from a half on.)"
    )
    largest = max(million, 0.0 if power is None else power - 0.01, 2.0 * two - 1.0)
    verdict = "speaks for it" if largest <= SLIGHT else "doubtful" if largest <= MUCH else "no"
    return Judgement(
        "anonymity", "Is the model anonymous in the sense of European guidance?", verdict, text,
        ("rero", "power"), ("wp216", "edpb2024"),
    )  # fmt: skip


def _halving(asked: _Asked) -> Judgement:
    question = "What would halve the risk, and at which price?"
    ten, run = asked.success(10), asked.run
    if ten < 0.105:
        text = (
            f"Success among ten candidates is {chance(ten)} at most, against 10% for a blind "
            "guess: there is little left to halve."
        )
        return Judgement("halving", question, "nothing needed", text, ("rero",))
    if run.guarantee is not None:
        text = f"Not computed: {run.guarantee.description} is all that the report knows of the run."
        if run.guarantee_of_noise:
            text = "Not computed for this sampler: assess runs with more noise side by side."
        return Judgement("halving", question, "not judged", text, ("rero",))
    goal = 0.1 + 0.5 * (ten - 0.1)
    try:
        found = least_noise("rero", goal, run, asked.record, at=10).run
    except (ValueError, TypeError, ArithmeticError) as error:
        return Judgement("halving", question, "not judged", f"Not computed: {error}.", ("rero",))
    words = "noise multiplier" if run.gaussian else "concentration"
    here, there = (given_noise(r) if run.gaussian else r.concentration for r in (run, found))
    assert here is not None and there is not None
    factor = there / here if run.gaussian else here / there
    more = number(factor, "up")
    text = (
        f"A {words} of {number(there, 'up' if run.gaussian else 'down')} instead of "
        f"{number(here)} halves what an attacker with ten candidates gains over a blind guess "
        f"(to {chance(goal)}). The price: "
    )
    if run.gaussian:
        text += (
            f"each averaged gradient is {more} times as noisy. Batches {more} "
            "times as large undo that, and at the same sampling rate they take as many times more "
            "data."
        )
    else:
        text += "every released direction strays further from the gradient's."
    steps = _steps_for(asked, goal)
    if steps is not None:
        text += f" Or {steps:,} steps instead of {run.steps:,}, at the price of less training."
    return Judgement("halving", question, f"{more} times the noise", text, ("rero",))


def _steps_for(asked: _Asked, goal: float) -> int | None:
    """Most steps, to a few per cent, at which ten candidates give no more than ``goal``."""
    if asked.run.phases:  # there is more than one way to have fewer
        return None
    if isinstance(asked.run, CorrelatedRun):  # its steps are not those of the training
        return None
    low, high = 0, asked.run.steps
    while high - low > max(1, low // 20):
        middle = max(low + 1, math.isqrt(max(low, 1) * high))
        fewer = replace(asked.setting, run=replace(asked.run, steps=middle))
        if _Asked(fewer, ()).success(10) <= goal:
            low = middle
        else:
            high = middle
    return low or None


def _unknown(asked: _Asked, kind: str) -> str:
    entry = asked.entry(kind)
    if entry.missing:
        names = " and ".join(name.replace("_", " ") for name in entry.missing)
        return f"Not judged without {names}."
    return f"Not judged: {entry.reason}." if entry.reason else "Not judged."
