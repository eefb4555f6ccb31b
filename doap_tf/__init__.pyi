from .catalogue import list_pretrained as list_pretrained
from .descriptors.descriptor import Descriptor as Descriptor
from .matching import DescriptorExtractor as DescriptorExtractor, match_images as match_images
from .version import __version__ as __version__
from .zoo.loading import from_pretrained as from_pretrained
