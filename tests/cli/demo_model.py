"""Where the demo model is."""

import os
import pathlib


def path():
    cache = pathlib.Path(os.environ.get("SLUICE_CACHE", pathlib.Path.home() / ".cache" / "sluice"))
    model = cache / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not model.exists():
        raise SystemExit(f"{model} is missing; scripts/test gets it")
    return str(model)
