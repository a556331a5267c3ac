"""Where the demo model is."""

import os
import pathlib


def path():
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    cache = os.environ.get("SLUICE_CACHE") or pathlib.Path(home) / "sluice"
    model = pathlib.Path(cache) / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not model.exists():
        raise SystemExit(f"{model} is missing; scripts/test gets it")
    return str(model)
