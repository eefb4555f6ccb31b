import os

import pytest

from doap_tf.quiet import stderr_discarded


def test_native_output_is_discarded_inside_the_block_only(capfd):
    with pytest.raises(KeyError), stderr_discarded():
        os.write(2, b"noise")
        raise KeyError
    os.write(2, b"kept")
    assert capfd.readouterr().err == "kept"
