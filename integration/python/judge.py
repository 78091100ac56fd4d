"""Has REDbot check the responses of a gateway: judge.py URL... prints {URL: [[level, subject, note], ...]} as JSON.

REDbot requests each URL several times: without special headers, with Accept, with If-None-Match, with a range and with Accept-Encoding. The
program prints the notes of level "bad" and "warning" for all these requests. Each request has the token in MILLRACE_TOKEN, if there is one.
"""

import configparser
import json
import os
import sys

import thor
from redbot.resource import HttpResource

CONFIG = configparser.ConfigParser()
CONFIG.read_dict({"redbot": {"enable_local_access": "True"}})


def judge(urls):
    """Collects REDbot's notes for all URLs concurrently."""
    notes, waiting = {}, set(urls)

    def done(url, resource):
        every = [resource, *resource.subreqs.values()]
        found = {(n.level.value, n.subject, str(n.summary)) for r in every for n in r.response.notes if n.level.value in ("bad", "warning")}
        if not resource.response.complete:
            found.add(("bad", "", "no whole answer"))
        notes[url] = sorted(found)
        waiting.discard(url)
        if not waiting:
            thor.stop()

    token = os.environ.get("MILLRACE_TOKEN")
    headers = [("Authorization", f"Bearer {token}")] if token else []
    resources = []
    for url in urls:
        resource = HttpResource(CONFIG["redbot"])
        resource.set_request(url, headers=headers)
        resource.on("check_done", lambda url=url, resource=resource: done(url, resource))
        resources.append(resource)
    for resource in resources:
        resource.check()
    thor.run()
    return notes


if __name__ == "__main__":
    json.dump(judge(sys.argv[1:]), sys.stdout)
