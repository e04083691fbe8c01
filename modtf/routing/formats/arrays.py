"""Arrays that users saved: .npz, .npy, a folder of them, safetensors, parquet, traces of Megatron Core.

The latter (`--moe-routing-trace-path`) are a file of JSON lines for each rank, a line for each step, block
and layer, and beside it, where asked for, the logits as bfloat16: docs.nvidia.com/megatron-core,
`core.transformer.moe.router_trace`.
"""

import json
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from modtf.files import check_ratio
from modtf.results.schema import UNREADABLE
from modtf.routing.measuring.checks import BFLOAT16

LOCAL_HEADER = 30  # bytes of a file's header inside a zip file, before its name and its extra field
#: type in a .safetensors file -> in NumPy
SAFETENSORS = {
    **{f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    "BF16": BFLOAT16,
    "BOOL": "?",
}
Found = dict[str, Callable[[], NDArray[Any]]]  # name of an array -> what reads it


class Arrays(Mapping[str, NDArray[Any]]):
    """The arrays of a file or folder. Nothing is read before it is asked for, and little then.

    Arrays of .npy files and those that `np.savez` wrote are mapped into memory: what is used of them is read
    when it is used. One that `np.savez_compressed` wrote is decompressed as a whole.

    Args:
        path: an .npz file; a folder of .npy files, by their names; one .npy file, by the name "activations";
            a .safetensors file; a .parquet file with a row for each token, `[layers, k]` or `[k]` in it as
            lists; a .jsonl file that Megatron Core's router tracer wrote, or a folder of one for each rank.

    Raises:
        ValueError: if there is nothing of that kind.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._read: dict[str, Callable[[], NDArray[Any]]] = {}
        if not self.path.exists():
            raise ValueError(f"{self.path} does not exist.")
        for kind, find in FORMATS.items():
            if kind == self.path.suffix or (self.path.is_dir() and any(self.path.glob(f"*{kind}"))):
                with explained(f"{self.path} is no {kind} file"):
                    self._read = find(self.path)
                break
        else:
            raise ValueError(
                f"{self.path} holds nothing of {', '.join(FORMATS)}. Write arrays with numpy.savez('x.npz', "
                "activations=..., labels=...), or each with numpy.save into one folder."
            )

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The array, read-only; `ValueError` if it cannot be read, or not without running what is in it."""
        read = self._read[name]
        with explained(f"The array {name!r} of {self.path} cannot be read"):
            return read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Says in one line what could not be read, or which library would read it."""
    try:
        yield
    except ImportError as error:
        raise ValueError(f"{what}: {error}. Install it: pip install 'modtf[parquet]'") from error
    except (*UNREADABLE, TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"{what}: {error}") from error


def _of_npy(path: Path) -> NDArray[Any]:
    """The array of an .npy file, mapped into memory."""
    with path.open("rb") as file:
        return _mapped(path, file)


def _of_archive(path: Path, name: str) -> NDArray[Any]:
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{name}.npy")
        check_ratio(path, [member])
        if member.compress_type != zipfile.ZIP_STORED:
            with archive.open(member) as packed:
                return np.lib.format.read_array(packed, allow_pickle=False)
    with path.open("rb") as file:
        file.seek(member.header_offset)
        *_, name_length, extra_length = struct.unpack("<26s2H", file.read(LOCAL_HEADER))
        file.seek(name_length + extra_length, 1)
        return _mapped(path, file)


def _mapped(path: Path, file: IO[bytes]) -> NDArray[Any]:
    """The array whose .npy header the file stands at."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects. Save numbers, and names as text: numpy.array(names, str)")
    if 0 in shape:
        return np.zeros(shape, dtype)
    order: Literal["C", "F"] = "F" if is_fortran else "C"
    return np.memmap(path, dtype, mode="r", offset=file.tell(), shape=shape, order=order)


def _of_folder(path: Path) -> Found:
    files = {file.stem: file for file in path.glob("*.npy")} if path.is_dir() else {"activations": path}
    return {name: partial(_of_npy, files[name]) for name in sorted(files)}


def _of_zip(path: Path) -> Found:
    with zipfile.ZipFile(path) as archive:
        inside = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    return {name: partial(_of_archive, path, name) for name in inside}


