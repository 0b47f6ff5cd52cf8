"""What devices can do at best, for estimating times where nothing is run.

Dense rates without sparsity, in floating point operations per second by dtype, and memory bandwidth,
as the makers' data sheets give them:

- NVIDIA: V100 (SXM2), T4, A10, A100 (SXM, 40 and 80 GB), L4, L40S, H100 (SXM and PCIe), H200 (SXM) and
  B200 (HGX) Tensor Core GPU data sheets; the Ampere GA102 and Ada architecture white papers for the
  RTX 3090 and RTX 4090 (tensor rates with float32 accumulation). Rates that a sheet gives with 2:4
  sparsity are halved.
- AMD: Instinct MI250 and MI300X data sheets (matrix rates). PyTorch shows each of the MI250's two dies
  as a device of its own; the entry is one of them.

A dtype that a device has no units for runs at its float32 rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rematopt.errors import InvalidInputError

LAUNCH_SECONDS = 5e-6
"""Time from one op to the next on a GPU when neither has anything to do; no data sheet gives it."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What a device can do at best.

    Parameters
    ----------
    name : str
        Name of the device, for people.
    flops : dict of str to float
        Floating point operations per second of matrix products by dtype: ``float32`` and, where they
        are faster, ``tf32``, ``bfloat16``, ``float16``, ``float64``.
    bytes_per_second : float
        Memory bandwidth.
    launch_seconds : float
        What each op takes besides.
    """

    name: str
    flops: dict[str, float] = field(default_factory=dict)
    bytes_per_second: float
    launch_seconds: float = LAUNCH_SECONDS

    def __post_init__(self) -> None:
        if not self.flops.get("float32", 0) > 0:
            raise InvalidInputError(f"rates of {self.name}: flops must give a positive rate for 'float32'")
        if not self.bytes_per_second > 0 or self.launch_seconds < 0 or min(self.flops.values()) <= 0:
            raise InvalidInputError(f"rates of {self.name}: rates must be positive, launch_seconds at least 0")

    def flops_for(self, dtype: str, *, tf32: bool = False) -> float:
        """Rate of matrix products in ``dtype``; ``tf32`` says that float32 may be computed as tf32."""
        name = "tf32" if tf32 and dtype == "float32" and "tf32" in self.flops else dtype
        return self.flops.get(name, self.flops["float32"])


def _sheet(
    name: str, gigabytes_per_second: float, float32: float, half: float, float64: float, tf32: float | None = None
) -> Rates:
    """A data sheet's entry; rates in TFLOP/s, ``half`` for float16 and bfloat16."""
    tera = {"float32": float32, "float16": half, "bfloat16": half, "float64": float64}
    if tf32 is not None:
        tera["tf32"] = tf32
    flops = {dtype: rate * 1e12 for dtype, rate in tera.items()}
    return Rates(name=name, flops=flops, bytes_per_second=gigabytes_per_second * 1e9)


def _without_bfloat16(rates: Rates) -> Rates:
    """The same for devices from before bfloat16, which run it at their float32 rate."""
    flops = {dtype: rate for dtype, rate in rates.flops.items() if dtype != "bfloat16"}
    return Rates(name=rates.name, flops=flops, bytes_per_second=rates.bytes_per_second)


DEVICES: dict[str, Rates] = {
    "v100": _without_bfloat16(_sheet("NVIDIA V100 SXM2", 900, 15.7, 125, 7.8)),
    "t4": _without_bfloat16(_sheet("NVIDIA T4", 320, 8.1, 65, 0.25)),
    "a10": _sheet("NVIDIA A10", 600, 31.2, 125, 0.49, 62.5),
    "a100-40gb": _sheet("NVIDIA A100 40 GB", 1555, 19.5, 312, 19.5, 156),
    "a100-80gb": _sheet("NVIDIA A100 80 GB", 2039, 19.5, 312, 19.5, 156),
    "l4": _sheet("NVIDIA L4", 300, 30.3, 121, 0.47, 60),
    "l40s": _sheet("NVIDIA L40S", 864, 91.6, 362, 1.43, 183),
    "h100": _sheet("NVIDIA H100 SXM", 3350, 67, 989, 67, 495),
    "h100-pcie": _sheet("NVIDIA H100 PCIe", 2000, 51, 756, 51, 378),
    "h200": _sheet("NVIDIA H200 SXM", 4800, 67, 989, 67, 495),
    "b200": _sheet("NVIDIA B200", 7700, 75, 2250, 37, 1125),
    "rtx3090": _sheet("NVIDIA RTX 3090", 936, 35.6, 71, 0.56, 35.6),
    "rtx4090": _sheet("NVIDIA RTX 4090", 1008, 82.6, 165, 1.29, 82.6),
    "mi250": _sheet("AMD MI250, one die", 1638, 45.3, 181, 45.3),
    "mi300x": _sheet("AMD MI300X", 5300, 163.4, 1307, 163.4, 654),
}
"""Rates by the name that ``timing="roofline:NAME"`` takes."""

ALIASES = {"a100": "a100-80gb"}


def rates_of(name: str) -> Rates:
    """Find the rates of a device.

    Parameters
    ----------
    name : str
        A name of :data:`DEVICES`, or the path of a JSON file with the fields of :class:`Rates`.

    Raises
    ------
    InvalidInputError
        If there is no device of that name, or the file cannot be used.
    """
    if name.endswith(".json"):
        return _read(Path(name))
    key = name.lower().replace("_", "-")
    key = ALIASES.get(key, key)
    if key not in DEVICES:
        known = ", ".join(["local", *ALIASES, *DEVICES])
        raise InvalidInputError(f"no rates are known for {name!r}; use one of {known}, or a JSON file of your own")
    return DEVICES[key]


def _read(path: Path) -> Rates:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Rates)
    except OSError as error:
        raise InvalidInputError(f"cannot read the rates in {path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, InvalidInputError) as error:
        raise InvalidInputError(
            f"{path} holds no rates: {error}; expected "
            '{"name": ..., "flops": {"float32": ...}, "bytes_per_second": ...}'
        ) from error
