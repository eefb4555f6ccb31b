"""Reading and writing the metadata inside a .tflite file."""

import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

from doap_tf.errors import InputError

#: What .tflite files of descriptors compute in.
PRECISIONS = ("float32", "float16", "int8")

_NAME = "doap_tf"
_CONTENTS = {
    None: "network of patches",
    "DenseNetwork": "network of whole images",
    "KeypointNetwork": "keypoint network",
}


@contextlib.contextmanager
def opened(
    path: pathlib.Path, network: str | None = None
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yields the contents of a file and its metadata; the block may find the file damaged.

    Args:
        path: The file.
        network: The class of the network of images that it must hold, for any size; None for one
            of patches.
    """
    try:
        content = path.read_bytes()
        metadata = read(content)
        if metadata.get("network") != network:
            raise InputError(f"{path} holds no {_CONTENTS[network]}.")
        if network and metadata.get("image_size"):
            sizes = metadata["image_size"]
            raise InputError(f"{path} takes images of {sizes} only: export it for any size.")
        yield content, metadata
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot read the network {path}: {error.strerror}.") from error
    except (KeyError, ValueError) as error:
        raise InputError(
            f"{path} is not a .tflite file of doap_tf ({error}): export the network again."
        ) from error


def attach(model: bytes, metadata: dict[str, Any], name: str = _NAME) -> bytes:
    """Adds metadata to a model, as JSON in a named buffer, which LiteRT itself ignores.

    They replace what had the name before.
    """
    from ai_edge_litert import schema_py_generated as schema

    tree = unpack(model)
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = json.dumps(metadata, indent=1).encode()
    entry.name, entry.buffer = name, len(tree.buffers)
    tree.buffers.append(buffer)
    others = [each for each in tree.metadata or [] if each.name != name.encode()]
    tree.metadata = [*others, entry]
    return pack(tree)


def unpack(model: bytes) -> Any:
    """Returns a model as a tree of objects that can be changed, a `ModelT` of LiteRT's schema."""
    # Imported here because training needs no LiteRT.
    from ai_edge_litert import schema_py_generated as schema

    return schema.ModelT.InitFromPackedBuf(model, 0)


def pack(tree: Any) -> bytes:
    """Returns a tree of `unpack` as the contents of a file."""
    import flatbuffers

    builder = flatbuffers.Builder(0)
    builder.Finish(tree.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def read(model: bytes, name: str = _NAME) -> dict[str, Any]:
    """Returns the metadata that `attach` added; raises a ValueError for other files."""
    from ai_edge_litert import schema_py_generated as schema

    try:
        tree = schema.Model.GetRootAs(model, 0)
        entries = [tree.Metadata(number) for number in range(tree.MetadataLength())]
        buffers = [entry.Buffer() for entry in entries if entry.Name() == name.encode()]
        return json.loads(tree.Buffers(buffers[0]).DataAsNumpy().tobytes())
    except Exception as error:  # reading past the end of a damaged file raises many kinds
        raise ValueError("damaged, or without our metadata") from error


def tensor_names(model: bytes) -> list[str]:
    """Names of all tensors of a model."""
    from ai_edge_litert import schema_py_generated as schema

    graph = schema.Model.GetRootAs(model, 0).Subgraphs(0)
    return [graph.Tensors(number).Name().decode() for number in range(graph.TensorsLength())]
