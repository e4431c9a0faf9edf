"""Messages on /api/v1/hidden as bytes: four bytes of length, a JSON header, numbers.

All numbers are little-endian. Rows are float32, or bfloat16 where the header says so; ids are int32.
"""

import json
import struct

import numpy as np

F32, I32 = np.dtype("<f4"), np.dtype("<i4")


def encode(header, parts, bf16=False):
    """The bytes of a message. parts are arrays: floats are rows, integers are ids."""
    head = json.dumps(header, separators=(",", ":")).encode()
    out = [struct.pack("<I", len(head)), head]
    for a in parts:
        a = np.asarray(a)
        if a.dtype.kind in "iu":
            out.append(np.ascontiguousarray(a, I32).tobytes())
        elif bf16:
            out.append(to_bf16(a).tobytes())
        else:
            out.append(np.ascontiguousarray(a, F32).tobytes())
    return b"".join(out)


def decode(message):
    """A message's header, and its numbers as one float32 array."""
    if len(message) < 4:
        raise ValueError("a message without a header")
    (n,) = struct.unpack_from("<I", message)
    if 4 + n > len(message):
        raise ValueError("a message that ends within its header")
    header = json.loads(bytes(message[4:4 + n]))
    body = memoryview(message)[4 + n:]
    losses = 4 * header.get("rows", 0) if header.get("type") == "loss" else 0
    if header.get("dtype") != "bf16":
        return header, np.frombuffer(body, F32).astype(np.float32, copy=True)
    return header, np.concatenate([np.frombuffer(body[:losses], F32), from_bf16(np.frombuffer(body[losses:], "<u2"))])


def to_bf16(values):
    """Values rounded to bfloat16 (to nearest, ties to even), as uint16."""
    bits = np.ascontiguousarray(values, F32).view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def from_bf16(halves):
    """bfloat16 values as float32, exactly."""
    return (halves.astype("<u4") << 16).view(F32)
