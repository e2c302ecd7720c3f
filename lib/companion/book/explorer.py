"""The explorer page's report tables and presets, from the library and the papers' settings."""

import json
from functools import lru_cache

from companion.book.markdown import escape, list_table
from companion.book.sources import letter
from reconrisk import privacy, risk

__all__ = ["SHOWN", "explorer_presets", "explorer_report"]

#: the kinds of entries that the page computes; the others need more inputs than it has
SHOWN = (
    "epsilon", "power", "membership_advantage",
    "rero", "rero_advantage", "bayes_success", "rero_renyi",
    "sphere_success", "box_success", "pixel_success", "information_any_network", "mse_any_network",
    "mse_one_step", "mse", "mse_shrunk", "mse_single_row", "mse_tail_one_step", "mse_tail",
    "mse_tail_shrunk", "best_tail", "psnr", "psnr_tail", "ncc", "ncc_tail",
    "mutual_information", "fano", "fano_orthogonal",
    "capacity_record", "capacity_run", "capacity_success", "mse_unbiased",
)  # fmt: skip

#: the name of a control in the page's address, as in explorer.js
_ADDRESS = {
    "sigma": "sigma", "q": "q", "steps": "T", "surprise": "k", "dimension": "N", "norm": "X",
    "range": "R", "clip": "C", "delta": "delta", "parameters": "p",
}  # fmt: skip


def explorer_report() -> str:
    """Return the report's empty tables, one for each threat model, and the texts of their rows.

    The page's script fills in the numbers. Links to statements are cross-references of the book.
    """
    parts = []
    for key, threat in risk.THREAT_MODELS.items():
        names = [name for name in SHOWN if risk.KINDS[name].threat_model == key]
        if not names:
            continue
        rows = [_row(name) for name in names]
        table = list_table(
            ("What", "Answer", "Which is", "From"), rows, widths=(32, 22, 20, 26),
            classes="explorer-report",
        )  # fmt: skip
        heading = f'<h2 class="explorer-threat">{threat.title}</h2>'
        parts.append(f"```{{raw}} html\n{heading}\n```\n\n{table}")
    words = {
        name: {field: getattr(risk.KINDS[name], field) for field in ("title", "question", "unit")}
        for name in SHOWN
    }
    return "\n".join([*parts, _data("explorer-kinds", words)])


def _row(name: str) -> tuple[str, str, str, str]:
    kind = risk.KINDS[name]
    method = kind.gaussian
    assert method is not None
    title = kind.title.format(at="…")
    return (
        f'<span data-title="{name}">{title[:1].upper() + title[1:]}</span>',
        f'<span data-value="{name}">…</span>',
        risk.DIRECTIONS[kind.direction],
        _source(method.source),
    )


def _source(source: risk.Source) -> str:
    paper, place, label = source.paper, source.place, source.label
    words = f"{letter(paper) or 'Companion'}: {place}"
    return f"{{prf:ref}}`{words} <{label}>`" if label.startswith("prf-") else escape(words)


def _data(name: str, value: object) -> str:
    text = json.dumps(value, ensure_ascii=False).replace("</", "<\\/")
    return f'```{{raw}} html\n<script type="application/json" id="{name}">{text}</script>\n```\n'


@lru_cache(maxsize=1)
def _presets() -> tuple[tuple[str, str, dict[str, float]], ...]:
    """Return settings of the papers: name, cross-reference to the exhibit, values of controls."""
    digits = {"dimension": 784, "range": 1.0, "norm": 9.2, "parameters": 7960}
    full = privacy.noise_for_epsilon(10, 1e-5, steps=100)
    sampled = privacy.noise_for_epsilon(10, 1e-5, sampling_rate=0.02, steps=1000)
    one_step = {"q": 1.0, "steps": 1, "norm": 1.0, "range": 1.0, "clip": 1.0}
    return (
        (
            "Paper C, Figure 3: MNIST, full batch, 100 steps, epsilon 10",
            "{ref}`Figure 3 <exhibit-hayes2023-fig3>`",
            {**digits, "sigma": _short(full), "q": 1.0, "steps": 100, "surprise": 1, "clip": 0.1},
        ),
        (
            "Paper C, Figure 4: MNIST, q = 0.02, 1,000 steps, epsilon 10",
            "{ref}`Figure 4 <exhibit-hayes2023-fig4>`",
            {
                **digits, "sigma": _short(sampled), "q": 0.02, "steps": 1000, "surprise": 1,
                "clip": 0.1,
            },
        ),
        (
            "Paper B, Table 1: baseline, N = 1,000, one step",
            "{ref}`Table 1 <exhibit-ziller2024-table1>`",
            {**one_step, "sigma": 1.0, "surprise": 1, "dimension": 1000},
        ),
        (
            "Paper B, Table 1's noise on a photograph of ImageNet's size",
            "{ref}`Table 1 <exhibit-ziller2024-table1>`",
            {**one_step, "sigma": 1.0, "surprise": 1, "dimension": 150_528, "norm": 200.0},
        ),
        (
            "Paper D, Table IV: MNIST, batches of 128, three epochs, sigma 0.66",
            "{ref}`Table IV <exhibit-biswas2024-table4>`",
            {
                **digits, "sigma": 0.66, "q": _short(128 / 60_000), "steps": 1407, "surprise": 1,
                "clip": 1.0, "delta": 1.6667e-5,
            },
        ),
    )  # fmt: skip


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def explorer_presets() -> str:
    """Return the papers' settings as links that set the page, and as JSON for its script."""
    lines, data = [], []
    for name, place, setting in _presets():
        fragment = "&amp;".join(f"{_ADDRESS[key]}={value:.12g}" for key, value in setting.items())
        lines.append(f'- <a href="?{fragment}">{name}</a>: {place}')
        data.append({"name": name, "setting": setting})
    return "\n".join([*lines, "", _data("explorer-presets", data)])
