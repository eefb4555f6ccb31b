import pathlib
import re

import pytest
from google.protobuf import text_format

from doap_tf.serving import client

SERVING = pathlib.Path(__file__).parents[2] / "serving"


def test_models_config_is_one_of_the_server():
    messages = pytest.importorskip("tensorflow_serving.config.model_server_config_pb2")
    text = (SERVING / "models.config").read_text()
    config = text_format.Parse(text, messages.ModelServerConfig())
    for model in config.model_config_list.config:
        assert model.base_path == f"/models/{model.name}"


def test_the_server_takes_what_the_client_sends_at_once():
    text = (SERVING / "batching.config").read_text()
    (largest,) = re.findall(r"^max_batch_size \{ value: (\d+) \}", text, re.MULTILINE)
    assert int(largest) >= client._PATCHES_PER_REQUEST
    assert "pad_variable_length_inputs: false" in text


def test_compose_mounts_every_file_it_names():
    text = (SERVING / "docker-compose.yml").read_text()
    named = set(re.findall(r"=/config/(\S+)", text))
    mounted = set(re.findall(r"\./(\S+):/config/\1:ro", text))
    assert named == mounted == {path.name for path in SERVING.glob("*.config")}
