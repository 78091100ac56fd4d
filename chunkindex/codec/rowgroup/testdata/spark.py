"""Creates the files in this directory that Apache Spark writes, in its default format and in the format of releases before 1.6.

It requires pyspark (4.3.0, half a gigabyte) and Java 17; the tests do not. make.py describes the file of rows next to each file.
"""

import glob
import json
import pathlib
import shutil
import sys
import tempfile

from pyspark.sql import SparkSession

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3] / "integration" / "python"))
import physical  # noqa: E402

COLUMNS = [
    "cast(id as int) id",
    "if(id % 5 = 2, null, concat('text ', id % 7)) text",
    "cast(id * 1.5 as double) score",
    "cast(id as float) f",
    "id % 3 = 0 ok",
    "date_add(date'2026-11-23', cast(id as int)) day",
    "timestamp'2026-11-23 10:30:00' + make_interval(0, 0, 0, 0, 0, 0, id) at",
    "timestamp_ntz'2026-11-23 10:30:00' local",
    "cast(id * 1.01 as decimal(9, 2)) price",
    "cast(id * 1.01 as decimal(30, 2)) large",
    "if(id % 4 = 1, null, sequence(0, id % 4)) numbers",
    "if(id % 6 = 1, null, array(concat('w', id), null)) words",
    "named_struct('bytes', cast(concat('b', id) as binary), 'path', if(id % 2 = 0, null, concat('p', id))) image",
    "map(concat('k', id), id) counts",
    "if(id % 7 = 3, null, array(named_struct('role', 'user', 'content', concat('c', id)))) chat",
    "cast(id as byte) tiny",
    "cast(id as short) small",
]


def main() -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    for name, compression, legacy, timestamps in ("by-spark", "zstd", "false", "TIMESTAMP_MICROS"), ("by-spark-legacy", "gzip", "true", "INT96"):
        spark.conf.set("spark.sql.parquet.writeLegacyFormat", legacy)
        spark.conf.set("spark.sql.parquet.outputTimestampType", timestamps)
        with tempfile.TemporaryDirectory() as out:
            spark.range(40).selectExpr(*COLUMNS).coalesce(1).write.mode("overwrite").option("compression", compression).parquet(out)
            (file,) = glob.glob(out + "/*.parquet")
            shutil.copy(file, HERE / f"{name}.parquet")
        with open(HERE / f"{name}.jsonl", "w", encoding="utf-8") as lines:
            for row in physical.rows(str(HERE / f"{name}.parquet")):
                lines.write(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n")


main()
