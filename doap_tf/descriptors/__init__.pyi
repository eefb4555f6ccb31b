from .descriptor import Backend as Backend, Descriptor as Descriptor
from .handcrafted import HANDCRAFTED as HANDCRAFTED, HandcraftedDescriptor as HandcraftedDescriptor
from .protocol import FrameDescriptor as FrameDescriptor, PatchDescriptor as PatchDescriptor
