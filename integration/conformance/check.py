#!/usr/bin/env python3
"""Checks any Millrace gateway, and any client of it. Requires only Python 3.10.

examples:
  check.py gateway                                 starts a gateway for the kit's datasets
  check.py data ./kit                              write the datasets and their indexes, and print how to serve them
  check.py gateway http://10.0.0.7:8080            a gateway that serves those datasets
  check.py gateway unix:/run/millrace/socket       the same on a Unix socket, with batches in shared memory
  check.py client ./my-reader --fast               a client: faults, retries, resumes (README.md describes its interface)
  check.py client --verbose python3 clients/with_millrace.py

Exit code: 0 all checks passed, 1 a check failed, 2 the kit could not start.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from kit import client, gateway, lending, serving, vectors
from kit.http import ask
from kit.report import Report

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def parse(arguments: list[str]) -> argparse.Namespace:
    head, _, tail = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=head, epilog=tail, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument(
        "--millrace", metavar="PATH", default=os.path.join(ROOT, "bin", "millrace"), help="the program (default bin/millrace)"
    )
    said = argparse.ArgumentParser(add_help=False)
    said.add_argument("--verbose", action="store_true", help="print what is right, too")

    g = commands.add_parser("gateway", parents=[own, said], help="hold a gateway against the vectors and the interface")
    g.add_argument("url", metavar="URL", nargs="?", help="base URL of a gateway that serves the kit's datasets, or unix:PATH (default: start one)")
    commands.add_parser("shared", parents=[own, said], help="hold a gateway at a Unix socket against what is promised of shared memory (Linux)")
    c = commands.add_parser("client", parents=[own, said], help="hold a client against gateways that fail")
    c.add_argument("client", metavar="CLIENT...", nargs=argparse.REMAINDER, help="the client's command; the kit's own options go before it")
    d = commands.add_parser("data", parents=[own], help="write the datasets and their indexes, and say how to serve them")
    d.add_argument("directory", metavar="DIR", help="where to")
    commands.add_parser("vectors", parents=[own], help="write vectors.json anew; for changes of what addresses mean")
    return parser.parse_args(arguments)


def check_gateway(args: argparse.Namespace) -> int:
    report = Report(args.verbose)
    loaded = vectors.load()
    if args.url:
        reach([args.url])
        hold(args.url, loaded, report)
    else:
        with serving.Gateway(args.millrace) as own:
            hold(own.url, loaded, report)
    return report.end("gateway")


def hold(url: str, loaded: dict[str, Any], report: Report) -> None:
    gateway.check(url, loaded, report)
    if url.startswith("unix:") and not lending.check(url[len("unix:") :], report):
        print("note  batches in shared memory: the gateway lends none, and sends bytes")


def check_shared(args: argparse.Namespace) -> int:
    """Runs the checks about shared memory, at a separate socket."""
    report = Report(args.verbose)
    with tempfile.TemporaryDirectory() as at, serving.Gateway(args.millrace, listen=f"unix:{at}/socket") as own:
        if not lending.check(f"{at}/socket", report):
            raise serving.KitError(f"the gateway lends no memory here: {own.log().strip()}")
    return report.end("shared memory")


def check_client(args: argparse.Namespace) -> int:
    if not args.client:
        raise serving.KitError("name the client's command: check.py client COMMAND ARGUMENTS...")
    if not shutil.which(args.client[0]):
        raise serving.KitError(f"{args.client[0]}: no such program")
    report = Report(args.verbose)
    with serving.Gateway(args.millrace) as own:
        client.check(own.url, args.client, report)
    return report.end("client " + " ".join(args.client))


def write_data(args: argparse.Namespace) -> int:
    serve = serving.prepare(args.millrace, args.directory)
    print("serve them with:\n\n  millrace serve " + " \\\n    ".join(f"{a} {b}" for a, b in zip(serve[::2], serve[1::2])))
    return 0


def write_vectors(args: argparse.Namespace) -> int:
    with serving.Gateway(args.millrace) as own:
        quarantine = {name: serving.quarantine(args.millrace, own.directory, name) for name in serving.QUARANTINED}
        text = vectors.encode(vectors.make(own.url, quarantine))
    with open(vectors.PATH, "w", encoding="utf-8") as f:
        f.write(text)
    print(f"wrote {vectors.PATH}; git diff says what has changed")
    return 0


def reach(urls: Iterable[str]) -> None:
    for url in urls:
        try:
            ask(url, "/healthz")
        except (OSError, ValueError) as e:
            raise serving.KitError(f"reach {url}: {e}; want a base URL such as http://127.0.0.1:8080") from e


def main() -> int:
    args = parse(sys.argv[1:])
    commands = {"gateway": check_gateway, "shared": check_shared, "client": check_client, "data": write_data, "vectors": write_vectors}
    try:
        return commands[args.command](args)
    except serving.KitError as e:
        print(f"check.py: {e}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of the report has closed the pipe. Discard the rest, because flushing it at
        # exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
