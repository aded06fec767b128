"""Which states are kept and which steps run again, so that a long run's history fits: integers only, without a wave."""

from numbawave.checkpoint.actions import Action, Drop, Forward, Load, Reverse, Save, Schedule
from numbawave.checkpoint.binomial import binomial, segments_for
from numbawave.checkpoint.uniform import bounds, fewest_bytes, uniform

__all__ = [
    "Action",
    "Drop",
    "Forward",
    "Load",
    "Reverse",
    "Save",
    "Schedule",
    "binomial",
    "bounds",
    "fewest_bytes",
    "segments_for",
    "uniform",
]
