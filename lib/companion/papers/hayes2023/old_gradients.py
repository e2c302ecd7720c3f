"""Names under which ``beyond/old_one_scale`` still asks for the informed adversary's scene."""

from companion.papers.hayes2023.informed_adversary import preferred_candidates as _preferred
from companion.papers.hayes2023.informed_adversary import scene_of as _scene
from companion.papers.hayes2023.informed_adversary import train_targets as _trained

__all__ = ["_preferred", "_scene", "_trained"]
