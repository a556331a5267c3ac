"""Starting programs and looking at them: output, time to the first byte, peak memory, servers."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request


def run(command, timeout=1800):
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if result.returncode:
        sys.exit(f"{' '.join(command)}\nended with {result.returncode}:\n{result.stderr[-2000:]}")
    return result


def seconds_to_first_byte(command, timeout=120):
    """From the start of the process to the first byte that is not a blank on its standard output."""
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        try:
            while time.monotonic() - start < timeout:
                ready, _, _ = select.select([program.stdout], [], [], 1)
                data = os.read(program.stdout.fileno(), 4096) if ready else None
                if data == b"":
                    break
                if data and data.strip():
                    return time.monotonic() - start
        finally:
            program.kill()
    sys.exit(f"{' '.join(command)} printed nothing in {timeout} s")


def peak_memory(command):
    """Peak resident MiB of a run. This process is small, so that what a child has of it before its
    exec does not count."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
    if program.returncode:
        sys.exit(f"{' '.join(command)} ended with {program.returncode}")
    return usage.ru_maxrss / 1024


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def server(command, port, timeout=120):
    """The process of a server that answers on /health; ended at the end."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        try:
            end = time.monotonic() + timeout
            while not answers(port):
                if program.poll() is not None or time.monotonic() > end:
                    sys.exit(f"{' '.join(command)} does not serve (status {program.poll()})")
                time.sleep(0.1)
            yield program
        finally:
            program.send_signal(signal.SIGINT)
            try:
                program.wait(20)
            except subprocess.TimeoutExpired:
                program.kill()


def answers(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False
