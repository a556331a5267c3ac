#!/usr/bin/env python3
"""Runs the conformance program once per break and says which breaks it saw.

Usage: sweep.py PLAN FOLDER [--jobs N] [--limit SECONDS] [--folder DIR] [--report FILE]

PLAN is what tools/break_kernels writes: the backend, and per break its number and the implementations
that stand on it; FOLDER holds the programs. "copies", "graphs" and "chains" are no implementations,
but tests (TESTS). Travels with the programs to a machine that has the device: standard library and
this file only. A break is chosen by the environment variable SLUICE_BREAK; for cuda, by writing its
number over the one that sluice_break has in a copy of the program. For cpu the processors are shared
out among the programs that run at a time.

A program ends at its first failing case. It is stopped after a minute, or 5 times what the unbroken one
took where that is more; to be stopped counts as seen, and the table has both times.
"""
import argparse
import concurrent.futures
import json
import os
import queue
import re
import shutil
import struct
import subprocess
import sys
import time


# Program and tests, @ being the backend.
TESTS = {"copies": ("sluice_device_contract_test", "*DeviceContract*@*"),
         "graphs": ("sluice_backend_@_test", "*Graph*"),
         "chains": ("sluice_backend_@_test", "*Chain*")}


class Sweep:
    def __init__(self, plan, programs, folder, limit_s, jobs):
        self.limit_s = limit_s
        self.plan, self.programs, self.folder = plan, os.path.abspath(programs), folder
        self.took = {}    # seconds per implementation, unbroken
        self.images = {}  # of programs that are changed for each break
        self.processors = queue.SimpleQueue()  # of each job, where the processor is the device
        all_of_them = sorted(os.sched_getaffinity(0))
        for job in range(jobs):
            mine = all_of_them[job::jobs] or all_of_them
            self.processors.put(",".join(map(str, mine)))
        os.makedirs(folder, exist_ok=True)
        if plan["backend"] == "cuda":
            for name in sorted({self.command(i)[0] for b in plan["breaks"]
                                for i in b["implementations"]}):
                self.images[name] = self.read(name)

    def read(self, name):
        with open(os.path.join(self.programs, name), "rb") as file:
            image = file.read()
        found = image.count(struct.pack("<I", self.plan["magic"]))
        if found != self.plan["modules"]:
            sys.exit(f"sluice_break is {found} times in {name}, not {self.plan['modules']}: are the "
                     "modules compressed?")
        return image

    def command(self, implementation):
        backend = self.plan["backend"]
        if implementation in TESTS:
            program, tests = (text.replace("@", backend) for text in TESTS[implementation])
            return [program, f"--gtest_filter={tests}", "--gtest_brief=1"]
        # Sampling's programs are few and its rules many.
        cases = self.plan["cases"] * (5 if implementation.endswith("_sample") else 1)
        return ["sluice_conformance", "--device", backend, "--only", implementation, str(cases)]

    def conformance(self, number, implementation, limit_s):
        """Exit status (None: stopped), output and seconds, with caches of its own."""
        place = os.path.join(self.folder, f"{number}-{implementation}")
        shutil.rmtree(place, ignore_errors=True)  # of a run that was stopped
        os.makedirs(place)
        name, *options = self.command(implementation)
        program = os.path.join(self.programs, name)
        if name in self.images:
            program = os.path.join(place, name)
            with open(program, "wb") as file:
                file.write(self.images[name].replace(struct.pack("<I", self.plan["magic"]),
                                                     struct.pack("<I", number)))
            os.chmod(program, 0o755)
        environment = {**os.environ, "SLUICE_BREAK": str(number),
                       "SLUICE_CACHE": os.path.join(place, "cache"),
                       "POCL_CACHE_DIR": os.path.join(place, "pocl")}
        os.makedirs(environment["POCL_CACHE_DIR"])
        processors = self.processors.get()
        command = ["taskset", "-c", processors] if self.plan["backend"] == "cpu" else []
        started = time.monotonic()
        try:
            done = subprocess.run([*command, program, *options], env=environment, stdout=subprocess.PIPE, text=True,
                                  stderr=subprocess.STDOUT, errors="replace", timeout=limit_s,
                                  check=False)
            return done.returncode, done.stdout, time.monotonic() - started
        except subprocess.TimeoutExpired:
            return None, "", limit_s
        finally:
            self.processors.put(processors)
            shutil.rmtree(place, ignore_errors=True)

    def unbroken(self, implementation):
        status, text, took = self.conformance(0, implementation, 600)
        if status == 0:
            self.took[implementation] = took
        else:
            print(f"{text}unbroken, {implementation} ends with {status}: it is left out", flush=True)

    def judge(self, one):
        """(number, who saw it and how, or None)."""
        for implementation in sorted(set(one["implementations"]) & set(self.took),
                                     key=self.took.get):
            limit_s = max(self.limit_s, 5 * self.took[implementation])
            status, text, _ = self.conformance(one["number"], implementation, limit_s)
            if status == 0:
                continue
            if "could not compile" in text:
                return one["number"], "does not compile"
            failed = re.search(r"first: (case \d+ \([^)]*\))|FAILED  \] ([\w./]+)", text)
            how = (failed[1] or failed[2] if failed else
                   f"no end in {limit_s:.0f} s, {self.took[implementation]:.1f} s unbroken"
                   if status is None else f"ends with {status}")
            return one["number"], f"{implementation}: {how}"
        return one["number"], None


def table(plan, results):
    rows = ["| file | function | break | line after it | seen by |", "| --- | --- | --- | --- | --- |"]
    for one in plan["breaks"]:
        code = " ".join(one["line"].rstrip("\\").split()).replace("|", "\\|")
        rows.append(f"| {one['file']} | {one['function']} | {one['what']} | `{code}` | "
                    f"{results[one['number']] or '**nothing**'} |")
    rows += ["", "Without a break: " + (", ".join(plan["without"]) or "none") + "."]
    return "\n".join(rows) + "\n"


def run(plan, programs, folder, jobs, report, limit_s=60):
    """Prints the table and writes it to `report` unless that is None; 1 where a break survives."""
    started = time.monotonic()
    sweep = Sweep(plan, programs, folder, limit_s, jobs)
    results = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(sweep.unbroken, sorted({i for b in plan["breaks"]
                                              for i in b["implementations"]})))
        print(f"unbroken, seconds: { {k: round(v, 1) for k, v in sweep.took.items()} }", flush=True)
        for done in concurrent.futures.as_completed(
                [pool.submit(sweep.judge, one) for one in plan["breaks"]]):
            number, seen = done.result()
            results[number] = seen
            print(f"{number}: {seen}", flush=True)
    text = table(plan, results)
    if report:
        with open(report, "w", encoding="utf-8") as file:
            file.write(text)
    survived = sum(seen is None for seen in results.values())
    print(f"{text}\n{len(results)} breaks, {survived} not seen, {time.monotonic() - started:.0f} s")
    return 1 if survived else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("plan")
    parser.add_argument("programs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=60, help="seconds of a program, at least")
    parser.add_argument("--folder", default="/dev/shm/sluice-breaks")
    parser.add_argument("--report", help="where the table goes too")
    arguments = parser.parse_args()
    with open(arguments.plan, encoding="utf-8") as file:
        plan = json.load(file)
    return run(plan, arguments.programs, arguments.folder, arguments.jobs, arguments.report,
               arguments.limit)


if __name__ == "__main__":
    sys.exit(main())
