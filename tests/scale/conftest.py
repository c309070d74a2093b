"""One Spark session and one Dask cluster for all tests of a process."""

import os
import shutil
import sys
from pathlib import Path

import pytest

# A few seconds of tiny queries: checking and compiling them would take longer than running them.
JAVA = ["TieredStopAtLevel=1", "+UseSerialGC", "+UnlockDiagnosticVMOptions", "-BytecodeVerificationRemote"]
SPARK = {
    "ui.enabled": "false",
    "driver.host": "127.0.0.1",
    "driver.extraJavaOptions": " ".join(f"-XX:{option}" for option in JAVA),
    "python.daemon.module": "warm_daemon",
    "sql.shuffle.partitions": "2",
    "sql.codegen.wholeStage": "false",
    "sql.codegen.factoryMode": "NO_CODEGEN",
    "sql.adaptive.enabled": "false",
    "sql.execution.arrow.maxRecordsPerBatch": "100",
    "sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",  # as for an RDD: one daemon for both
}

# The workers are forks of one process that has imported the packages, and take no samples of what they run.
DASK = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.worker.profile.enabled": False,
}


@pytest.fixture(scope="session")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not on the path")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # workers import what the tests do
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)  # has the daemon
        builder = sql.SparkSession.builder.master("local[2]")
        for name, value in SPARK.items():
            builder = builder.config(f"spark.{name}", value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="session")
def client():
    dask, distributed = (pytest.importorskip(name) for name in ("dask", "distributed"))
    # any free port for the dashboard: other processes may have a cluster, too
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with (
        dask.config.set(DASK),
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
