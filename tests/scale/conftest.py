"""One Spark session and one Dask cluster for all tests of a process."""

from __future__ import annotations

import shutil
import sys

import pytest


@pytest.fixture(scope="session")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not on the path")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # workers import what the tests do
        session = (
            sql.SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            # a few seconds of tiny queries: compiling them takes longer than running them
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.sql.adaptive.enabled", "false")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
            .getOrCreate()
        )
        yield session
        session.stop()


@pytest.fixture(scope="session")
def client():
    distributed = pytest.importorskip("distributed")
    # any free port for the dashboard: other processes may have a cluster, too
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
