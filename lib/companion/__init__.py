"""The companion to five papers on reconstruction risk: every exhibit and claim, checked.

Rooms, of which each imports only those before it: :mod:`companion.study` (parameters, data, sweeps,
records, verdicts, registry), :mod:`companion.papers` (one file an exhibit), :mod:`companion.book`,
:mod:`companion.cli`. All build on the library :mod:`reconrisk`, which imports none of them.
"""
