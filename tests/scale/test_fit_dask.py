"""Trees trained on the workers of a Dask cluster: folds, lost workers and errors."""

import os
import signal
import threading

import numpy as np
import pytest
from cluster_rows import COLUMNS, make_rows

from drpu import DaskBoosted, DRPUClassifier
from drpu.exceptions import ClusterError, DataError, DataTypeError, LabelError, ParameterError
from drpu.models.clusters import Plan
from drpu.scale.dask import fold_of, pieces_for_workers
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import read_frame

pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")

ROWS, _ = make_rows(6000)
# Sorted by label, as tables often are: most partitions then have one class.
FRAME = dd.from_pandas(ROWS.sort_values("label"), npartitions=5)


@pytest.mark.slow  # two minutes: the cluster waits for the lost worker before it starts again
def test_a_lost_worker_is_replaced(client):
    model = DaskBoosted(n_rounds=400, leaves=63, key="id", client=client)
    clf = DRPUClassifier(model, holdout=0.2, scenario="single-sample", random_state=0)
    outcome = []

    def fit():
        try:
            outcome.append(clf.fit(FRAME, y="label"))
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=fit)
    thread.start()
    while thread.is_alive():  # until a worker trains trees
        busy = client.processing()
        if any("_train_part" in str(key) for keys in busy.values() for key in keys):
            break
        thread.join(0.02)
    assert thread.is_alive()
    os.kill(next(iter(client.run(os.getpid).values())), getattr(signal, "SIGKILL", signal.SIGTERM))
    thread.join()
    assert isinstance(outcome[0], DRPUClassifier), outcome
    assert outcome[0].model_.functions[0].n_rounds == 400
    client.wait_for_workers(2)


def test_a_row_keeps_its_fold_however_the_frame_is_divided():
    encoder, _ = TableEncoder.fit([read_frame(ROWS[COLUMNS])])
    plan = Plan(encoder, "label", None, "id", np.array([1]), 0.2, 7)

    def folds(parts):
        found = [piece for part in parts for piece in pieces_for_workers(plan, part, 3)]
        return sorted(
            (row[0], fold) for piece in found for row, fold in zip(piece.rows, piece.fold, strict=True)
        )

    whole = folds([ROWS])
    assert whole == folds([ROWS.iloc[3000:], ROWS.iloc[:3000]])
    held = np.mean([fold == 0 for _, fold in whole])
    assert abs(held - 0.2) < 4 * np.sqrt(0.2 * 0.8 / len(ROWS))
    counts = np.bincount(fold_of(np.arange(10**5, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15), 5))
    assert np.abs(counts / 10**5 - 0.2).max() < 0.01


def test_frames_and_roles_are_checked(client):
    def fit(frame=FRAME, y="label", **options):
        DRPUClassifier(DaskBoosted(client=client, **options)).fit(frame, y=y)

    with pytest.raises(DataError, match="no column 'nothing'"):
        fit(y="nothing")
    with pytest.raises(ParameterError, match="names of columns"):
        fit(y=[0, 1])
    words = FRAME.assign(word="x")
    with pytest.raises(DataError, match="named by strings"):
        fit(words.rename(columns={"word": 7}))
    with pytest.raises(LabelError):
        fit(FRAME[FRAME["label"] == 1], key="id")
    with pytest.raises(ParameterError, match="n_rounds"):
        fit(n_rounds=0)
    with pytest.raises(DataTypeError, match="Dask data frame"):
        fit(ROWS)


def test_frames_are_never_pulled_in_silently():
    with pytest.raises(DataTypeError, match="DaskBoosted"):
        DRPUClassifier("boosted").fit(FRAME[COLUMNS], ROWS["label"])
    with pytest.raises(DataTypeError, match="BoostedRatio"):
        DRPUClassifier(DaskBoosted()).fit_pu(ROWS[COLUMNS][:100], ROWS[COLUMNS])


def test_without_a_cluster_there_is_an_error(monkeypatch):
    import distributed

    def nobody():
        raise ValueError("no client")

    monkeypatch.setattr(distributed, "get_client", nobody)
    with pytest.raises(ClusterError, match="needs a Dask client"):
        DRPUClassifier(DaskBoosted()).fit(FRAME, y="label")
