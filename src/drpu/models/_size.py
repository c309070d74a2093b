"""What the default does with few and with many rows."""

from __future__ import annotations

from dataclasses import dataclass

from drpu._samples import SamplePair, is_sparse

__all__ = ["Size"]

FEW = 10  # with fewer positives trees would overfit
ENOUGH = 1000  # members are weighted from this number of positives on
WIDE = 1000  # sparse rows with more columns get a linear fit only
LINEAR_ROWS = 50_000  # unlabeled rows from which on the smooth member also has a linear part
MANY_ROWS = 5000  # above this number of rows the forest has smaller trees, which are scored faster


@dataclass(frozen=True, slots=True)
class Size:
    """Decisions that follow from the size of the samples.

    They are made once for all folds and for the model of all rows, because the scores of all of them are
    compared.

    Attributes
    ----------
    trees : bool
        Whether there are enough positives for trees, and not too many columns.
    weighted : bool
        Whether there are enough positives to determine the weights of the members.
    many_rows : bool
        Whether there are so many rows that trees have to be small.
    linear : bool
        Whether the smooth member also has a linear part. With fewer rows it is fitted to one sample, whose
        error is larger than the gain.
    """

    trees: bool
    weighted: bool
    many_rows: bool
    linear: bool

    @classmethod
    def of(cls, pair: SamplePair, folds: int = 1) -> Size:
        """The decisions for two samples of which each of several folds leaves out a part."""
        positives = len(pair.positive)
        if folds > 1:
            positives -= -(-positives // folds)  # the largest fold is left out
        rows = pair.positive.rows
        wide = is_sparse(rows) and rows.shape[1] > WIDE
        weighted = positives >= ENOUGH and not wide
        linear = weighted and len(pair.unlabeled) >= LINEAR_ROWS
        return cls(positives >= FEW and not wide, weighted, len(pair) > MANY_ROWS, linear)
