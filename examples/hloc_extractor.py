"""Our features in hloc: copy this file to hloc/extractors/doap.py of your checkout.

    conf = {
        "output": "feats-doap-dense-128",
        "model": {"name": "doap", "model": "doap-dense-128", "max_keypoints": 4096},
        "preprocessing": {"grayscale": True, "resize_max": 1024},
    }
    hloc.extract_features.main(conf, images, outputs)

Match with `hloc.match_features.confs["NN-mutual"]`. hloc ignores EXIF orientations, and networks of
whole images stand upright: for cameras that were turned, write hloc's files with match_main.py.
"""

from typing import ClassVar

import numpy as np
import torch
from hloc.utils.base_model import BaseModel

from doap_tf import DescriptorExtractor
from doap_tf.matching.image_features import unit_rows


class Doap(BaseModel):
    """Keypoints and descriptors by `DescriptorExtractor`, which has the names of models."""

    default_conf: ClassVar = {
        "model": "doap-dense-128",
        "detector": "doap-dense-small-256b",  # for networks of patches
        "max_keypoints": 8192,
    }
    required_inputs: ClassVar = ["image"]

    def _init(self, conf):
        self._extractor = DescriptorExtractor(
            conf["model"], conf["detector"], max(conf["max_keypoints"] or 0, 0)
        )

    def _forward(self, data):
        images = data["image"].cpu().numpy()  # [B, 1 or 3, H, W], RGB, 0 to 1
        found = [self._features(image.transpose(1, 2, 0)[..., ::-1]) for image in images]
        device = data["image"].device
        return {
            name: [torch.from_numpy(features[name]).to(device) for features in found]
            for name in found[0]
        }

    def _features(self, image):
        features = self._extractor.extract(np.rint(image * 255).astype(np.uint8))
        rows = unit_rows(features.descriptors, features.norm)
        return {
            "keypoints": features.points,  # float64: hloc would round float32 to half precision
            "scores": features.responses,
            "descriptors": np.ascontiguousarray(rows.T),
            "scales": features.scales,
            "oris": np.degrees(features.angles),
        }
