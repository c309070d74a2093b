"""The experiments of the DRPU paper: what was run, what was written, and what is best.

``python -m paper run`` trains and writes one JSON file a result into ``paper/results``,
``tables``, ``figures`` and ``page`` read them. Nothing here is part of the package, and
nothing here uses more of it than its public names.
"""
