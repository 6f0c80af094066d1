"""A Ray of one's own on this machine, in processes that hear no signals of this one's terminal or process group.

Started in this process, Ray would be told of a stop together with it, by `timeout` or a batch system, and would end the
runs before they have saved.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

from mfec.errors import MfecError

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
OBJECT_STORE_BYTES = 100_000_000  # for settings and outcomes, which are small
END_SECONDS = 30.0


def prepare_environment(*, own: bool) -> None:
    """Say to Ray what it only hears before it is imported: to be quiet, and the token of a Ray of one's own."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if own and "RAY_AUTH_MODE" not in os.environ:  # else Ray writes a token into the user's home
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


class LocalRay:
    """A Ray on this machine for as long as it is open; only who knows its token may talk to it."""

    def __init__(self, *, cpus: int, memory: int, log: Path) -> None:
        """memory: bytes of RAM that runs may ask for together; log: for what Ray says."""
        settings = {"num_cpus": cpus, "_memory": memory, "object_store_memory": OBJECT_STORE_BYTES}
        with log.open("a") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        if not self.address:
            self.close()
            raise MfecError(f"Ray could not be started on this machine; {log} says why")

    def close(self) -> None:
        """End it, with all that runs there."""
        try:
            self._process.communicate(timeout=END_SECONDS)  # closes what it reads from
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def _serve(settings: dict[str, Any]) -> None:
    """Run Ray until nobody holds the other end of standard input any more."""
    import ray

    ray.init("local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **settings)
    print(ray.get_runtime_context().gcs_address, flush=True)
    sys.stdout = sys.stderr  # nobody reads what comes after the address
    sys.stdin.read()
    ray.shutdown()


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
