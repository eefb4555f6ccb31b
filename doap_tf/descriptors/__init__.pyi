from .descriptor import Backend as Backend, Descriptor as Descriptor
from .handcrafted import HANDCRAFTED as HANDCRAFTED, HandcraftedDescriptor as HandcraftedDescriptor
from .protocol import FrameDescriptor as FrameDescriptor, PatchDescriptor as PatchDescriptor
from .registry import (
    from_pretrained as from_pretrained,
    list_pretrained as list_pretrained,
    load as load,
)
