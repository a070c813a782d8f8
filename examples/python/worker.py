#!/usr/bin/env python3
"""A worker that makes its own calls, and asks a Breakerbox gateway before each of them.

It reads jobs from its standard input, one JSON object in a line: {"url": "https://...", "body": {...}}. Any number of these
workers can run at once, anywhere: the gateway sees to it that a destination that is down gets one call at a time, from one of
them, until it is back. Nothing but Python's standard library is needed.

    export BREAKERBOX_URL=http://127.0.0.1:8080 BREAKERBOX_API_KEY=bbx_...
    python3 worker.py < jobs.jsonl
"""

import heapq
import json
import os
import queue
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

GATEWAY = os.environ.get("BREAKERBOX_URL", "http://127.0.0.1:8080")
KEY = os.environ["BREAKERBOX_API_KEY"]
CALLS_AT_ONCE = 8
CALL_TIMEOUT = 10.0  # Seconds for one call to a destination.
ASK_TIMEOUT = 5.0  # Seconds for one request to the gateway.
LONGEST_WAIT = 30.0  # No job sleeps longer than this, whatever it is told: things may have changed.
ATTEMPTS = 20  # A job that failed so often is given up.
STOP_AFTER = float(os.environ.get("WORKER_STOP_AFTER", "300"))  # Seconds. So that it ends, whatever happens.


def ask(path, body):
    """Asks the gateway something. Raises OSError if it can't be reached or does not want to."""
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    request = urllib.request.Request(GATEWAY + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=ASK_TIMEOUT) as answer:
        return json.load(answer)


def acquire(jobs):
    """Asks for all of them in one request: each is answered at its place, by a permit, a refusal or a problem."""
    items = [{"url": job["url"], "timeout": f"{CALL_TIMEOUT + 5:.0f}s"} for job in jobs]
    return ask("/v1/circuits/acquire/batch", {"items": items})["items"]


def settle(permit, report):
    """Says how a call went. The first report counts, so it can be sent again when nobody knows whether it arrived."""
    for pause in (0.1, 0.5, 2.0, None):
        try:
            return ask("/v1/permits/settle", {"id": permit["id"], **report})
        except OSError:
            if pause is None:
                return None  # The permit expires by itself.
            time.sleep(pause)


def call(job, seconds):
    """Makes the call. What came of it, in the words of a report."""
    began = time.monotonic()
    body = json.dumps(job.get("body")).encode()
    request = urllib.request.Request(job["url"], body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            report = {"status": answer.status}
    except urllib.error.HTTPError as error:
        report = {"status": error.code}
        if error.headers.get("retry-after", "").isdigit():
            report["retry_after_ms"] = int(error.headers["retry-after"]) * 1000
        error.close()
    except TimeoutError:
        report = {"fault": "timeout"}
    except OSError as error:
        timed_out = isinstance(getattr(error, "reason", None), TimeoutError)
        report = {"fault": "timeout" if timed_out else "connect"}
    return {**report, "latency_ms": round((time.monotonic() - began) * 1000)}


def work(job, permit):
    """Makes one call and reports it at once: a slow destination must not hold up what is known of the others."""
    # A probe has less time than others. What it brings later would count for nothing.
    report = call(job, max(0.01, min(CALL_TIMEOUT, permit["time_left_ms"] / 1000)))
    settled = settle(permit, report) or {}
    if 200 <= report.get("status", 0) < 300:
        return None  # Done.
    job["attempts"] = job.get("attempts", 0) + 1
    # The destination may want to be left alone, though its circuit does not see to that (429).
    return max((settled.get("wait_ms") or 0) / 1000, min(2.0 ** job["attempts"] / 10, LONGEST_WAIT))


def later(answer):
    """How long to wait after no permit was given. `retry_in_ms` needs no clock that is right; without one, look now and then."""
    refusal = answer.get("refusal")
    if refusal is None:
        print("problem:", answer["problem"]["detail"], file=sys.stderr)
        return LONGEST_WAIT
    seconds = LONGEST_WAIT if refusal["retry_in_ms"] is None else refusal["retry_in_ms"] / 1000
    return min(max(seconds, 0.05), LONGEST_WAIT)


class Jobs:
    """Jobs that wait, each until its time."""

    def __init__(self):
        self.heap, self.count = [], 0

    def put(self, job, seconds=0.0):
        self.count += 1
        heapq.heappush(self.heap, (time.monotonic() + seconds, self.count, job))

    def take_due(self, at_most):
        due = []
        while self.heap and self.heap[0][0] <= time.monotonic() and len(due) < at_most:
            due.append(heapq.heappop(self.heap)[2])
        return due


def read_into(incoming):
    for line in sys.stdin:
        if line.strip():
            incoming.put(json.loads(line))


def begin(jobs, pool, running):
    """Asks for as many jobs as can begin now, and no more: a permit that lies around expires."""
    due = jobs.take_due(CALLS_AT_ONCE - len(running))
    try:
        answers = acquire(due) if due else []
    except OSError as error:
        # Nobody says whether the calls may be made. They can wait, so they do.
        print("gateway:", error, file=sys.stderr)
        answers = [{"refusal": {"retry_in_ms": 1000}}] * len(due)
    for job, answer in zip(due, answers):
        if "permit" in answer:
            running[pool.submit(work, job, answer["permit"])] = job
        else:
            jobs.put(job, later(answer))


def end(jobs, running):
    """Takes in what has ended meanwhile. Answers how many jobs are done."""
    done = 0
    for future in wait(running, timeout=0.02, return_when=FIRST_COMPLETED).done:
        job, pause = running.pop(future), future.result()
        if pause is None:
            done += 1
        elif job["attempts"] < ATTEMPTS:
            jobs.put(job, pause)
        else:
            print("given up:", job["url"], file=sys.stderr)
    return done


def main():
    incoming, jobs, running, done = queue.Queue(), Jobs(), {}, 0
    reader = threading.Thread(target=read_into, args=[incoming], daemon=True)
    reader.start()
    stop_at = time.monotonic() + STOP_AFTER
    with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
        while time.monotonic() < stop_at:
            has_more = reader.is_alive()  # Before looking, so that the last line is not missed.
            while not incoming.empty():
                jobs.put(incoming.get())
            if not (has_more or jobs.heap or running):
                break
            begin(jobs, pool, running)
            if running:
                done += end(jobs, running)
            else:
                time.sleep(0.02)
    print(json.dumps({"done": done, "left": len(jobs.heap) + len(running)}))


if __name__ == "__main__":
    main()
