"""Put trained encoders, RUNS/GAME of `mfec vae train`, into the package: `python results/vae/ship.py RUNS`.

The encoder is shipped as it is. The decoder, which only draws pictures, is shipped with half the digits.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

import mfec
from mfec.embeddings.vae.files import read_network, write_network


def main() -> None:
    shipped = Path(mfec.__file__).parent / "embeddings" / "vae" / "shipped"
    for encoder in sorted(Path(sys.argv[1]).glob("*/encoder.safetensors")):
        source, place = encoder.parent, shipped / encoder.parent.name
        place.mkdir(parents=True, exist_ok=True)
        read_network(source, "encoder")  # every byte is checked
        shutil.copyfile(encoder, place / encoder.name)
        architecture, tensors = read_network(source, "decoder")
        write_network(place, "decoder", {name: own.astype(np.float16) for name, own in tensors.items()}, architecture)
        shutil.copyfile(source / "config.toml", place / "config.toml")
        print(place.name, *(f"{file.name} {file.stat().st_size:,} bytes" for file in sorted(place.iterdir())))


if __name__ == "__main__":
    main()
