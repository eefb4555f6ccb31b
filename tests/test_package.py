import subprocess
import sys


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_import_is_cheap_and_silent():
    finished = run(
        "import sys, doap_tf; print(sorted({'tensorflow', 'cv2', 'tensorflow_datasets'}"
        " & set(sys.modules)), doap_tf.__version__ != '')"
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "[] True\n" and finished.stderr == ""


def test_unknown_attributes_are_attribute_errors():
    finished = run("import doap_tf; print(hasattr(doap_tf, 'nothing'))")
    assert finished.stdout == "False\n", finished.stderr


def test_networks_losses_and_export_need_neither_opencv_nor_tfds():
    finished = run(
        "import sys; sys.modules.update(cv2=None, tensorflow_datasets=None);"
        "import doap_tf.networks, doap_tf.losses, doap_tf.descriptors.descriptor;"
        "from doap_tf.export import *"
    )
    assert finished.returncode == 0, finished.stderr
