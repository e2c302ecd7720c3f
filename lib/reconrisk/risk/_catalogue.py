"""Every kind of entry that a report has."""

from __future__ import annotations

from types import MappingProxyType

from reconrisk.risk._kinds import Kind
from reconrisk.risk._leakage import CAPACITY, INFORMATION, UNBIASED
from reconrisk.risk._membership import MATCHING, MEMBERSHIP
from reconrisk.risk._networks import NETWORK
from reconrisk.risk._people import PEOPLE
from reconrisk.risk._reconstruction import ANY_ATTACK, CONVERSE, PRIOR_FREE

__all__ = ["KINDS"]

#: Every kind of entry by its name, in the report's order.
KINDS: MappingProxyType[str, Kind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            *MEMBERSHIP,
            *MATCHING,
            *PEOPLE,
            *ANY_ATTACK,
            *CONVERSE,
            *PRIOR_FREE,
            *INFORMATION,
            *CAPACITY,
            *UNBIASED,
            *NETWORK,
        )
    }
)
