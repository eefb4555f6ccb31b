"""Every public layer, model and loss comes back from its configuration with all its arguments."""

import inspect

import numpy as np
import pytest

from doap_tf import losses, networks

SERIALIZABLE = [
    (networks.L2Net, {"output_dim": 7, "width": 0.5, "dropout": 0.3, "synchronized": True}),
    (
        networks.FastTrunk,
        {"preset": "tiny", "output_dim": 7, "width": 0.5, "dropout": 0.3, "synchronized": True},
    ),
    (
        networks.SpatialTransformer,
        {"output_size": 16, "padding": "symmetric", "synchronized": True},
    ),
    (
        networks.DescriptorNetwork,
        {
            "output_dim": 16,
            "head": "binary",
            "width": 0.5,
            "dropout": 0.2,
            "spatial_transformer": True,
            "padding": "zeros",
            "magnification": 7.5,
            "synchronized": True,
            "trunk": "fast",
        },
    ),
    (
        networks.DenseNetwork,
        {
            "filters": [[4], [4], [4], [4], [4]],
            "hidden": 8,
            "output_dim": 16,
            "head": "binary",
            "score_filters": 4,
            "synchronized": True,
        },
    ),
    (
        losses.AveragePrecisionLoss,
        {
            "distance": "hamming",
            "bins": 9,
            "form": "fast",
            "chunk_size": 5,
            "far_apart": np.ones([1, 2, 2], bool).tolist(),
            "from_relations": True,
            "name": "other",
        },
    ),
    *(
        (
            loss,
            {
                "margin": 0.5,
                "distance": "hamming",
                "far_apart": np.ones([1, 2, 2], bool).tolist(),
                "from_relations": True,
                "name": "other",
            },
        )
        for loss in (losses.HardestInBatchLoss, losses.HardNetLoss)
    ),
]


@pytest.mark.parametrize(("kind", "arguments"), SERIALIZABLE, ids=lambda case: str(case)[:40])
def test_configuration_holds_every_argument(kind, arguments):
    parameters = inspect.signature(kind.__init__).parameters
    named = {name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD} - {"self"}
    assert named == set(arguments), "this test must give every argument another value"
    config = kind(**arguments).get_config()
    assert {name: config[name] for name in named} == arguments
    assert kind.from_config(config).get_config() == config
