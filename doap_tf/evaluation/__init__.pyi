from .homography import Homography as Homography
from .hpatches.benchmark import HPatches as HPatches
from .hpatches.patch_sequences import PatchSequences as PatchSequences
from .hpatches.photos import photo_sequences as photo_sequences
from .image_model import ImageModel as ImageModel, load_image_models as load_image_models
from .model import Model as Model, load_model as load_model, load_models as load_models
from .oxford import Oxford as Oxford
from .pose import Pose as Pose
from .report import (
    comparison_tables as comparison_tables,
    heading as heading,
    protocols as protocols,
    write_report as write_report,
)
from .result import Result as Result
from .rome import Rome as Rome
from .ubc import UBC as UBC
