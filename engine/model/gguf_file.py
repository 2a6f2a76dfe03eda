"""A GGUF file's header, read once for model and tokenizer.

Must not know: tensors' use. Trap: the gguf package makes two numpy views for each string of an array, two seconds for a
vocabulary with its merges; arrays are read here in one sweep, the rest is the package's.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

ARRAY_HEADER = struct.Struct("<IQ")  # type of the items, their number
LENGTH = struct.Struct("<Q")
STRING = 8  # gguf's number for it


@lru_cache(maxsize=2)
def open_gguf(path: Path) -> Any:
    """gguf's reader with arrays read quickly; an array's field has one part, an object array of its items."""
    import numpy as np
    from gguf import GGUFReader, GGUFValueType

    class QuickReader(GGUFReader):  # type: ignore[misc]
        def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
            if raw_type != GGUFValueType.ARRAY or self.byte_order == "S":
                return super()._get_field_parts(orig_offs, raw_type)
            kind = GGUFValueType(ARRAY_HEADER.unpack_from(self.data, orig_offs)[0])
            if kind == GGUFValueType.STRING:
                end, strings = read_strings(memoryview(self.data), orig_offs)
                part = np.array(strings, dtype=object)
            elif kind in self.gguf_scalar_to_np:
                end, part = read_numbers(self.data, orig_offs, self.gguf_scalar_to_np[kind])
            else:
                return super()._get_field_parts(orig_offs, raw_type)
            return end - orig_offs, [part], [0], [GGUFValueType.ARRAY, kind]

    return QuickReader(path)


def forget_pages(path: Path) -> None:
    """The file stays mapped; its pages, read once and packed elsewhere, are given back."""
    mapped = open_gguf(path).data._mmap
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def read_strings(data: memoryview, at: int) -> tuple[int, list[str]]:
    """Where the array that begins at `at` ends, and its strings."""
    _, count = ARRAY_HEADER.unpack_from(data, at)
    at += ARRAY_HEADER.size
    strings = []
    for _ in range(count):
        (length,) = LENGTH.unpack_from(data, at)
        at += LENGTH.size
        strings.append(str(data[at : at + length], "utf-8"))
        at += length
    return at, strings


def read_numbers(data: Any, at: int, dtype: Any) -> tuple[int, Any]:
    """Where the array that begins at `at` ends, and its numbers in one numpy array."""
    import numpy as np

    _, count = ARRAY_HEADER.unpack_from(data, at)
    at += ARRAY_HEADER.size
    end = at + count * np.dtype(dtype).itemsize
    if end > len(data):
        raise ValueError(f"The file ends inside an array of {count} numbers at byte {at}.")
    return end, np.array(data[at:end]).view(dtype)


@lru_cache(maxsize=2)
def gguf_metadata(path: Path) -> Mapping[str, Any]:
    """The key/value section."""
    fields = open_gguf(path).fields
    return {name: _value(field) for name, field in fields.items()}


def _value(field: Any) -> Any:
    last = field.parts[-1]
    return last.tolist() if last.dtype == object else field.contents()
