"""Plain-text formulas of the registry, the verdicts and the figures, with mathematical signs.

The registry, the tables and the stored outputs stay ASCII (they are searched, compared and diffed);
pages and figures show them through :func:`typeset`.
"""

import re
from collections.abc import Callable

_GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "eps": "ε",
    "epsilon": "ε",
    "eta": "η",
    "kappa": "κ",
    "lambda": "λ",
    "mu": "μ",
    "nu": "ν",
    "pi": "π",
    "rho": "ρ",
    "sigma": "σ",
    "Phi": "Φ",
    "Omega": "Ω",
}
_SUPERSCRIPT = str.maketrans("0123456789-kNT", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵏᴺᵀ")
_SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

_RULES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\|\|"), "‖"),
    (re.compile(r"\bX_hat\b|\bX-hat\b"), "X̂"),
    (re.compile(r"\bsqrt\("), "√("),
    (re.compile(r"\bsqrt (?=\d)"), "√"),
    (re.compile(r">="), "≥"),
    (re.compile(r"<="), "≤"),
    (re.compile(r"\+-"), "±"),
    (re.compile(r"\bCram[eé]r[-–]Rao\b"), "Cramér–Rao"),
    # half is 0.5 everywhere, though a paper may print .5
    (re.compile(r"(?<![\w.\])}\\])\.(?=\d)"), "0."),
    (
        re.compile(
            rf"(?<!\\)\b({'|'.join(sorted(_GREEK, key=len, reverse=True))})(?![A-Za-z])(\d?)"
        ),
        lambda m: _GREEK[m[1]] + m[2].translate(_SUBSCRIPT),
    ),
    (
        re.compile(r"\^(?:\((-?\d+)\)|(-?(?:\d+|[kNT])))(?![\d/A-Za-z]|\.\d)"),
        lambda m: (m[1] or m[2]).translate(_SUPERSCRIPT),
    ),
)


def typeset(text: str) -> str:
    """Return ``text`` with Greek letters, norms, roots, powers and relations as signs.

    Decimals below one get their zero.

    Examples
    --------
    >>> typeset("the variance is sigma^2 ||X||^2 from M >= (C/||X||)^2 rows on")
    'the variance is σ² ‖X‖² from M ≥ (C/‖X‖)² rows on'
    >>> typeset("It is sigma^2 ||X||^2. Not 10^-1.5 of it.")
    'It is σ² ‖X‖². Not 10^-1.5 of it.'
    >>> typeset("P(cos >= sqrt(1 - N eta / ||X||^2)) for X_hat, N^-1/2")
    'P(cos ≥ √(1 - N η / ‖X‖²)) for X̂, N^-1/2'
    >>> typeset("from .174 to 1.23, v1.2.3")
    'from 0.174 to 1.23, v1.2.3'
    """
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
