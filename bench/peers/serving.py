"""The load of many streaming clients on a server that speaks OpenAI's completions, with nothing but
the standard library: on few cores a client must cost little."""

import asyncio
import json
import random
import time
import urllib.request

WORDS = ("the of and to a in is it that for was on are as with his they be at one have this from or "
         "had by word but what some we can out other were all there when up use your how said an "
         "each she which do their time if will way about many then them write would like so these "
         "her long make thing see him two has look more day could go come did number sound").split()


def requests(count, seed=1):
    """(prompt, answer tokens) of mixed lengths, the same for every server. A common word is a token."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        words = draw.choice((16, 32, 64, 128, 256, 384))
        found.append((" ".join(draw.choice(WORDS) for _ in range(words)),
                      draw.choice((16, 32, 64, 96))))
    return found


async def events(reader):
    """The data of each server-sent event of a chunked answer, with the time of its arrival."""
    buffer = b""
    while True:
        size = int((await reader.readline()).split(b";")[0], 16)
        if size == 0:
            return
        buffer += (await reader.readexactly(size + 2))[:-2]
        now = time.monotonic()
        while (end := buffer.find(b"\n\n")) >= 0:
            event, buffer = buffer[:end], buffer[end + 2:]
            for line in event.split(b"\n"):
                if line.startswith(b"data: ") and line != b"data: [DONE]":
                    yield now, json.loads(line[6:])


async def head_of(reader):
    status = int((await reader.readline()).split()[1])
    while (await reader.readline()).strip():
        pass
    return status


def served_model(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=10) as answer:
        return json.load(answer)["data"][0]["id"]


async def ask(port, model, prompt, tokens):
    """(time to the first token, times between tokens, tokens) of one streamed answer."""
    body = json.dumps({"model": model, "prompt": prompt, "max_tokens": tokens, "stream": True,
                       "temperature": 0, "ignore_eos": True,
                       "stream_options": {"include_usage": True}}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        start = last = time.monotonic()
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                     + body)
        if await head_of(reader) != 200:
            raise RuntimeError((await reader.read(500)).decode(errors="replace"))
        first, between, counted = None, [], None
        async for now, event in events(reader):
            if event.get("usage"):
                counted = event["usage"]["completion_tokens"]
            if not event.get("choices") or not event["choices"][0].get("text"):
                continue
            if first is None:
                first = now - start
            else:
                between.append(now - last)
            last = now
        return first, between, tokens if counted is None else counted
    finally:
        writer.close()


async def load(port, model, clients, todo):
    """Runs all requests over so many clients; each client takes the next as it gets free."""
    queue, done = list(reversed(todo)), []

    async def client():
        while queue:
            done.append(await ask(port, model, *queue.pop()))

    start = time.monotonic()
    await asyncio.gather(*(client() for _ in range(clients)))
    return time.monotonic() - start, done


def percentile(values, percent):
    """The smallest value that so many per cent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * percent // 100) - 1))]


def summary(seconds, done):
    """Row key -> value."""
    first = [one for one, _, _ in done if one is not None]
    between = [time for _, times, _ in done for time in times]
    return {"serving": sum(tokens for _, _, tokens in done) / seconds,
            "ttft p50": 1e3 * percentile(first, 50), "ttft p99": 1e3 * percentile(first, 99),
            "itl p50": 1e3 * percentile(between, 50), "itl p99": 1e3 * percentile(between, 99)}


def measure(port, clients, count):
    model = served_model(port)
    asyncio.run(load(port, model, 2, requests(2, seed=2)))  # warms up
    return summary(*asyncio.run(load(port, model, clients, requests(count))))
