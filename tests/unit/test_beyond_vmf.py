"""The exhibit on attackers who know VMF noise."""

from __future__ import annotations

import numpy as np
import pytest

from companion.papers.beyond import vmf_rero


def test_unprinted_noise_is_refused():
    with pytest.raises(ValueError, match="Table IV"):
        vmf_rero.run_curves(0.5, np.array([0.1]))
