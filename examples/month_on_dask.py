"""A month of rows on Dask: learnt from a sample, scored by the workers."""

import dask.dataframe as dd

import drpu

SAMPLE = 1_000_000  # rows that one machine learns from and asks about


def in_memory(frame, n):
    """A random sample of about so many rows."""
    share = min(1.0, n / len(frame))
    return frame.sample(frac=share, random_state=0).compute()


def learn(history, folder):
    """Fit to all labelled rows and a sample of all rows, without their labels."""
    labelled = history[history["label"] == 1].drop(columns="label").compute()
    population = in_memory(history.drop(columns="label"), SAMPLE)
    classifier = drpu.DRPUClassifier(random_state=0).fit_pu(labelled, population)
    drpu.save(classifier, f"{folder}/classifier.drpu")
    return classifier


def adapt(classifier, rows, ask, folder):
    """Count each branch where its rows are, and use twenty true answers."""
    counts = drpu.count_batches(classifier, rows, by="branch")
    drpu.save(counts, f"{folder}/counts.drpu")  # kilobytes, which can be sent
    sample = in_memory(rows[list(classifier.feature_names_in_)], SAMPLE)
    plan = classifier.plan_audit(sample, n=20, random_state=0)
    answered = classifier.adapt(sample, audit=plan.answer(ask(sample.iloc[plan.rows])))
    return answered.adapt(counts.total), classifier.adapt_by(counts)


def choose(month, rows, n_checks, folder):
    """Score all rows where they are, and return those to check, the best first."""
    scored = drpu.score_batches(month, rows, prefix="drpu_")
    scored.to_parquet(f"{folder}/scored")
    written = dd.read_parquet(f"{folder}/scored")
    return written.nlargest(n_checks, "drpu_score")
