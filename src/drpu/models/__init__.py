"""Models: learners of density ratios and scores, the functions that they return, cross-fitting.

One file a model has the learner beside its function; :mod:`drpu.models.registry` lists them.
"""
