"""Files of each schema that was ever written, with what their classifiers said when they were written.

    python -m tests.stored    # write the file of the present schema; only before its first release

A release must read the files of earlier ones (RELEASING.md), so a stored file is never rewritten after the
release that wrote its schema.
"""

import json
from pathlib import Path

import numpy as np

from drpu import DRPUClassifier, save, verify

FOLDER = Path(__file__).parent / "files" / "stored"


def records():
    """Rows of a small table with numbers, categories, dates and gaps, and their labels."""
    rng = np.random.default_rng(0)
    rows, labels = [], []
    for i in range(240):
        positive = rng.random() < 0.4
        rows.append(
            {
                "amount": None if i % 17 == 0 else round(float(rng.lognormal(3 + 1.5 * positive)), 2),
                "kind": str(
                    rng.choice(["car", "home", "phone"], p=[0.2, 0.3, 0.5] if positive else [0.5, 0.3, 0.2])
                ),
                "day": f"2026-{1 + i % 12:02d}-{1 + i % 28:02d}",
            }
        )
        labels.append("yes" if positive and rng.random() < 0.6 else None)
    return rows, labels


def fitted():
    """A classifier of these rows, and one adapted to a part of them."""
    import pandas as pd

    rows, labels = records()
    frame = pd.DataFrame(rows)
    clf = DRPUClassifier("boosted", holdout=2, random_state=0).fit(frame, labels)
    return {"fitted": clf, "adapted": clf.adapt(frame[120:])}


def main():
    FOLDER.mkdir(exist_ok=True)
    rows = records()[0][:40]
    for name, classifier in fitted().items():
        path = FOLDER / f"{name}.drpu"
        save(classifier, path)
        schema = verify(path).schema
        path = path.rename(FOLDER / f"schema-{schema}-{name}.drpu")
        expected = {
            "probability": classifier.predict_proba(rows)[:, 1].tolist(),
            "label": classifier.predict(rows).tolist(),
            "prior": classifier.prior_.value,
        }
        path.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n")
        print("wrote", path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