def _of_safetensors(path: Path) -> Found:
    """Read here, as the library's own reader for NumPy refuses bfloat16."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > path.stat().st_size:
            raise ValueError("its header is longer than the file")
        header = json.loads(file.read(length))
    found: Found = {}
    for name, one in header.items():
        if name != "__metadata__":
            dtype, begin = np.dtype(str(SAFETENSORS[one["dtype"]])), 8 + length + one["data_offsets"][0]
            shape = tuple(one["shape"])
            found[name] = partial(np.memmap, path, dtype, "r", begin, shape or (1,))
    return found


def _of_parquet(path: Path) -> Found:
    from pyarrow import parquet

    def read(name: str) -> NDArray[Any]:
        values, shape = parquet.read_table(path, columns=[name])[name].combine_chunks(), []
        while hasattr(values, "flatten") and values.type.num_fields:  # lists, of one length
            shape.append(len(values))
            values = values.flatten()
        inner = values.to_numpy(zero_copy_only=False)
        inner = inner.astype(str) if inner.dtype.kind == "O" else inner
        array = inner.reshape([*(b // a for a, b in zip([1, *shape], [*shape, len(inner)], strict=True))])
        return np.moveaxis(array, 1, 0) if array.ndim == 3 else array  # tokens were first

    return {name: partial(read, name) for name in parquet.read_schema(path).names}


Record = dict[str, Any]
Layer = tuple[str, int, int]  # block, number among those that predict several tokens or -1, layer


def traced_arrays(path: Path) -> dict[str, Callable[[], NDArray[Any]]]:
    """The arrays of one rank's file, or of a folder of them, tokens rank by rank and step by step: `experts`
    [layers, tokens, k], `layer_names`; with logits also `activations` [layers, tokens, E], in bfloat16, and
    `num_experts`. `ValueError` on a line that is none of a trace, or layers that routed different tokens."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    layers: dict[Layer, list[Record]] = {}
    for record in (record for file in files for record in _records(file)):
        place = record["block"], record.get("mtp_idx", -1), record["layer"]
        layers.setdefault(place, []).append(record)
    names, traces = sorted(layers), [layers[name] for name in sorted(layers)]
    counts = [[record["num_tokens"] for record in trace] for trace in traces]
    for name, number in zip(names, counts, strict=True):
        if number != counts[0]:
            raise ValueError(
                f"the layers {names[0]} and {name} routed different tokens. Trace all layers in all steps."
            )
    found: dict[str, Callable[[], NDArray[Any]]] = {
        "experts": partial(_stacked, traces, _experts),
        "layer_names": lambda: np.array([_words(name) for name in names]),
    }
    if traces and all("logit_offset" in record for trace in traces for record in trace):
        found["activations"] = partial(_stacked, traces, _logits)
        found["num_experts"] = lambda: np.array(traces[0][0]["logit_shape"][-1])
    return found


def _records(file: Path) -> Iterator[Record]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                if lacking := {"num_tokens", "block", "layer", "top_indices"} - set(record):
                    raise ValueError(f"it lacks {', '.join(sorted(lacking))}")
            except (ValueError, TypeError) as error:
                raise ValueError(f"line {number} of {file.name} is none of a trace: {error}") from error
            yield {**record, "folder": file.parent}


def _stacked(layers: list[list[Record]], read: Callable[[Record], NDArray[Any]]) -> NDArray[Any]:
    return np.stack([np.concatenate([read(record) for record in records]) for records in layers])


def _experts(record: Record) -> NDArray[Any]:
    return np.asarray(record["top_indices"], np.int32).reshape(record["num_tokens"], -1)


def _logits(record: Record) -> NDArray[Any]:
    path = record["folder"] / f"logits_rank{record['rank']}.bin"
    count = record["logit_bytes"] // BFLOAT16.itemsize
    values = np.fromfile(path, BFLOAT16, count, offset=record["logit_offset"])
    return values.reshape(record["num_tokens"], record["logit_shape"][-1])


def _words(name: Layer) -> str:
    block, mtp, layer = name
    return f"{block} {layer}" if mtp < 0 else f"{block} {mtp}, {layer}"


#: ending of a file, or of files in a folder -> what finds the arrays there
FORMATS: dict[str, Callable[[Path], Found]] = {
    ".npz": _of_zip,
    ".npy": _of_folder,
    ".safetensors": _of_safetensors,
    ".parquet": _of_parquet,
    ".jsonl": traced_arrays,
}
