from .groups import (
    Groups as Groups,
    GroupSettings as GroupSettings,
    cut_groups as cut_groups,
    generate_groups as generate_groups,
    sample_groups as sample_groups,
)
from .scenes import (
    KINDS as KINDS,
    Scene as Scene,
    default_scenes as default_scenes,
    find_scenes as find_scenes,
    split_scenes as split_scenes,
)
from .strip_writer import write_strips as write_strips
from .view_pairs import ViewPairs as ViewPairs, Views as Views
