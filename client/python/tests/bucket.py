"""A bucket in a MinIO that a test starts."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from pathlib import Path

import harness

KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "a secret of this test", "AWS_REGION": "us-east-1"}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")  # where `make deps` installs programs; a test may set another one
START = 60.0  # seconds that MinIO may take to start on a loaded machine


class MinIO:
    """A MinIO server with one bucket, called bucket. Its environment variables give programs access to it."""

    def __init__(self, directory: Path) -> None:
        (directory / "bucket").mkdir(parents=True)
        program = CACHE / "millrace/bin/minio"
        assert program.is_file(), f"{program}: no such program; run make deps"
        address = f"127.0.0.1:{harness.free_port()}"
        root = {"MINIO_ROOT_USER": KEYS["AWS_ACCESS_KEY_ID"], "MINIO_ROOT_PASSWORD": KEYS["AWS_SECRET_ACCESS_KEY"]}
        command = [str(program), "server", "--quiet", "--address", address, str(directory)]
        self._process = subprocess.Popen(command, env={**os.environ, **root}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.variables = {**KEYS, "AWS_ENDPOINT_URL": f"http://{address}"}
        self._await(f"http://{address}/minio/health/ready")

    def _await(self, health: str) -> None:
        end = time.monotonic() + START
        while True:
            assert self._process.poll() is None, "MinIO has ended"
            try:
                with urllib.request.urlopen(health, timeout=5):
                    return
            except OSError:
                assert time.monotonic() < end, "MinIO does not answer"
                time.sleep(0.05)

    def upload(self, directory: Path, prefix: str) -> None:
        """Uploads the files of a directory to the bucket."""
        import boto3

        s3 = boto3.client(
            "s3",
            endpoint_url=self.variables["AWS_ENDPOINT_URL"],
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
            region_name=KEYS["AWS_REGION"],
        )
        for path in sorted(p for p in directory.rglob("*") if p.is_file()):
            s3.upload_file(str(path), "bucket", f"{prefix}/{path.relative_to(directory)}")
        s3.close()

    def close(self) -> None:
        """Stops the server."""
        self._process.kill()
        self._process.wait()
