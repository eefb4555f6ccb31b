"""Reading and writing the metadata inside a .tflite file."""

import json
from typing import Any

#: What .tflite files of descriptors compute in.
PRECISIONS = ("float32", "float16", "int8")

_NAME = "doap_tf"


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
